"""PQN: targets, loss and gradient against slow references and by hand, recorded values, and learning."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from actorlearn.actions import MultiDiscrete
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.pqn import PQN
from actorlearn.metrics.registry import is_registered
from tests import reference
from tests.acting.policies import policy
from tests.algorithms.episodes import BOTH, GO, LIFE, RESET, TERMINATED, TRUNCATED, batch_of, batches

settings_of_all_kinds = st.builds(
    PQN.Settings,
    q_lambda=st.sampled_from((0.0, 0.65, 1.0)),
    dueling=st.booleans(),
    discount=st.sampled_from((0.0, 0.9, 1.0)),
    loss_scale=st.sampled_from((1.0, 5.0)),
    reduction=st.sampled_from(("mean", "sum")),
    reward_clip=st.sampled_from((None, 0.5)),
    life_loss_terminal=st.booleans(),
    bootstrap_on_truncation=st.booleans(),
)


def outputs_of(algorithm: PQN, *rows: int, seed: int) -> dict[str, Tensor]:
    """Random outputs [*rows, size] in float64 that require a gradient."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(*rows, size, generator=generator, dtype=torch.float64).requires_grad_()
        for name, size in algorithm.heads(3).items()
    }


def prepared(algorithm: PQN, batch: Batch, seed: int = 0) -> tuple[Batch, Tensor]:
    """The batch with its targets, and the best actions' values that these are made of, [T+1, B]."""
    last = {name: output.detach() for name, output in outputs_of(algorithm, 1, batch.valid.shape[1], seed=seed).items()}
    best = torch.cat([batch.columns["value"], algorithm.values(last).amax(-1)])
    return algorithm.prepare(batch, last), best


@given(batch=batches(actions=(3,)), settings=settings_of_all_kinds)
def test_loss_and_gradient_equal_the_slow_reference(batch: Batch, settings: PQN.Settings) -> None:
    algorithm = PQN(settings)
    made, best = prepared(algorithm, batch)
    outputs = outputs_of(algorithm, 1, batch.valid.numel(), seed=1)
    loss, metrics = algorithm.loss(outputs, made, 0.5)
    assert all(map(is_registered, metrics)), metrics.keys()
    as_rows = {name: output[0].unflatten(0, batch.valid.shape) for name, output in outputs.items()}
    slow = reference.pqn_loss(as_rows, batch, best, settings)
    torch.testing.assert_close(loss, slow, rtol=1e-5, atol=1e-5)  # the column is float32
    if batch.valid.any():
        found, expected = (torch.autograd.grad(x, list(outputs.values())) for x in (loss, slow))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@given(batch=batches(actions=(3,)), settings=settings_of_all_kinds)
def test_the_content_of_an_ignored_transition_changes_nothing(batch: Batch, settings: PQN.Settings) -> None:
    algorithm = PQN(settings)
    garbage = replace(
        batch,
        action=batch.action.where(batch.valid, -1),
        reward=batch.reward.where(batch.valid, torch.nan),
    )
    results = []
    for seen in (batch, garbage):
        made, _ = prepared(algorithm, seen)
        outputs = outputs_of(algorithm, 1, batch.valid.numel(), seed=1)
        loss, metrics = algorithm.loss(outputs, made, 0.0)
        loss.backward()
        for output in outputs.values():
            assert output.grad is not None and not output.grad[0][~batch.valid.flatten()].any()
        results.append([loss.item(), *(metric.item() for metric in metrics.values())])
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("words", "keys", "targets"),
    [
        # Rewards 1, 2, 4; best values of the rows 10, 20, 30, 40; discount 1/2; lambda 1/4.
        ([GO, GO, GO], {}, [1 + 0.5 * (0.25 * 16.25 + 0.75 * 20), 2 + 0.5 * (0.25 * 24 + 0.75 * 30), 4 + 0.5 * 40]),
        # The action before a terminal state has its reward alone; the next transition is the reset.
        ([GO, TERMINATED, RESET], {}, [1 + 0.5 * (0.25 * 2 + 0.75 * 20), 2]),
        # A time limit: the value of the final observation, which is the row behind it, and nothing of the next game.
        ([GO, TRUNCATED, RESET], {}, [1 + 0.5 * (0.25 * 17 + 0.75 * 20), 2 + 0.5 * 30]),
        ([GO, TRUNCATED, RESET], {"bootstrap_on_truncation": False}, [1 + 0.5 * (0.25 * 2 + 0.75 * 20), 2]),
        ([GO, BOTH, RESET], {}, [1 + 0.5 * (0.25 * 2 + 0.75 * 20), 2]),
        # A lost life ends the return if it is to, and the game is played on.
        ([GO, LIFE, GO], {"life_loss_terminal": True}, [1 + 0.5 * (0.25 * 2 + 0.75 * 20), 2, 24]),
    ],
)
def test_targets_equal_those_computed_by_hand(words: list[str], keys: dict[str, bool], targets: list[float]) -> None:
    settings = msgspec.convert(
        {"discount": 0.5, "q_lambda": 0.25, "reward_clip": None, "bootstrap_on_truncation": True, **keys}, PQN.Settings
    )
    batch = batch_of(words)
    batch = replace(
        batch,
        reward=torch.tensor([[1.0], [2.0], [4.0]]).where(batch.valid, 0.0),
        columns={"value": torch.tensor([[10.0], [20.0], [30.0]])},
    )
    made = PQN(settings).prepare(batch, {"q": torch.tensor([[[-5.0, 40.0, 3.0]]])})
    assert made.columns["target"][made.valid].tolist() == targets


