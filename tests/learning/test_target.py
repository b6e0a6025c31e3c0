"""The target network: copied at whole periods of steps, or a little nearer to the network after each update."""

from __future__ import annotations

import torch

from actorlearn.algorithms.settings import HardCopies, Polyak, TargetPolicy
from actorlearn.learning.target import Target
from tests.learning.made import learning


def of(policy: TargetPolicy) -> tuple[Target, torch.Tensor]:
    """A target network, with rollouts of ten steps, and the weights that it is a copy of."""
    network = learning().network
    return Target(network, policy, rollout_steps=10), network.weights


def test_a_target_network_begins_as_a_copy_that_does_not_follow() -> None:
    target, weights = of(HardCopies(20))
    before = target.weights.clone()
    assert torch.equal(before, weights)
    weights.add_(1.0)
    assert torch.equal(target.weights, before)


def test_a_long_rollout_renews_the_target_network_several_times() -> None:
    target, weights = of(HardCopies(5))
    periods, renewed = [], []
    for rollout in range(3):
        for done in range(4):
            weights.add_(1.0)
            target.renew(rollout, done, 4)
            target.follow()
            periods.append(target.period)
            renewed.append(torch.equal(target.weights, weights))
    assert periods == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert renewed == [True, False] * 6


def test_with_polyak_each_update_brings_the_target_network_nearer_by_a_share() -> None:
    target, weights = of(Polyak(0.25))
    start = weights.clone()
    weights.add_(1.0)
    for left in (0.75, 0.75**2):
        target.renew(7, 0, 4)
        target.follow()
        torch.testing.assert_close(target.weights, start + (1.0 - left))


def test_a_restored_target_network_is_not_renewed_again_within_a_period() -> None:
    target, weights = of(HardCopies(20))
    weights.add_(1.0)
    target.renew(3, 0, 4)
    other, _ = of(HardCopies(20))
    other.restore(target.tensors(), target.period)
    assert torch.equal(other.weights, target.weights)
    weights.add_(1.0)
    other.renew(3, 1, 4)
    assert other.period == 1 and torch.equal(other.weights, target.weights), "not renewed again within a period"
