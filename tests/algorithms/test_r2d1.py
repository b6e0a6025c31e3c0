"""R2D1: targets, losses, gradients and priorities of sequences against a slow reference, one number at a time."""

from __future__ import annotations

from dataclasses import replace
from math import copysign, sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.make import make
from actorlearn.algorithms.q_learning import LEAST_PRIORITY
from actorlearn.algorithms.r2d1 import R2D1, rescale, unscale
from actorlearn.metrics.registry import is_registered
from tests import named, reference

ACTIONS = 3

any_settings = st.builds(
    R2D1.Settings,
    double=st.booleans(),
    dueling=st.booleans(),
    rescale_epsilon=st.sampled_from((None, 0.0, 1e-3, 0.1)),
    priority_eta=st.sampled_from((0.0, 0.9, 1.0)),
    reduction=st.sampled_from(("mean", "sum")),
    loss_scale=st.sampled_from((1.0, 2.0)),
)


def sequences(length: int, steps: int, count: int, seed: int) -> Batch:
    """Random sequences as replay gives them: some rows have no transition, some returns are short or end a game."""
    generator = torch.Generator().manual_seed(seed)
    valid = torch.rand(length, count, generator=generator) < 0.8
    reached = torch.arange(length)[:, None] + torch.randint(1, steps + 1, (length, count), generator=generator)
    discount = torch.rand(length, count, generator=generator)
    return Batch.plain(
        observation=torch.rand(length + steps, count, 1, generator=generator),
        action=torch.randint(ACTIONS, (length, count), generator=generator).where(valid, -1),
        reward=torch.randn(length, count, generator=generator) * 10,
        valid=valid,
        columns={
            "discount": discount.where(discount > 0.3, 0.0),
            "reached": reached,
            "weight": (torch.rand(1, count, generator=generator) + 0.1).expand(length, -1),
        },
    )


def outputs_of(algorithm: R2D1, rows: int, count: int, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: 2.0 * torch.randn(rows, count, size, generator=generator, dtype=torch.float64)
        for name, size in algorithm.heads(ACTIONS).items()
    }


def prepared(algorithm: R2D1, batch: Batch, target: dict[str, Tensor]) -> Batch:
    """The batch, prepared with the target network's outputs of all rows but the first."""
    return algorithm.prepare(batch, {f"target.{name}": output[1:] for name, output in target.items()})


def h(x: float, epsilon: float | None) -> float:
    return x if epsilon is None else copysign(sqrt(abs(x) + 1) - 1, x) + epsilon * x


def h_inverse(y: float, epsilon: float | None) -> float:
    """The inverse of h, by bisection."""
    if epsilon is None:
        return y
    low, high = -1e6, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if h(middle, epsilon) < y else (low, middle)
    return (low + high) / 2


def errors(outputs: dict[str, Tensor], target: dict[str, Tensor], batch: Batch, s: R2D1.Settings) -> list[list[float]]:
    """The errors of the valid transitions of each sequence."""
    found = []
    for b in range(batch.action.shape[1]):
        found.append([])
        for t in range(len(batch.action)):
            if not batch.valid[t, b]:
                continue
            row = int(batch.columns["reached"][t, b])
            following = q_values(target, s, row, b)
            judged = q_values(outputs, s, row, b) if s.double else following
            best = max(range(ACTIONS), key=lambda action: judged[action])
            value = h_inverse(following[best], s.rescale_epsilon)
            y = h(float(batch.reward[t, b]) + float(batch.columns["discount"][t, b]) * value, s.rescale_epsilon)
            found[-1].append(y - q_values(outputs, s, t, b)[int(batch.action[t, b])])
    return found


def q_values(outputs: dict[str, Tensor], settings: R2D1.Settings, row: int, b: int) -> list[float]:
    return reference.q_values({name: output[row : row + 1] for name, output in outputs.items()}, settings, b)