def test_transitions_are_separated_and_sequences_of_recurrent_networks_stay_whole() -> None:
    batch = batch_of([GO, GO, GO], [GO, TERMINATED, RESET])
    batch = replace(batch, observation=torch.arange(8.0).view(4, 2, 1))
    made, _ = prepared(PQN(PQN.Settings()), batch)
    assert made.observation.flatten().tolist() == list(range(6))  # without the last row
    assert made.action.shape == made.first.shape == made.columns["target"].shape == (1, 6)
    state = torch.zeros(3, 2, 5)
    whole, _ = prepared(PQN(PQN.Settings()), replace(batch, columns={**batch.columns, "state": state}))
    assert whole.observation.shape == (3, 2, 1) and whole.action.shape == whole.columns["target"].shape == (3, 2)


def test_outputs_of_other_rows_than_the_prepared_are_refused() -> None:
    algorithm = PQN(PQN.Settings())
    made, _ = prepared(algorithm, batch_of([GO, GO], [GO, GO]))
    with pytest.raises(ValueError, match=r"pqn: outputs\['q'\] has the shape \(1, 3, .*must be \(1, 4\)"):
        algorithm.loss(outputs_of(algorithm, 1, 3, seed=0), made, 0.0)


def test_only_discrete_actions_are_accepted() -> None:
    for actions in ((2,), MultiDiscrete((3, 2))):
        with pytest.raises(ValueError, match="'pqn' supports only Discrete actions"):
            PQN(PQN.Settings()).heads(actions)


def test_the_recorded_value_is_that_of_the_best_action_whichever_is_played() -> None:
    acting, seen = policy(algorithm="pqn"), torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
    best = acting.choose(seen, 0, greedy=True)
    always, never = (acting.choose(seen, 0, epsilon=torch.full((400,), share)) for share in (1.0, 0.0))
    assert torch.equal(never["action"], best["action"])
    assert 150 < int((always["action"] == best["action"]).sum()) < 250, "a half by luck"
    q, _ = acting.network(seen)["q"].detach().max(-1)
    for chosen in (best, always, never):
        torch.testing.assert_close(chosen["value"], q)


@pytest.mark.parametrize(("q_lambda", "dueling"), [(0.0, False), (0.65, True)])
def test_descending_the_loss_learns_what_two_steps_are_worth(q_lambda: float, dueling: bool) -> None:
    """Action 1, which leads on, and then action 2 pay 1 together; any other first action ends the game and pays 0.4."""
    algorithm = PQN(PQN.Settings(q_lambda=q_lambda, dueling=dueling, discount=0.9, loss_scale=1.0))
    parameters = {name: torch.zeros(2, size, requires_grad=True) for name, size in algorithm.heads(3).items()}
    source = torch.Generator().manual_seed(0)
    for _ in range(150):
        with torch.no_grad():
            best = algorithm.act({name: p[:1].expand(32, -1) for name, p in parameters.items()}, source)
            then = algorithm.act({name: p[1:].expand(32, -1) for name, p in parameters.items()}, source)
        luck = torch.rand(2, 32, generator=source) < 0.3
        action = torch.where(
            luck, torch.randint(3, (2, 32), generator=source), torch.stack([best["action"], then["action"]])
        )
        on = action[0] == 1
        reward = torch.stack([torch.where(on, 0.0, 0.4), ((action[1] == 2) & on).float()])
        words = [[GO, TERMINATED] if goes_on else [TERMINATED, RESET] for goes_on in on.tolist()]
        batch = batch_of(*words)
        columns = {"value": torch.stack([best["value"], then["value"]])}
        seen = replace(batch, action=action, reward=reward, columns=columns)
        made = algorithm.prepare(seen, {name: torch.zeros(1, 32, p.shape[1]) for name, p in parameters.items()})
        rows = {name: p[:, None].expand(2, 32, -1).flatten(0, 1)[None] for name, p in parameters.items()}
        gradients = torch.autograd.grad(algorithm.loss(rows, made, 0.0)[0], list(parameters.values()))
        with torch.no_grad():
            for parameter, gradient in zip(parameters.values(), gradients, strict=True):
                parameter -= gradient
    values = algorithm.values({name: p.detach() for name, p in parameters.items()})
    assert values.argmax(-1).tolist() == [1, 2]
    assert values[1, 2].item() == pytest.approx(1.0, abs=0.05)
    assert values[0, [0, 2]].tolist() == pytest.approx([0.4, 0.4], abs=0.05)
    if q_lambda == 0.0:  # else the steps at random that followed are part of it
        assert values[0, 1].item() == pytest.approx(0.9, abs=0.05)
