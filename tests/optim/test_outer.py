"""Outer optimizers against the papers' steps written out, one learner after the other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from actorlearn.optim.outer import Outer
from actorlearn.optim.specs import OuterSettings

SIZE, ROUNDS, LEARNERS = 7, 6, 4
DILOCO = OuterSettings(rule="nesterov", learning_rate=0.7, momentum=0.9)
NOLOCO = OuterSettings(rule="momentum", learning_rate=0.7, momentum=0.5)


def local_changes(seed: int = 0) -> Tensor:
    """What the local steps of each learner come to: [rounds, learners, size]."""
    return torch.randn((ROUNDS, LEARNERS, SIZE), generator=torch.Generator().manual_seed(seed))


def start() -> Tensor:
    return torch.linspace(-1.0, 1.0, SIZE)


def test_nesterov_is_diloco() -> None:
    """Algorithm 1: torch's Nesterov on the mean of what each learner's weights have come from."""
    weights = start()
    outer = Outer(DILOCO, weights)
    central = torch.nn.Parameter(start())
    optimizer = torch.optim.SGD([central], lr=0.7, momentum=0.9, nesterov=True)
    for changes in local_changes():
        replicas = [central.detach() + change for change in changes]
        central.grad = torch.stack([central.detach() - replica for replica in replicas]).mean(0)
        optimizer.step()
        weights.copy_(torch.stack([weights + change for change in changes]).mean(0))
        outer.step(weights)
        torch.testing.assert_close(weights, central.detach())


def test_momentum_in_random_pairs_is_noloco() -> None:
    """Their step: momentum, the pair's mean change, and the pull of slow weights to the pair's mean of them."""
    alpha, beta, gamma = 0.5, 0.7, 0.7
    slow, velocity = start().repeat(LEARNERS, 1), torch.zeros(LEARNERS, SIZE)
    weights = [start() for _ in range(LEARNERS)]
    outers = [Outer(NOLOCO, own) for own in weights]
    for exchange, changes in enumerate(local_changes()):
        order = np.random.default_rng(exchange).permutation(LEARNERS)
        pairs = order.reshape(-1, 2).tolist()
        before = slow.clone()
        for pair in pairs:
            for i in pair:
                pull = before[i] - before[pair].mean(0)
                velocity[i] = alpha * velocity[i] + beta * changes[pair].mean(0) - gamma * pull
                slow[i] = before[i] + velocity[i]
        fast = [own + change for own, change in zip(weights, changes, strict=True)]
        for pair in pairs:
            for i in pair:
                weights[i].copy_((fast[pair[0]] + fast[pair[1]]) / 2)
                outers[i].step(weights[i])
        torch.testing.assert_close(torch.stack(weights), slow)


@pytest.mark.parametrize("rule", ["none", "momentum", "nesterov"])
def test_without_momentum_and_at_rate_one_it_is_the_mean(rule: str) -> None:
    """After one step of gradient descent each, this is one step by the mean of their gradients."""
    weights, rate = start(), 0.1
    outer = Outer(OuterSettings(rule=rule, learning_rate=1.0, momentum=0.0), weights)  # type: ignore[arg-type]
    together = start()
    for gradients in local_changes():
        together -= rate * gradients.mean(0)
        weights.copy_(torch.stack([weights - rate * gradient for gradient in gradients]).mean(0))
        outer.step(weights)
        torch.testing.assert_close(weights, together)


@pytest.mark.parametrize("settings", [OuterSettings(), DILOCO, NOLOCO])
def test_it_continues_from_its_state(settings: OuterSettings) -> None:
    weights, again = start(), start()
    outer = Outer(settings, weights)
    for round_, changes in enumerate(local_changes()):
        if round_ == ROUNDS // 2:
            state = {name: tensor.clone() for name, tensor in outer.state().items()}
            outer = Outer(settings, torch.zeros(SIZE))
            outer.restore(state)
        weights += changes.mean(0)
        outer.step(weights)
    uninterrupted = Outer(settings, again)
    for changes in local_changes():
        again += changes.mean(0)
        uninterrupted.step(again)
    assert torch.equal(weights, again)
    if settings.rule != "none":
        with pytest.raises(ValueError, match="velocity"):
            outer.restore({**outer.state(), "velocity": torch.zeros(SIZE + 1)})