@given(
    settings=any_settings,
    length=st.integers(1, 5),
    steps=st.integers(1, 3),
    count=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_losses_and_priorities_equal_the_slow_reference(settings, length, steps, count, seed):
    algorithm, batch = R2D1(settings), sequences(length, steps, count, seed)
    outputs, target = (outputs_of(algorithm, length + steps, count, 2 * seed + k) for k in range(2))
    loss, metrics = algorithm.loss(outputs, prepared(algorithm, batch, target), 0.5)
    of_sequences = errors(outputs, target, batch, settings)
    weights = batch.columns["weight"][0].tolist()
    terms = [w * 0.5 * e**2 for w, errors_of in zip(weights, of_sequences, strict=True) for e in errors_of]
    total = sum(terms) / (max(len(terms), 1) if settings.reduction == "mean" else 1)
    assert loss.item() == pytest.approx(settings.loss_scale * total, rel=1e-4, abs=1e-5)
    eta = settings.priority_eta
    priorities = [
        eta * max(map(abs, found)) + (1 - eta) * sum(map(abs, found)) / len(found) if found else 0.0
        for found in of_sequences
    ]
    metrics = dict(metrics)
    found = metrics.pop("priority")
    assert found.shape == (1, count)
    assert found[0].tolist() == pytest.approx([max(p, LEAST_PRIORITY) for p in priorities], rel=1e-4, abs=1e-5)
    assert all(metric.ndim == 0 and not metric.requires_grad for metric in metrics.values())
    assert all(map(is_registered, metrics)), metrics.keys()


@given(settings=any_settings, seed=st.integers(0, 1000))
def test_only_the_values_of_played_actions_have_a_gradient(settings, seed):
    settings = R2D1.Settings(double=settings.double, rescale_epsilon=settings.rescale_epsilon, loss_scale=1.0)
    algorithm, batch = R2D1(settings), sequences(3, 2, 2, seed)
    outputs, target = (outputs_of(algorithm, 5, 2, 2 * seed + k) for k in range(2))
    outputs["q"].requires_grad_()
    algorithm.loss(outputs, prepared(algorithm, batch, target), 0.0)[0].backward()
    expected = torch.zeros(5, 2, ACTIONS, dtype=torch.float64)
    detached = {"q": outputs["q"].detach()}
    valid = int(batch.valid.sum())
    for b, found in enumerate(errors(detached, target, batch, settings)):
        for t, error in zip(batch.valid[:, b].nonzero()[:, 0].tolist(), found, strict=True):
            expected[t, b, batch.action[t, b]] = -float(batch.columns["weight"][t, b]) * error / valid
    torch.testing.assert_close(outputs["q"].grad, expected, rtol=1e-4, atol=1e-6)


@given(x=st.floats(-1e4, 1e4), epsilon=st.sampled_from((0.0, 1e-6, 1e-3, 0.1, 1.0)))
def test_unscale_is_the_inverse_of_rescale(x: float, epsilon: float) -> None:
    there = rescale(torch.tensor(x, dtype=torch.float64), epsilon)
    assert there.item() == pytest.approx(h(x, epsilon))
    assert unscale(there, epsilon).item() == pytest.approx(x, rel=1e-6, abs=1e-9)


def test_rescale_and_unscale_keep_their_digits_in_float32() -> None:
    x = torch.linspace(-300.0, 300.0, 1001)
    torch.testing.assert_close(unscale(rescale(x, 1e-3), 1e-3), x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("epsilon", [None, 1e-3])
def test_metrics_report_unscaled_values(epsilon: float | None) -> None:
    algorithm, batch = R2D1(R2D1.Settings(rescale_epsilon=epsilon)), sequences(4, 2, 3, 1)
    expected = torch.full((6, 3, ACTIONS), 9.0)
    outputs = {"q": expected if epsilon is None else rescale(expected, epsilon)}
    batch.reward[:], batch.columns["discount"][:] = -4.0, 0.5
    _, metrics = algorithm.loss(outputs, prepared(algorithm, batch, outputs), 0.0)
    assert metrics["q_mean"].item() == pytest.approx(9.0, rel=1e-5)
    assert metrics["target_mean"].item() == pytest.approx(-4.0 + 0.5 * 9.0, rel=1e-5)


def test_values_after_the_end_of_a_game_and_rows_without_transitions_have_no_effect() -> None:
    algorithm, batch = R2D1(R2D1.Settings()), sequences(4, 2, 3, 1)
    outputs, target = (outputs_of(algorithm, 6, 3, k) for k in range(2))
    batch.columns["discount"][:] = 0.0
    whole = prepared(algorithm, batch, target)
    whole.columns["following"][:] = float("nan")
    reward = batch.reward.where(batch.valid, float("nan"))
    loss, metrics = algorithm.loss(outputs, replace(whole, reward=reward), 0.0)
    assert loss.isfinite() and metrics["priority"].isfinite().all()


def test_sequences_can_be_split_by_environments() -> None:
    algorithm, batch = R2D1(R2D1.Settings(double=True)), sequences(4, 2, 3, 2)
    outputs, target = (outputs_of(algorithm, 6, 3, k) for k in range(2))
    whole, part = prepared(algorithm, batch, target), torch.tensor([2, 0])
    of_part = algorithm.loss({k: v[:, part] for k, v in outputs.items()}, whole.environments(part), 0.0)[1]["priority"]
    torch.testing.assert_close(of_part, algorithm.loss(outputs, whole, 0.0)[1]["priority"][:, part])


def test_outputs_of_other_rows_are_refused() -> None:
    algorithm, batch = R2D1(R2D1.Settings()), sequences(4, 2, 3, 2)
    outputs = outputs_of(algorithm, 6, 3, 0)
    whole = prepared(algorithm, batch, outputs)
    with pytest.raises(ValueError, match=r"outputs have shape \(4, 3\).*the batch has \(6, 3\)"):
        algorithm.loss({name: output[:4] for name, output in outputs.items()}, whole, 0.0)


def test_r2d1_is_made_by_name_and_explores_as_dqn() -> None:
    algorithm = make(named.algorithm(name="r2d1"))
    assert isinstance(algorithm, R2D1)
    assert algorithm.settings.exploration == named.algorithm(name="dqn").exploration
