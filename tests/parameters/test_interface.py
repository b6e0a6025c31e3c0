"""Settings of an exchange: what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actorlearn.parameters.interface import ExchangeSettings


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("mode", {"mode": "both"}),
        ("rank", {"mode": "sync", "rank": 2, "learners": 2}),
        ("rank", {"rank": -1}),
        ("rank", {"mode": "gossip", "rank": 64}),
        ("max_staleness", {"max_staleness": -1}),
        ("transport", {"transport": "nccl"}),
        ("gradient_every", {"gradient_every": -1}),
        ("learners", {"learners": 2}),
        ("hash_every", {"hash_every": -1}),
        ("local_steps", {"local_steps": 0}),
    ],
)
def test_what_no_exchange_has_is_refused_by_name(key: str, given: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match=rf"exchange\.{key}: .* must be"):
        msgspec.convert(given, ExchangeSettings)
