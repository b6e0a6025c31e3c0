"""A network of observations with masks: the mask is passed on, and the network is the one without it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from actorlearn.models.interface import unroll
from actorlearn.models.make import flatten, make
from actorlearn.observation_parts import MASK, ActionMask
from tests import named

HEADS = {"logits": 5, "value": 1}


@pytest.mark.parametrize(
    ("model", "shape", "dtype"),
    [
        (named.model("mlp"), (4,), "float32"),
        (named.model("mlp", normalize_observation=True), (4,), "float32"),
        (named.model("mlp", recurrence="gru", recurrent_size=6), (4,), "float32"),
        (named.model("minatar"), (2, 5, 5), "uint8"),
        (named.model("minatar", recurrence="lstm", recurrent_size=6), (2, 5, 5), "uint8"),
    ],
    ids=["vector", "normalised", "gru", "image", "image and lstm"],
)
def test_it_is_the_network_without_the_mask(model: Any, shape: tuple[int, ...], dtype: str) -> None:
    mask = ActionMask("info", 5, shape)
    alone = make(model, shape, dtype, HEADS, seed=3)
    masked = make(model, mask.row_shape, dtype, HEADS, seed=3, action_mask=mask)
    assert torch.equal(flatten(alone)[0], flatten(masked)[0])
    generator = torch.Generator().manual_seed(0)
    seen = torch.randint(256, (3, 2, *shape), generator=generator).to(getattr(torch, dtype))
    valid = torch.rand(3, 2, 5, generator=generator) < 0.5
    rows = torch.cat([seen.flatten(2), valid.to(seen.dtype)], -1)
    first, size = torch.tensor([[True, True], [False, True], [False, False]]), getattr(alone, "state_size", 0)
    state = torch.zeros(2, size) if size else None
    expected, after = unroll(alone, seen, state, first)
    outputs, own_after = unroll(masked, rows, state, first)
    assert torch.equal(outputs.pop(MASK), valid.float())
    torch.testing.assert_close(outputs, expected, rtol=0.0, atol=0.0)
    if after is not None:
        torch.testing.assert_close(own_after, after, rtol=0.0, atol=0.0)
