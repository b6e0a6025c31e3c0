"""PPO: the advantages that it prepares, its clips and their schedules, and the proximal policy."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import pytest
import torch
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.ppo import PPO, normalize
from tests import reference
from tests.algorithms.episodes import GO, RESET, TERMINATED, TRUNCATED, batch_of

SETTINGS = PPO.Settings(gae_lambda=0.9, loss_scale=1.0, value_cost=1.0, entropy_cost=0.0)
EPISODES = ([GO, TRUNCATED, RESET, GO], [GO, GO, TERMINATED, RESET])


def one(log_prob: float, advantage: float) -> tuple[Batch, dict[str, Tensor]]:
    """A prepared batch of one transition, whose action had this log-probability when chosen and now has 1/2."""
    columns = {
        "log_prob": torch.full((1, 1), log_prob),
        "value": torch.zeros(1, 1),
        "return": torch.ones(1, 1),
        "advantage": torch.full((1, 1), advantage),
    }
    batch = replace(batch_of([GO]), action=torch.zeros(1, 1, dtype=torch.int64), columns=columns)
    outputs = {"logits": torch.zeros(1, 1, 2, requires_grad=True), "value": torch.zeros(1, 1, 1, requires_grad=True)}
    return batch, outputs


def test_preparing_computes_advantages_from_the_recorded_values_and_that_of_the_last_row() -> None:
    batch = batch_of(*EPISODES)
    last = torch.tensor([[[5.0], [7.0]]])
    made = PPO(SETTINGS).prepare(batch, {"value": last})
    value = torch.cat([batch.columns["value"], last.squeeze(-1)])
    for t, b in batch.valid.nonzero().tolist():
        expected = reference.gae(batch, value, SETTINGS, t, b)
        assert made.columns["advantage"][0, t * 2 + b].item() == pytest.approx(expected, abs=1e-5)
        assert made.columns["return"][0, t * 2 + b].item() == pytest.approx(expected + value[t, b].item(), abs=1e-5)


def test_preparing_separates_transitions_and_leaves_sequences_of_recurrent_networks_whole() -> None:
    batch = batch_of(*EPISODES)
    batch = replace(batch, observation=torch.arange(10.0).view(5, 2, 1))
    last = {"value": torch.zeros(1, 2, 1)}
    made = PPO(SETTINGS).prepare(batch, last)
    assert made.observation.flatten().tolist() == list(range(8))  # without the last row
    assert made.action.shape == made.first.shape == made.columns["log_prob"].shape == (1, 8)
    assert torch.equal(made.action[0], batch.action.flatten())
    part = made.environments(torch.tensor([6, 1]))
    assert part.observation.flatten().tolist() == [6.0, 1.0]
    assert part.reward[0].tolist() == [batch.reward[3, 0].item(), batch.reward[0, 1].item()]
    state = torch.zeros(4, 2, 3)
    whole = PPO(SETTINGS).prepare(replace(batch, columns={**batch.columns, "state": state}), last)
    assert whole.observation.shape == (4, 2, 1) and whole.first.shape == whole.columns["advantage"].shape == (4, 2)
    assert torch.equal(whole.columns["state"], state)


@pytest.mark.parametrize(
    ("ratio", "advantage", "counts"),
    [(1.1, 2.0, 1.1), (1.5, 2.0, 1.2), (1.5, -2.0, 1.5), (0.5, 2.0, 0.5), (0.5, -2.0, 0.8)],
)
def test_the_ratio_is_clipped_where_it_would_gain_more(ratio: float, advantage: float, counts: float) -> None:
    batch, outputs = one(math.log(0.5 / ratio), advantage)
    _, metrics = PPO(SETTINGS).loss(outputs, batch, 0.0)
    assert metrics["policy_loss"].item() == pytest.approx(-counts * advantage)
    assert metrics["clipped_share"].item() == (abs(ratio - 1) > 0.2)
    assert metrics["divergence"].item() == pytest.approx(ratio - 1 - math.log(ratio), abs=1e-6)
    batch, outputs = one(math.log(0.5 / ratio), advantage)
    loss, _ = PPO(SETTINGS).loss(outputs, batch, 0.0)
    gradient = torch.autograd.grad(loss, outputs["logits"])[0]
    assert gradient.any() == (counts == ratio), "a ratio that is cut has no gradient"


@pytest.mark.parametrize("advantage", [2.0, 0.0, -2.0])
@pytest.mark.parametrize("way", [{}, {"proximal": "recomputed"}], ids=["ratio", "weight"])
def test_a_ratio_that_overflows_leaves_a_finite_loss_and_gradient(advantage: float, way: dict[str, str]) -> None:
    batch, outputs = one(-200.0, advantage)
    batch = replace(batch, columns={**batch.columns, "log_prob_before": torch.full((1, 1), -50.0)})
    loss, _ = PPO(msgspec.structs.replace(SETTINGS, **way)).loss(outputs, batch, 0.0)
    gradients = torch.autograd.grad(loss, list(outputs.values()))
    assert torch.isfinite(loss) and all(torch.isfinite(gradient).all() for gradient in gradients)
    assert gradients[1].item() == -2.0  # the value, 0, is still learned


def test_the_ratio_clip_goes_linearly_from_its_first_to_its_final_value() -> None:
    batch, outputs = one(math.log(0.5 / 1.15), 2.0)
    for first, final, expected in ((0.2, 0.0, [1.15, 1.15, 1.1, 1.0]), (0.1, 0.1, [1.1] * 4)):
        algorithm = PPO(PPO.Settings(ratio_clip=first, ratio_clip_final=final))
        told = [algorithm.loss(outputs, batch, progress)[1] for progress in (0.0, 0.25, 0.5, 1.0)]
        assert [-metrics["policy_loss"].item() / 2 for metrics in told] == pytest.approx(expected)


def test_schedules_may_follow_a_cosine() -> None:
    algorithm = PPO(PPO.Settings(ratio_clip=0.2, ratio_clip_final=0.0, schedule="cosine"))
    found = [algorithm.scheduled(0.2, 0.0, progress) for progress in (0.0, 0.25, 0.5, 1.0)]
    assert found == pytest.approx([0.2, 0.1 + 0.1 * math.sqrt(0.5), 0.1, 0.0], abs=1e-9)
    assert algorithm.scheduled(0.2, None, 0.5) == 0.2


def test_the_entropy_cost_goes_linearly_from_its_first_to_its_final_value() -> None:
    annealed = PPO(msgspec.structs.replace(SETTINGS, entropy_cost=0.4, entropy_cost_final=0.0))
    batch, outputs = one(math.log(0.5), 0.0)
    losses = [annealed.loss(outputs, batch, progress)[0].item() for progress in (0.0, 0.5, 1.0)]
    assert losses[0] - losses[2] == pytest.approx(-0.4 * math.log(2))
    assert losses[1] == pytest.approx((losses[0] + losses[2]) / 2)


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [(0.2, 1.0, 0.64), (0.8, 1.0, 0.49), (-0.8, 1.0, 3.24), (0.8, -1.0, 3.24)],
)
def test_the_value_loss_is_the_larger_of_those_of_the_value_and_the_clipped_value(
    value: float, target: float, expected: float
) -> None:
    """The value when acting was 0, and it may move by 0.3."""
    batch, outputs = one(math.log(0.5), 0.0)
    batch.columns["return"].fill_(target)
    outputs["value"] = torch.full((1, 1, 1), value)
    clipped, free = (
        PPO(PPO.Settings(value_clip=clip)).loss(outputs, batch, 0.0)[1]["value_loss"].item() for clip in (0.3, None)
    )
    assert clipped == pytest.approx(expected)
    assert free == pytest.approx((target - value) ** 2)


def test_advantages_are_normalized_over_the_valid_transitions() -> None:
    valid = torch.tensor([[True, True, True, False]])
    found = normalize(valid, torch.tensor([[1.0, 2.0, 6.0, 1000.0]]))[0, :3]
    assert found.mean().item() == pytest.approx(0.0, abs=1e-6)
    assert found.square().mean().item() == pytest.approx(1.0)
    assert not normalize(valid, torch.full((1, 4), 3.0))[0, :3].any()


def test_before_the_first_step_the_gradient_is_that_of_advantage_actor_critic() -> None:
    """With the ratio 1 everywhere, d ratio = d log pi: PPO begins as advantage actor-critic."""
    generator = torch.Generator().manual_seed(3)
    batch = batch_of(*EPISODES)
    logits = torch.randn(4, 2, 3, generator=generator).requires_grad_()
    log_prob = logits.log_softmax(-1).gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
    batch = replace(batch, columns={**batch.columns, "log_prob": log_prob.detach()})
    made = PPO(SETTINGS).prepare(batch, {"value": torch.zeros(1, 2, 1)})
    outputs = {"logits": logits.view(1, 8, 3), "value": torch.zeros(1, 8, 1)}
    found = torch.autograd.grad(PPO(SETTINGS).loss(outputs, made, 0.0)[0], logits)[0]
    advantage = made.columns["advantage"].view(4, 2)
    plain = -(log_prob * advantage)[batch.valid].mean()
    torch.testing.assert_close(found, torch.autograd.grad(plain, logits)[0])


# The policy that the ratio is taken to ----------------------------------------------------------------------


def test_a_recorded_probability_of_zero_makes_the_loss_nan_so_that_the_step_is_skipped() -> None:
    batch, outputs = one(log_prob=-math.inf, advantage=1.0)
    loss, _ = PPO(SETTINGS).loss(outputs, batch, 0.0)
    assert math.isnan(loss.item())


def stale(lag: int, acted: float, before: float, advantage: float = 2.0) -> tuple[Batch, dict[str, Tensor]]:
    """One transition: its action had probability ``acted`` ``lag`` updates ago, ``before`` before the pass; now 1/2."""
    batch, outputs = one(math.log(acted), advantage)
    columns = {**batch.columns, "log_prob_before": torch.full((1, 1), math.log(before))}
    return replace(batch, policy_lag=torch.full((1, 1), lag), columns=columns), outputs


def policy_gradient(settings: PPO.Settings, batch: Batch, outputs: dict[str, Tensor]) -> tuple[float, Tensor]:
    """The policy's loss of a batch, and the gradient of its logits."""
    loss, metrics = PPO(settings).loss(outputs, batch, 0.0)
    return metrics["policy_loss"].item(), torch.autograd.grad(loss, outputs["logits"])[0]


