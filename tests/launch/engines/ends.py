"""Nodes of an engine that have ended."""

from __future__ import annotations

from launch.engines.specs import Engine
from tests.waiting import within


def gone_within(seconds: float, engine: Engine) -> dict[str, str]:
    """Wait for the first nodes that have gone; return their names with the reasons, or fail if there are none."""
    gone: dict[str, str] = {}

    def any_gone() -> bool:
        gone.update(engine.gone())
        return bool(gone)

    assert within(seconds, any_gone), f"no node has gone in {seconds} s"
    return gone
