"""Every variant of Q-learning learns a chain of states, without processes: network, replay and trainer in one loop."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from actorlearn.acting.exploration import make as make_exploration
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.make import make as make_algorithm
from actorlearn.models.make import flatten
from actorlearn.models.make import make as make_model
from actorlearn.models.noisy import draw
from actorlearn.optim.interface import make as make_optimizer
from tests import named

STATES, DISCOUNT = 5, 0.9
LEFT, RIGHT = 0, 1
LURE = 0.2
"""Reward at the left end of the chain, one step away; at the right end, five steps away, it is 1."""
WARMUP, MINIBATCH, COPY_EVERY = 64, 32, 20
MODEL = {"name": "mlp", "hidden_sizes": [32]}
SETTINGS = {
    "name": "dqn",
    "loss_scale": 1.0,
    "discount": DISCOUNT,
    "epsilon_final": 0.2,
    "epsilon_hold_steps": 0,
    "epsilon_steps": 300,
}
DISTRIBUTION = {"name": "c51", "atoms": 21, "value_min": -0.5, "value_max": 1.5}
RAINBOW = {**DISTRIBUTION, "double": True, "dueling": True, "n_step": 3}

Step = tuple[int, int, float, bool, int]
"""State, action, reward, whether the game ended, state after."""


def chain(state: int, action: int) -> tuple[float, bool, int]:
    """One step: reward, end, next state."""
    after = state + (1 if action == RIGHT else -1)
    reward = 1.0 if after == STATES else LURE if after < 0 else 0.0
    ended = not 0 <= after < STATES
    return reward, ended, 0 if ended else after


@dataclass
class Replay:
    """All steps in a list, and a priority for each."""

    n_step: int
    alpha: float
    steps: list[Step] = field(default_factory=list)
    priorities: list[float] = field(default_factory=list)

    def add(self, step: Step) -> None:
        self.steps.append(step)
        self.priorities.append(1.0)

    def sample(self, generator: torch.Generator) -> tuple[Tensor, Batch]:
        """Draw with probability priority^alpha; weights are 1 / probability over the largest of the minibatch."""
        share = torch.tensor(self.priorities[: len(self.steps) - self.n_step]).clamp(min=1e-3) ** self.alpha
        chosen = torch.multinomial(share, MINIBATCH, replacement=True, generator=generator)
        weight = 1.0 / share[chosen]
        rows = [self.transition(int(i)) for i in chosen]
        before, action, reward, discount, after = (torch.tensor(column)[None] for column in zip(*rows, strict=True))
        seen = torch.nn.functional.one_hot(torch.cat([before, after]), STATES).float()
        columns = {"discount": discount, "weight": (weight / weight.max())[None]}
        return chosen, Batch.plain(seen, action, reward, columns=columns)

    def transition(self, i: int) -> tuple[int, int, float, float, int]:
        """State, action, n-step return, discount and the state after it."""
        total, discount = 0.0, 1.0
        for step in self.steps[i : i + self.n_step]:
            total, discount = total + discount * step[2], discount * DISCOUNT
            if step[3]:
                discount = 0.0
                break
        return self.steps[i][0], self.steps[i][1], total, discount, step[4]


def learn(
    seed: int = 0, steps: int = 700, noisy: float = 0.0, alpha: float = 0.0, **changes: object
) -> tuple[Tensor, Tensor]:
    """Play and learn; returns the values [STATES, 2] without noise, and all weights."""
    settings = named.algorithm(**{**SETTINGS, **changes})
    algorithm, exploration = make_algorithm(settings), make_exploration(settings, 2)
    assert exploration is not None
    model = named.model(noisy=noisy, **MODEL)
    network, older = (make_model(model, (STATES,), "float32", algorithm.heads(2), seed) for _ in range(2))
    weights, gradients = flatten(network)
    older_weights, _ = flatten(older)
    optimizer = make_optimizer(
        named.optimizer(name="adam", learning_rate=5e-3, epsilon=1e-5, epsilon_hat=True), weights
    )
    generator, replay, state = torch.Generator().manual_seed(seed), Replay(settings.n_step, alpha), 0
    states = torch.eye(STATES)
    for t in range(steps):
        draw(network, generator)
        with torch.no_grad():
            outputs = network(states[state : state + 1])
        epsilon = exploration.epsilon(t, torch.tensor([0]), 1)
        action = int(exploration.explore(algorithm.act(outputs, generator)["action"], generator, epsilon))
        reward, ended, after = chain(state, action)
        replay.add((state, action, reward, ended, after))
        state = after
        if t < WARMUP:
            continue
        if t % COPY_EVERY == 0:
            older_weights.copy_(weights)
        chosen, batch = replay.sample(generator)
        with torch.no_grad():
            seen = {}
            for network_of, prefix, rows in ((older, "target.", 1), (network, "", algorithm.prepared_rows)):
                draw(network_of, generator)
                outputs = network_of(batch.observation[1]) if rows else {}
                seen |= {f"{prefix}{name}": output[None] for name, output in outputs.items()}
            batch = algorithm.prepare(batch, seen)
        draw(network, generator)
        gradients.zero_()
        outputs = {name: output[None] for name, output in network(batch.observation[0]).items()}
        loss, metrics = algorithm.loss(outputs, batch, t / steps)
        loss.backward()
        optimizer.step(weights, gradients, 5e-3)
        for i, priority in zip(chosen.tolist(), metrics["priority"][0].tolist(), strict=True):
            replay.priorities[i] = priority
    draw(network, None)
    with torch.no_grad():
        return algorithm.values(network(states)), weights


@pytest.mark.nightly
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"double": True},
        {"dueling": True},
        {"n_step": 3},
        {"alpha": 0.6},
        {"noisy": 0.5, "epsilon_initial": 0.0, "epsilon_final": 0.0},
        DISTRIBUTION,
        {**RAINBOW, "alpha": 0.5},
        {**RAINBOW, "alpha": 0.5, "noisy": 0.5, "epsilon_initial": 0.0, "epsilon_final": 0.0},
    ],
    ids=["dqn", "double", "dueling", "3-step", "prioritised", "noisy", "c51", "eps-rainbow", "rainbow"],
)
def test_every_variant_learns_to_prefer_the_larger_reward_further_away(changes):
    values, _ = learn(**changes)
    assert values.argmax(-1).tolist() == [RIGHT] * STATES, values
    if changes.get("n_step", 1) == 1:  # returns of several steps mix in what exploration did
        right = torch.tensor([DISCOUNT ** (STATES - 1 - state) for state in range(STATES)])
        torch.testing.assert_close(values[:, RIGHT], right, rtol=0.0, atol=0.15)


def test_learning_depends_on_the_seed_alone():
    changes = {**RAINBOW, "alpha": 0.5, "noisy": 0.5, "steps": 150}
    (_, first), (_, again), (_, other) = (learn(seed, **changes) for seed in (3, 3, 4))
    assert torch.equal(first, again) and not torch.equal(first, other)
