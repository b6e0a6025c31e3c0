"""Several networks in one module: what each reads, where its weights lie, and which models have but one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from actorlearn.extra_networks import ExtraNetwork
from actorlearn.models.make import flatten, make
from actorlearn.models.several import networks
from tests import named

EXTRA = {
    "critic": ExtraNetwork({"value": 1}, action=2),
    "judge": ExtraNetwork({"a": 3}),
    "numbers": ExtraNetwork({"log": 2}, observation=False),
}
HEADS = {"policy": 4}


def made(extra: dict[str, ExtraNetwork] | None = None, shape: tuple[int, ...] = (3,), **model: Any) -> nn.Module:
    return make(named.model(**{"name": "mlp", "hidden_sizes": [8], **model}), shape, "float32", HEADS, 1, extra)


def test_a_module_of_several_networks_acts_as_its_actor_does_alone() -> None:
    """Its weights are drawn first, lie first, and are the same as without the others."""
    alone, together = made(), made(EXTRA)
    observation = torch.randn(5, 3)
    assert torch.equal(alone(observation)["policy"], together(observation)["policy"])
    weights, gradients = flatten(together)
    one, _ = flatten(alone)
    assert torch.equal(weights[: one.numel()], one) and weights.numel() == gradients.numel() > one.numel()
    assert list(networks(together)) == ["actor", *EXTRA] and list(networks(alone)) == ["actor"]


def test_critics_have_the_sizes_of_the_value() -> None:
    each = networks(made(EXTRA, value_hidden_sizes=[5, 4]))
    layers = {
        name: [layer.out_features for layer in network.modules() if isinstance(layer, torch.nn.Linear)]
        for name, network in each.items()
    }
    assert (layers["actor"], layers["critic"]) == ([8, 4], [5, 4, 1])


def test_each_reads_what_was_asked_for() -> None:
    each = networks(made(EXTRA, shape=(3, 1)))
    observation, action = torch.randn(5, 3, 1), torch.randn(5, 2)
    assert each["critic"](observation, action)["value"].shape == (5, 1)
    assert each["judge"](observation)["a"].shape == (5, 3)
    assert each["numbers"]()["log"].tolist() == [0.0, 0.0]
    other = each["critic"](observation, action + 1.0)["value"]
    assert not torch.equal(each["critic"](observation, action)["value"], other)


def test_two_alike_begin_with_weights_of_their_own() -> None:
    each = networks(made({"one": EXTRA["critic"], "two": EXTRA["critic"]}))
    rows = torch.randn(5, 3), torch.randn(5, 2)
    assert not torch.equal(each["one"](*rows)["value"], each["two"](*rows)["value"])


@pytest.mark.parametrize(
    ("model", "shape", "why"),
    [
        (
            {"name": "nature"},
            (4, 84, 84),
            r"model.name: 'nature' reads only images, but the network critic also reads 2 numbers",
        ),
        ({"name": "mlp", "recurrence": "lstm"}, (3,), r"model.recurrence: 'lstm' supports only one network"),
        (
            {"name": "mlp", "normalize_observation": True},
            (3,),
            r"model.normalize_observation: true supports only one network",
        ),
    ],
)
def test_models_of_one_network_are_refused(model: dict[str, Any], shape: tuple[int, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make(named.model(**model), shape, "float32", HEADS, 1, EXTRA)
