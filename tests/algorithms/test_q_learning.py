"""DQN and C51: targets, losses, gradients and priorities against slow references; acting and its schedule."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from actorlearn.actions import MultiDiscrete
from actorlearn.algorithms.c51 import C51, project
from actorlearn.algorithms.dqn import DQN
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.make import make
from actorlearn.algorithms.q_learning import LEAST_PRIORITY, QLearning
from actorlearn.algorithms.specs.c51 import C51Settings
from actorlearn.metrics.registry import is_registered
from tests import named, reference

KINDS = [DQN, C51]
ACTIONS = 3


class EveryKey(C51Settings, frozen=True, kw_only=True, tag="this"):
    """The keys of dqn and c51, so that one example may be either's."""

    huber_delta: float = 1.0


settings_of_all_kinds = st.builds(
    EveryKey,
    double=st.booleans(),
    dueling=st.booleans(),
    huber_delta=st.sampled_from((0.3, 1.0, 100.0)),
    atoms=st.sampled_from((2, 5, 11)),
    value_min=st.sampled_from((-10.0, -1.0)),
    value_max=st.sampled_from((1.0, 3.0)),
    reduction=st.sampled_from(("mean", "sum")),
    loss_scale=st.sampled_from((1.0, 2.0)),
)


def replayed(count: int, seed: int = 0) -> Batch:
    """Random transitions as replay gives them; a third of them ended their game."""
    generator = torch.Generator().manual_seed(seed)
    ended = torch.randint(3, (1, count), generator=generator) == 0
    return Batch.plain(
        observation=torch.rand(2, count, 1, generator=generator),
        action=torch.randint(ACTIONS, (1, count), generator=generator),
        reward=torch.randn(1, count, generator=generator),
        terminated=ended,
        columns={
            "discount": torch.rand(1, count, generator=generator).where(~ended, 0.0),
            "weight": torch.rand(1, count, generator=generator) + 0.1,
        },
    )


