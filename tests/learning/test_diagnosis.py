"""Symptoms of failing learning: dead units, constant inputs, no rewards, weights that do not change."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Any

import pytest
import torch
from torch import nn

from actorlearn.actions import MultiDiscrete
from actorlearn.extra_networks import ExtraNetwork
from actorlearn.learning.diagnosis import ROWS, Diagnosis, examine, most_entropy
from actorlearn.models.make import make
from actorlearn.observation_parts import ActionMask
from actorlearn.worker.passes import ComputePool, FlatNetwork
from tests import named
from tests.learning.made import batch, learning


def made(**keys: Any) -> nn.Module:
    return make(named.model(name="mlp", hidden_sizes=[8, 4], **keys), (2,), "float32", {"value": 1}, 0)


def test_the_share_of_dead_units_is_that_of_the_worst_layer() -> None:
    network = made(activation="relu")
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    with torch.no_grad():
        layers[0].bias.fill_(1.0)
        layers[0].bias[:2] = -100.0  # 2 of 8 are never above 0
        layers[1].weight.zero_()
        layers[1].bias.copy_(torch.tensor([1.0, 1.0, -1.0, 0.0]))
    assert examine(network, batch())["dead_units"] == 0.5


def test_a_unit_of_tanh_is_dead_where_it_is_saturated() -> None:
    network = made(activation="tanh")
    first = next(module for module in network.modules() if isinstance(module, nn.Linear))
    assert examine(network, batch())["dead_units"] == 0.0
    with torch.no_grad():
        first.bias[:6] = 50.0
    assert examine(network, batch())["dead_units"] == 0.75


def test_the_largest_input_is_that_of_the_first_layer_after_normalization() -> None:
    huge = replace(batch(), observation=batch().observation * 1e6)
    assert examine(made(), huge)["inputs_largest"] == pytest.approx(float(huge.observation.max()))
    normalized = made(normalize_observation=True)
    assert examine(normalized, huge)["inputs_largest"] <= 10.0


def test_the_inputs_of_images_of_bytes_are_from_0_to_1() -> None:
    network = make(named.model(name="nips"), (1, 44, 44), "uint8", {"value": 1}, 0)
    image = replace(batch(), observation=torch.full((4, 8, 1, 44, 44), 255, dtype=torch.uint8))
    assert examine(network, image)["inputs_largest"] == 1.0


def test_the_share_of_constant_elements_of_observations_is_reported() -> None:
    seen = batch().observation
    assert examine(made(), batch())["observations_constant"] == 0.0
    half = torch.stack([seen[..., 0], torch.ones_like(seen[..., 1])], -1)
    assert examine(made(), replace(batch(), observation=half))["observations_constant"] == 0.5


@pytest.mark.parametrize("extra", [None, {"critic": ExtraNetwork(heads={"value": 1}, observation=True)}])
def test_cells_of_masks_do_not_count_as_observations(extra: Any) -> None:
    mask = ActionMask("info", 2, (2,))
    network = make(named.model(name="mlp", hidden_sizes=[8]), (4,), "float32", {"value": 1}, 0, extra, mask)
    seen = torch.cat([batch().observation, torch.ones_like(batch().observation)], -1)
    assert examine(network, replace(batch(), observation=seen))["observations_constant"] == 0.0
    seen[..., :2] = 1.0
    seen[0, 0, 2] = 0.0
    assert examine(network, replace(batch(), observation=seen))["observations_constant"] == 1.0


def test_a_recurrent_network_is_called_with_its_state() -> None:
    network = made(recurrence="lstm", recurrent_size=4)
    size = network.state_size
    assert isinstance(size, int)
    assert "dead_units" in examine(network, replace(batch(), columns={"state": torch.zeros(1, 8, size)}))


def test_examining_leaves_no_hook_and_draws_no_random_number() -> None:
    network, before = made(noisy=0.5), torch.get_rng_state()
    examine(network, batch())
    assert torch.equal(before, torch.get_rng_state())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())


def test_only_few_rows_of_a_batch_are_examined() -> None:
    rows = []
    network = made()
    network.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0])))
    examine(network, replace(batch(), observation=torch.rand(100, 64, 2)))
    assert 0 < rows[0] <= ROWS


def test_a_row_of_metrics_is_of_the_time_since_the_one_before() -> None:
    network = FlatNetwork(made(), ComputePool(), "fp32", False)
    diagnosis = Diagnosis(network, 4)
    diagnosis.note_rollout(batch())
    row = diagnosis.row(batch(), 0.5)
    assert row["rewards_nonzero"] == pytest.approx(23 / 24) and row["entropy_share"] == pytest.approx(0.5 / log(4))
    assert "weights_change" not in row
    with torch.no_grad():
        network.parameters.mul_(2.0)
    row = diagnosis.row(batch(), None)
    assert row["weights_change"] == pytest.approx(0.5)
    assert row.keys().isdisjoint({"rewards_nonzero", "entropy_share"})
    assert diagnosis.row(batch(), None)["weights_change"] == 0.0


def test_with_masks_the_entropy_is_compared_with_that_of_valid_choices() -> None:
    mask = ActionMask("info", 4, (2,))
    network = make(named.model(name="mlp", hidden_sizes=[8]), mask.row_shape, "float32", {"logits": 4}, 0, None, mask)
    diagnosis = Diagnosis(FlatNetwork(network, ComputePool(), "fp32", False), 4, mask)
    cells = torch.tensor([1.0, 0.0, 1.0, 0.0]).expand(*batch().observation.shape[:2], 4).clone()
    cells[0, 0], cells[0, 1], cells[-1] = 1.0, torch.tensor([0.0, 0.0, 0.0, 1.0]), 1.0  # the last row has no action
    seen = replace(batch(), observation=torch.cat([batch().observation, cells], -1))
    rows = seen.valid.numel()
    assert diagnosis.row(seen, 0.5)["entropy_share"] == pytest.approx(0.5 / ((log(4) + (rows - 2) * log(2)) / rows))
    only = torch.cat([batch().observation, torch.eye(4)[0].expand_as(cells)], -1)
    assert "entropy_share" not in diagnosis.row(replace(seen, observation=only), 0.0), "nothing can be chosen"


def test_learning_reports_a_diagnosis_and_learns_the_same() -> None:
    examined, other = learning(), learning()
    for rollout in range(3):
        for one in (examined, other):
            one.learn(batch(), 0, rollout)
        assert "dead_units" in examined.metrics()
        assert "dead_units" not in examined.metrics(), "nothing was learned since"
    assert torch.equal(examined.weights, other.weights)


def test_the_largest_entropy_is_that_of_equal_choices() -> None:
    assert most_entropy(3) == pytest.approx(log(3))
    assert most_entropy(MultiDiscrete((3, 2))) == pytest.approx(log(6))
    assert most_entropy((2,)) is None
    valid = torch.tensor([[1, 1, 1, 0, 1], [1, 0, 0, 1, 1]])
    assert most_entropy(MultiDiscrete((3, 2)), valid) == pytest.approx((log(3) + log(2)) / 2)