@pytest.mark.parametrize("way", [{"proximal": "recomputed"}, {"proximal": "interpolated"}])
def test_decoupled_ppo_learns_from_on_policy_experience_as_ppo_does_bit_for_bit(way: dict[str, str]) -> None:
    batch = batch_of(*EPISODES)
    batch = replace(batch, policy_lag=torch.zeros_like(batch.policy_lag))
    logits = torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(3))
    before = {"logits": logits, "value": torch.randn(5, 2, 1, generator=torch.Generator().manual_seed(4))}
    chosen = logits[:-1].log_softmax(-1).gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
    batch.columns["log_prob"].copy_(chosen)
    results = []
    for keys in ({}, way):
        algorithm = PPO(msgspec.structs.replace(SETTINGS, **keys))
        made = algorithm.prepare(batch, {name: output[-algorithm.prepared_rows :] for name, output in before.items()})
        outputs = {name: torch.randn(1, 8, size).requires_grad_() for name, size in (("logits", 3), ("value", 1))}
        with torch.no_grad():
            for output in outputs.values():
                output.copy_(torch.linspace(-1, 1, output.numel()).view_as(output).sin())
        loss, _ = algorithm.loss(outputs, made, 0.0)
        results.append([loss.detach(), *torch.autograd.grad(loss, list(outputs.values()))])
    for plain, decoupled in zip(*results, strict=True):
        assert torch.equal(plain, decoupled)