def outputs_of(algorithm: QLearning, count: int, seed: int) -> dict[str, Tensor]:
    """Random outputs of one row, in float64."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: 2.0 * torch.randn(1, count, size, generator=generator, dtype=torch.float64)
        for name, size in algorithm.heads(ACTIONS).items()
    }


def prepared(algorithm: QLearning, batch: Batch, target: dict[str, Tensor], own: dict[str, Tensor]) -> Batch:
    """The batch with its targets, as the trainer asks for them."""
    seen = {f"target.{name}": output for name, output in target.items()}
    return algorithm.prepare(batch, seen | (own if algorithm.prepared_rows else {}))


@pytest.mark.parametrize("kind", KINDS)
@given(settings=settings_of_all_kinds, count=st.integers(1, 5), seed=st.integers(0, 1000))
def test_losses_and_priorities_equal_the_slow_reference(kind, settings, count, seed):
    algorithm, batch = kind(settings), replayed(count, seed)
    outputs, target, own = (outputs_of(algorithm, count, 3 * seed + k) for k in range(3))
    loss, metrics = algorithm.loss(outputs, prepared(algorithm, batch, target, own), 0.5)
    if kind is DQN:
        errors = reference.dqn_errors(outputs, target, own, batch, settings)
        terms = [reference.huber(error, settings.huber_delta) for error in errors]
        priorities = [min(max(abs(error), 1e-6), settings.huber_delta) for error in errors]
    else:
        terms, divergences = zip(*reference.c51_errors(outputs, target, own, batch, settings), strict=True)
        priorities = [min(max(divergence, 1e-6), 1e6) for divergence in divergences]
    assert loss.item() == pytest.approx(reference.weighted(terms, batch, settings), rel=1e-4, abs=1e-5)
    metrics = dict(metrics)
    assert metrics.pop("priority")[0].tolist() == pytest.approx(priorities, rel=1e-4, abs=1e-5)
    assert all(metric.ndim == 0 and not metric.requires_grad for metric in metrics.values())
    assert all(map(is_registered, metrics)), metrics.keys()


@given(count=st.integers(1, 5), seed=st.integers(0, 1000))
def test_dqns_gradient_is_the_error_clipped_at_delta_for_the_played_action_alone(count, seed):
    settings = DQN.Settings(loss_scale=1.0, huber_delta=0.5)
    algorithm, batch = DQN(settings), replayed(count, seed)
    q, target = (outputs_of(algorithm, count, 2 * seed + k) for k in range(2))
    q["q"].requires_grad_()
    algorithm.loss(q, prepared(algorithm, batch, target, {}), 0.0)[0].backward()
    expected = torch.zeros(1, count, ACTIONS, dtype=torch.float64)
    for b, error in enumerate(reference.dqn_errors(q, target, {}, batch, settings)):
        cut = min(max(error, -0.5), 0.5)
        expected[0, b, batch.action[0, b]] = -float(batch.columns["weight"][0, b]) * cut / count
    torch.testing.assert_close(q["q"].grad, expected, rtol=1e-5, atol=1e-6)


def test_c51s_gradient_is_the_difference_of_the_distributions():
    settings = C51.Settings(loss_scale=1.0, atoms=4)
    algorithm, batch = C51(settings), replayed(2)
    outputs, target = (outputs_of(algorithm, 2, k) for k in range(2))
    logits = outputs["q"].requires_grad_()
    made = prepared(algorithm, batch, target, {})
    algorithm.loss(outputs, made, 0.0)[0].backward()
    expected = torch.zeros(1, 2, ACTIONS, 4, dtype=torch.float64)
    for b in range(2):
        action = batch.action[0, b]
        said = logits.detach()[0, b].view(ACTIONS, 4)[action].softmax(-1)
        expected[0, b, action] = batch.columns["weight"][0, b] / 2 * (said - made.columns["target"][0, b])
    torch.testing.assert_close(logits.grad, expected.flatten(-2))


@pytest.mark.parametrize("kind", KINDS)
@given(settings=settings_of_all_kinds, seed=st.integers(0, 100))
def test_prepared_batches_have_one_row_and_can_be_split(kind, settings, seed):
    algorithm, batch = kind(settings), replayed(4, seed)
    outputs, target, own = (outputs_of(algorithm, 4, 3 * seed + k) for k in range(3))
    whole = prepared(algorithm, batch, target, own)
    assert torch.equal(whole.observation, batch.observation[:1]) and whole.first.shape == (1, 4)
    part = torch.tensor([2, 0])
    loss, metrics = algorithm.loss({k: v[:, part] for k, v in outputs.items()}, whole.environments(part), 0.0)
    everything = algorithm.loss(outputs, whole, 0.0)[1]["priority"]
    torch.testing.assert_close(metrics["priority"], everything[:, part])
    assert loss.isfinite()


def test_double_takes_the_target_networks_value_of_the_networks_best_action():
    target = {"target.q": torch.tensor([[[5.0, 1.0, 2.0]]])}
    own = {"q": torch.tensor([[[0.0, 0.0, 9.0]]])}
    batch = replayed(1)
    batch = replace(batch, reward=torch.tensor([[10.0]]), columns={"discount": torch.tensor([[0.5]])})
    for double, expected in ((False, 10.0 + 0.5 * 5.0), (True, 10.0 + 0.5 * 2.0)):
        algorithm = DQN(DQN.Settings(double=double))
        assert algorithm.prepared_rows == int(double)
        made = algorithm.prepare(batch, {**target, **own} if double else target)
        assert made.columns["target"].item() == expected


@given(
    rewards=st.lists(st.floats(-1, 1), min_size=5, max_size=5),
    end=st.integers(0, 5),
    n=st.integers(1, 5),
    seed=st.integers(0, 100),
)
def test_returns_of_n_steps_reach_the_target_through_the_columns(rewards, end, n, seed):
    """The target from a replay's summed reward and discount is the n-step target of the reference."""
    settings = DQN.Settings(n_step=n, discount=0.9)
    ends = [step == end for step in range(5)]
    q = outputs_of(DQN(settings), 5, seed)["q"]
    expected = reference.n_step_target(rewards, ends, q[0].max(-1).values.tolist(), settings)
    steps = min(n, end + 1)
    batch = replayed(1)
    columns = {"discount": torch.tensor([[0.0 if end < n else 0.9**n]], dtype=torch.float64)}
    reward = torch.tensor([[sum(0.9**k * rewards[k] for k in range(steps))]], dtype=torch.float64)
    made = DQN(settings).prepare(replace(batch, reward=reward, columns=columns), {"target.q": q[:, steps - 1 : steps]})
    assert made.columns["target"].item() == pytest.approx(expected, abs=1e-6)


def test_the_target_at_the_end_of_a_game_is_the_reward():
    batch = replace(replayed(1), reward=torch.tensor([[2.0]]))
    batch = replace(batch, columns={"discount": torch.zeros(1, 1), "weight": torch.ones(1, 1)})
    made = DQN(DQN.Settings()).prepare(batch, {"target.q": torch.full((1, 1, ACTIONS), math.nan)})
    assert made.columns["target"].item() == 2.0
    algorithm = C51(C51.Settings(atoms=5, value_min=0.0, value_max=4.0))
    made = algorithm.prepare(batch, {f"target.{k}": v for k, v in outputs_of(algorithm, 1, 0).items()})
    torch.testing.assert_close(made.columns["target"][0, 0], torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0]).double())


