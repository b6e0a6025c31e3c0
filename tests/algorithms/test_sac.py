"""SAC: densities by numeric integration; targets and losses against slow references, one number at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import exp, log, pi, tanh
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from actorlearn.actions import MultiDiscrete
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.make import extra_networks, make
from actorlearn.algorithms.sac import CRITICS, SAC, TanhGaussian, log_slope
from actorlearn.algorithms.settings import Polyak
from actorlearn.metrics.registry import is_registered
from actorlearn.models.make import make as make_model
from actorlearn.models.several import networks
from tests import named

NUMBERS, SEEN = 2, 3

any_settings = st.builds(
    SAC.Settings,
    target_entropy=st.sampled_from((None, 0.0, -5.0)),
    reduction=st.sampled_from(("mean", "sum")),
    loss_scale=st.sampled_from((1.0, 2.0)),
)


def transitions(count: int, seed: int) -> Batch:
    """Random transitions as a replay gives them: some are void, some end the game."""
    generator = torch.Generator().manual_seed(seed)
    valid = torch.rand(1, count, generator=generator) < 0.8
    discount = torch.rand(1, count, generator=generator)
    return Batch.plain(
        observation=torch.randn(2, count, SEEN, generator=generator),
        action=(2.0 * torch.rand(1, count, NUMBERS, generator=generator) - 1.0).where(valid[..., None], float("nan")),
        reward=torch.randn(1, count, generator=generator),
        valid=valid,
        columns={
            "discount": discount.where(discount > 0.3, 0.0),
            "weight": torch.rand(1, count, generator=generator) + 0.1,
            "reached": torch.ones(1, count, dtype=torch.int64),
        },
    )


class Asked:
    """An algorithm, its networks and its target networks."""

    def __init__(self, settings: Any, seed: int = 0) -> None:
        self.algorithm = SAC(settings)
        model = named.model(name="mlp", hidden_sizes=[5])
        heads, extra = self.algorithm.heads((NUMBERS,)), extra_networks(self.algorithm, (NUMBERS,))
        self.own, older = (
            networks(make_model(model, (SEEN,), "float32", heads, 2 * seed + k, extra)) for k in range(2)
        )
        with torch.no_grad():
            self.own["temperature"]()["log"].fill_(-0.7)
        self.all: dict[str, Callable[..., Mapping[str, Tensor]]] = {
            **self.own,
            **{f"target.{name}": module for name, module in older.items()},
        }

    def losses(self, batch: Batch, seed: int = 0) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        return self.algorithm.losses(self.all, batch, torch.Generator().manual_seed(seed), 0.5)


def drawn(output: Tensor, noise: list[float]) -> tuple[list[float], float]:
    """An action and the logarithm of its density, by the textbook: that of u less log(1 - tanh(u)^2) of each number."""
    action, total = [], 0.0
    for i in range(NUMBERS):
        deviation = exp(min(max(float(output[NUMBERS + i]), -20.0), 2.0))
        u = float(output[i]) + deviation * noise[i]
        action.append(tanh(u))
        total += -0.5 * noise[i] ** 2 - log(deviation) - 0.5 * log(2 * pi) - log(1 - tanh(u) ** 2)
    return action, total


@torch.no_grad()
def reference(asked: Asked, batch: Batch, seed: int) -> dict[str, float]:
    """The losses, one transition at a time; noise is drawn in the algorithm's order: that of the next actions first."""
    s = asked.algorithm.settings
    generator, count = torch.Generator().manual_seed(seed), batch.valid.shape[1]
    later, now = (torch.empty(count, NUMBERS).normal_(generator=generator) for _ in range(2))
    alpha = exp(-0.7)

    def value(name: str, seen: Tensor, action: list[float]) -> float:
        return float(asked.all[name](seen[None], torch.tensor([action]))["value"])

    sums, valid = dict.fromkeys(("actor", "temperature", *CRITICS), 0.0), 0
    for b in range(count):
        if not batch.valid[0, b]:
            continue
        valid += 1
        seen, following = batch.observation[:, b]
        action, density = drawn(asked.own["actor"](following[None])["policy"][0], later[b].tolist())
        soft = min(value(f"target.{name}", following, action) for name in CRITICS) - alpha * density
        target = float(batch.reward[0, b]) + float(batch.columns["discount"][0, b]) * soft
        for name in CRITICS:
            error = target - value(name, seen, batch.action[0, b].tolist())
            sums[name] += 0.5 * float(batch.columns["weight"][0, b]) * error**2
        action, density = drawn(asked.own["actor"](seen[None])["policy"][0], now[b].tolist())
        sums["actor"] += alpha * density - min(value(name, seen, action) for name in CRITICS)
        entropy = -NUMBERS if s.target_entropy is None else s.target_entropy
        sums["temperature"] += 0.7 * (density + entropy)
    over = 1 if s.reduction == "sum" else max(valid, 1)
    return {name: s.loss_scale * total / over for name, total in sums.items()}


@given(settings=any_settings, count=st.integers(1, 6), seed=st.integers(0, 1000))
def test_losses_equal_the_slow_reference(settings: Any, count: int, seed: int) -> None:
    asked, batch = Asked(settings, seed), transitions(count, seed)
    losses, metrics = asked.losses(batch, seed)
    expected = reference(asked, batch, seed)
    assert losses.keys() == expected.keys() == asked.own.keys()
    for name, loss in losses.items():
        assert loss.item() == pytest.approx(expected[name], rel=1e-4, abs=1e-4), name
    assert metrics["priority"].shape == (1, count) and (metrics["priority"][~batch.valid] == 0.0).all()
    assert all(is_registered(name) for name in metrics if name != "priority")
    assert not any(metric.requires_grad for metric in metrics.values())


