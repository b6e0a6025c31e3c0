"""Shipped networks, and images for them."""

from __future__ import annotations

import torch
from torch import Tensor

from actorlearn.models.make import make
from tests import named

HEADS = {"logits": 6, "value": 1}

ATARI = (4, 84, 84)


def network(name: str = "nips", shape: tuple[int, ...] = ATARI, dtype: str = "uint8", seed: int = 0, **changes):
    return make(named.model(name=name, **changes), shape, dtype, HEADS, seed)


def images(count: int, shape: tuple[int, ...] = ATARI) -> Tensor:
    return torch.randint(256, (count, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
