"""Norms of parameters, gradients and steps: of the whole, and of the first layers, over the updates since the last."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from actorlearn.learning.norms import Norms
from actorlearn.models.make import flatten
from tests.learning.made import batch, learning


class Network(nn.Module):
    """A head that is registered first of all, then two convolutions and two fully connected layers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.layers = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Conv2d(2, 2, 3), nn.Linear(4, 3), nn.Linear(3, 2))


def norm(*tensors: torch.Tensor | None) -> float:
    return float(torch.cat([tensor.reshape(-1) for tensor in tensors if tensor is not None]).detach().norm())


def test_norms_are_of_each_layers_own_tensors_and_means_over_updates() -> None:
    network = Network()
    weights, gradients = flatten(network)
    norms = Norms(network, weights, gradients)
    expected: dict[str, list[float]] = {}
    layers = {"": list(network.parameters())}
    layers |= {part: list(network.layers[i].parameters()) for part, i in (("_conv0", 0), ("_fc0", 2))}
    for factor in (1.0, 3.0):
        gradients.copy_(torch.randn_like(gradients))
        norms.before()
        weights.sub_(factor * gradients)
        norms.after()
        for part, own in layers.items():
            length = norm(*(parameter.grad for parameter in own))
            expected.setdefault(f"gradients_l2{part}", []).append(length)
            expected.setdefault(f"steps_l2{part}", []).append(factor * length)
    row = norms.row()
    for part, own in layers.items():
        assert row.pop(f"parameters_l2{part}") == pytest.approx(norm(*own), rel=1e-5)
    assert row == {name: pytest.approx(sum(lengths) / 2, rel=1e-4) for name, lengths in expected.items()}
    assert norms.row().keys() == {f"parameters_l2{part}" for part in layers}  # no updates since


def test_a_network_without_convolutions_has_no_norms_of_convolutions() -> None:
    network = nn.Sequential(nn.Linear(2, 1))
    assert Norms(network, *flatten(network)).row().keys() == {"parameters_l2", "parameters_l2_fc0"}


def test_learning_reports_norms_if_asked_and_learns_the_same() -> None:
    plain, traced = learning(), learning(norms=True)
    assert plain.metrics() == {}
    before = traced.parameters.clone()
    told = [made.learn(batch(), 0, 0) for made in (plain, traced)]
    assert told[0] == told[1] and torch.equal(plain.weights, traced.weights)
    row = traced.metrics()
    assert row["gradients_l2"] == pytest.approx(min(told[0]["gradient_norm"], 3.0))  # clipped at 3
    assert row["steps_l2"] == pytest.approx(norm(traced.parameters - before))
    assert row["parameters_l2"] == pytest.approx(norm(traced.parameters))


def test_a_skipped_update_has_no_norm_of_a_step() -> None:
    made = learning(norms=True)
    broken = batch()
    broken.reward[:] = torch.nan
    made.learn(broken, 0, 0)
    assert "steps_l2" not in made.metrics()
