"""Networks beside the one that acts: what they read, where their weights lie, and who cannot have any."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from actorlearn.forms import Form
from actorlearn.models.beside import networks
from actorlearn.models.make import flatten, make
from tests import named

BESIDE = {
    "critic": Form({"value": 1}, action=2),
    "judge": Form({"a": 3}),
    "numbers": Form({"log": 2}, observation=False),
}
HEADS = {"policy": 4}


def made(beside: dict[str, Form] | None = None, shape: tuple[int, ...] = (3,), **model: Any) -> nn.Module:
    return make(named.model(**{"name": "mlp", "hidden_sizes": [8], **model}), shape, "float32", HEADS, 1, beside)


def test_a_module_of_several_acts_as_the_one_that_acts_alone() -> None:
    """Its weights are drawn first, lie first, and are the same as without any beside it."""
    alone, together = made(), made(BESIDE)
    observation = torch.randn(5, 3)
    assert torch.equal(alone(observation)["policy"], together(observation)["policy"])
    weights, gradients = flatten(together)
    one, _ = flatten(alone)
    assert torch.equal(weights[: one.numel()], one) and weights.numel() == gradients.numel() > one.numel()
    assert list(networks(together)) == ["acting", *BESIDE] and list(networks(alone)) == ["acting"]


def test_each_reads_what_its_form_says() -> None:
    each = networks(made(BESIDE, shape=(3, 1)))
    observation, action = torch.randn(5, 3, 1), torch.randn(5, 2)
    assert each["critic"](observation, action)["value"].shape == (5, 1)
    assert each["judge"](observation)["a"].shape == (5, 3)
    assert each["numbers"]()["log"].tolist() == [0.0, 0.0]
    other = each["critic"](observation, action + 1.0)["value"]
    assert not torch.equal(each["critic"](observation, action)["value"], other)


def test_two_of_one_form_begin_with_weights_of_their_own() -> None:
    each = networks(made({"one": BESIDE["critic"], "two": BESIDE["critic"]}))
    rows = torch.randn(5, 3), torch.randn(5, 2)
    assert not torch.equal(each["one"](*rows)["value"], each["two"](*rows)["value"])


@pytest.mark.parametrize(
    ("model", "shape", "why"),
    [
        ({"name": "nature"}, (4, 84, 84), r"model.name: 'nature' reads images alone, and critic reads 2 numbers"),
        ({"name": "mlp", "recurrence": "lstm"}, (3,), r"model.recurrence: 'lstm' is for one network alone"),
        ({"name": "mlp", "normalize_observation": True}, (3,), r"model.normalize_observation: true is for one network"),
    ],
)
def test_who_cannot_have_one_beside_it_is_refused(model: dict[str, Any], shape: tuple[int, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make(named.model(**model), shape, "float32", HEADS, 1, BESIDE)