def test_only_the_ratio_to_the_proximal_policy_is_clipped_and_the_rest_is_a_weight() -> None:
    """An action five times as likely as when it was chosen: PPO learns nothing of it, decoupled PPO does."""
    batch, outputs = stale(4, acted=0.1, before=0.45)
    loss, gradient = policy_gradient(SETTINGS, batch, outputs)
    assert loss == pytest.approx(-1.2 * 2.0) and not gradient.any()
    recomputed = msgspec.structs.replace(SETTINGS, proximal="recomputed")
    loss, gradient = policy_gradient(recomputed, *stale(4, acted=0.1, before=0.45))
    assert loss == pytest.approx(-5.0 * 2.0)  # 0.45 / 0.1 * 0.5 / 0.45, which is not clipped
    torch.testing.assert_close(gradient, torch.tensor([[[-5.0, 5.0]]]))  # d pi = pi (1 - pi) of either logit
    loss, gradient = policy_gradient(recomputed, *stale(4, acted=0.1, before=0.3))
    assert loss == pytest.approx(-3.0 * 1.2 * 2.0) and not gradient.any()
    cut = msgspec.structs.replace(recomputed, weight_clip=2.0)
    assert policy_gradient(cut, *stale(4, acted=0.1, before=0.45))[0] == pytest.approx(-2.0 * 0.5 / 0.45 * 2.0)


def test_the_interpolated_policy_lies_between_the_acting_and_the_new_one_by_the_lag() -> None:
    """The clipped ratio is the (lag + 1)th root of the whole one, and the gradient that of the whole ratio."""
    settings = msgspec.structs.replace(SETTINGS, proximal="interpolated")
    whole = 1.3
    for lag, clipped in ((0, True), (1, False), (4, False)):
        root = whole ** (1 / (lag + 1))
        loss, gradient = policy_gradient(settings, *stale(lag, acted=0.5 / whole, before=math.nan))
        assert loss == pytest.approx(-2.0 * whole / root * min(root, 1.2))
        assert gradient.any() != clipped
        if not clipped:
            torch.testing.assert_close(gradient, torch.tensor([[[-whole / 2 * 2, whole / 2 * 2]]]))


def test_whole_batches_go_through_the_network_before_the_epochs_only_where_needed() -> None:
    rows = {
        (proximal, advantages): PPO(PPO.Settings(horizon=7, proximal=proximal, advantages=advantages)).prepared_rows
        for proximal in ("behaviour", "recomputed", "interpolated")
        for advantages in ("recorded", "vtrace")
    }
    assert {way for way, count in rows.items() if count == 1} == {
        ("behaviour", "recorded"),
        ("interpolated", "recorded"),
    }
    assert set(rows.values()) == {1, 8}