@pytest.mark.parametrize("kind", KINDS)
def test_a_transition_without_an_error_keeps_the_least_priority(kind):
    algorithm, outputs = kind(kind.Settings()), outputs_of(kind(kind.Settings()), 2, 0)
    batch = prepared(algorithm, replayed(2), outputs_of(algorithm, 2, 1), {})
    said = algorithm.numbers_of_played(outputs, batch)
    batch.columns["target"] = said.squeeze(-1) if kind is DQN else said.double().softmax(-1)
    assert algorithm.loss(outputs, batch, 0.0)[1]["priority"].tolist() == [[pytest.approx(LEAST_PRIORITY)] * 2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_transition_that_is_not_valid_changes_nothing_and_has_no_priority(kind):
    algorithm, batch = kind(kind.Settings()), replayed(3)
    valid = torch.tensor([[True, False, True]])
    results = []
    for noise in (0.0, math.nan):
        seen = replace(
            batch, valid=valid, reward=batch.reward.where(valid, noise), action=batch.action.where(valid, -1)
        )
        outputs = {k: v.requires_grad_() for k, v in outputs_of(algorithm, 3, 0).items()}
        loss, metrics = algorithm.loss(outputs, prepared(algorithm, seen, outputs_of(algorithm, 3, 1), {}), 0.0)
        loss.backward()
        assert not outputs["q"].grad[0, 1].any() and metrics["priority"][0, 1] == 0.0
        results.append((loss.item(), metrics["priority"].tolist(), outputs["q"].grad.tolist()))
    assert results[0] == results[1]


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_of_other_rows_than_the_prepared_are_refused(kind):
    algorithm = kind(kind.Settings())
    made = prepared(algorithm, replayed(3), outputs_of(algorithm, 3, 0), {})
    with pytest.raises(
        ValueError, match=rf"{algorithm.settings.name}: outputs\['q'\] has the shape \(1, 2, .*must be \(1, 3\)"
    ):
        algorithm.loss(outputs_of(algorithm, 2, 0), made, 0.0)


@pytest.mark.parametrize(("kind", "numbers"), [(DQN, 1), (C51, 51)])
def test_heads_are_of_each_action_or_with_dueling_of_value_and_advantage(kind, numbers):
    name = kind.__name__.lower()
    algorithm = make(named.algorithm(name=name))
    assert isinstance(algorithm, kind)
    assert algorithm.heads(6) == {"q": 6 * numbers} and algorithm.columns(6) == {}
    assert kind(kind.Settings(dueling=True)).heads(6) == {"value": numbers, "advantage": 6 * numbers}
    with pytest.raises(ValueError, match=rf"'{name}' supports only Discrete .* Box of shape \[2\]; use sac, a2c"):
        algorithm.heads((2,))
    with pytest.raises(
        ValueError, match=rf"'{name}' supports only Discrete .* several choices at once, of \[3, 2\]; use a2c"
    ):
        algorithm.heads(MultiDiscrete((3, 2)))


@given(
    weights=st.lists(st.integers(0, 5), min_size=4, max_size=4).filter(any),
    reward=st.floats(-20, 20),
    discount=st.floats(0, 1),
    atoms=st.integers(2, 7),
)
def test_projection_equals_a_double_loop_and_keeps_the_sum(weights, reward, discount, atoms):
    values = torch.linspace(-10.0, 10.0, atoms, dtype=torch.float64)
    p = torch.tensor(weights[: min(atoms, 4)], dtype=torch.float64)
    p = torch.cat([p, torch.ones(atoms - len(p), dtype=torch.float64)])
    p = p / p.sum() if p.sum() else torch.full_like(p, 1 / atoms)
    found = project(torch.stack([p, p.flip(0)]), reward + discount * values, values)
    for row, q in zip(found, (p, p.flip(0)), strict=True):
        expected = reference.projected(q.tolist(), reward, discount, values.tolist())
        assert row.tolist() == pytest.approx(expected, abs=1e-9)
        assert row.sum().item() == pytest.approx(1.0)


def test_projection_equals_that_computed_by_hand():
    """Three atoms; 0.25 from the lower to the middle one; a place on an atom; places beyond the ends."""
    values = torch.tensor([-1.0, 0.0, 1.0])
    for place, expected in ((-0.75, [0.75, 0.25, 0.0]), (0.0, [0.0, 1.0, 0.0]), (-7.0, [1, 0, 0]), (3.0, [0, 0, 1])):
        assert project(torch.ones(1), torch.tensor([place]), values).tolist() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_action_is_taken_and_no_random_number_is_drawn(kind):
    algorithm, generator = kind(kind.Settings()), torch.Generator().manual_seed(0)
    outputs = {name: output[0].float() for name, output in outputs_of(algorithm, 600, 0).items()}
    best, before = algorithm.values(outputs).argmax(-1), generator.get_state()
    for greedy in (False, True):
        chosen = algorithm.act(outputs, generator, greedy)
        assert list(chosen) == ["action"] and torch.equal(chosen["action"], best)
    assert torch.equal(generator.get_state(), before)