def test_a_step_along_each_loss_goes_in_the_right_direction() -> None:
    """A step against its own gradient brings values to targets, and the temperature up where entropy is too low."""
    asked, batch = Asked(SAC.Settings(target_entropy=50.0)), transitions(64, 3)
    losses, metrics = asked.losses(batch)
    (slope,) = torch.autograd.grad(losses["temperature"], list(asked.own["temperature"].parameters()))
    assert metrics["entropy"] < 50.0 and slope.item() < 0.0, "descending it raises the temperature"
    parameters = list(asked.own["critic_1"].parameters())
    slopes = torch.autograd.grad(losses["critic_1"], parameters)
    with torch.no_grad():
        for parameter, slope in zip(parameters, slopes, strict=True):
            parameter.sub_(0.01 * slope)
    assert asked.losses(batch)[0]["critic_1"] < losses["critic_1"]


def test_observations_after_a_discount_of_0_and_void_transitions_have_no_effect() -> None:
    asked, batch = Asked(SAC.Settings()), transitions(8, 1)
    columns = {**batch.columns, "discount": torch.zeros(1, 8)}
    ended = replace(batch, columns=columns, valid=torch.arange(8)[None] < 6, action=batch.action.nan_to_num(0.0))
    losses, _ = asked.losses(ended)
    ended.observation[1, 0] = float("inf")
    other = asked.losses(replace(ended, reward=ended.reward.where(ended.valid, 1e6)))[0]
    for name in CRITICS:
        torch.testing.assert_close(losses[name], other[name])


@given(mean=st.floats(-3, 3), log_deviation=st.floats(-2.0, 1.0))
def test_the_density_of_actions_integrates_to_one(mean: float, log_deviation: float) -> None:
    """Over actions a = tanh(u): the sum of density(a) da, and da = (1 - tanh(u)^2) du as finite differences."""
    noise = torch.linspace(-8.0, 8.0, 20_001, dtype=torch.float64)
    output = torch.tensor([mean, log_deviation], dtype=torch.float64).expand(len(noise), 2)

    policy = TanhGaussian(output)
    u = policy.mean[:, 0] + policy.log_deviation[:, 0].exp() * noise
    log_normal = -(0.5 * noise.square() + log_deviation + 0.5 * log(2 * pi))
    density = (log_normal - log_slope(u)).exp()
    action = u.tanh()
    apart = action.diff() > 1e-12  # where float64 still tells neighbours apart
    total = (0.5 * (density[1:] + density[:-1]) * action.diff())[apart].sum()
    lost = 1.0 - float(torch.erf(noise[:-1][apart].abs().max() / 2**0.5))
    assert float(total) == pytest.approx(1.0, abs=1e-3 + lost)


def test_the_logarithm_of_the_slope_is_exact_where_tanh_is_one() -> None:
    u = torch.tensor([-1.5, 0.0, 0.3, 2.0], dtype=torch.float64)
    torch.testing.assert_close(log_slope(u), (1.0 - u.tanh().square()).log())
    far = torch.tensor([-60.0, 60.0], requires_grad=True)
    torch.testing.assert_close(log_slope(far), 2 * log(2.0) - 2 * far.abs())
    (slope,) = torch.autograd.grad(log_slope(far).sum(), far)
    torch.testing.assert_close(slope, torch.tensor([2.0, -2.0]))


def test_actions_are_drawn_within_the_bounds_and_the_greedy_one_is_that_of_the_mean() -> None:
    algorithm = SAC(SAC.Settings())
    algorithm.heads((1,))
    outputs = {"policy": torch.tensor([0.5, -1.0]).expand(20_000, 2)}
    action = algorithm.act(outputs, torch.Generator().manual_seed(0))["action"]
    assert action.shape == (20_000, 1) and action.abs().max() <= 1.0
    u = action.atanh()
    assert float(u.mean()) == pytest.approx(0.5, abs=0.02) and float(u.std()) == pytest.approx(exp(-1.0), rel=0.02)
    greedy = algorithm.act(outputs, torch.Generator(), greedy=True)["action"]
    torch.testing.assert_close(greedy, torch.full((20_000, 1), tanh(0.5)))


def test_random_steps_and_target_rate_make_the_exploration_and_the_target_policy() -> None:
    settings = named.algorithm(name="sac", random_steps=500, target_rate=0.01)
    schedule = settings.exploration
    assert (schedule.initial, schedule.final, schedule.hold_steps + schedule.steps) == (1.0, 0.0, 500)
    assert settings.target == Polyak(0.01) and named.algorithm(name="sac", random_steps=0).exploration is None


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        (3, "3 discrete actions; use dqn, a2c, ppo or impala"),
        (MultiDiscrete((3, 2)), r"several choices at once, of \[3, 2\]; use a2c, ppo or impala"),
    ],
)
def test_actions_other_than_box_are_refused(actions: Any, words: str) -> None:
    with pytest.raises(
        ValueError, match=f"'sac' supports only Box actions, but this environment's actions are {words}"
    ):
        make(named.algorithm(name="sac")).heads(actions)
