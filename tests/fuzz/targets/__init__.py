"""Readers of bytes that somebody else has written: a door each, with the errors it may raise and inputs nearly right.

A target's ``read`` takes the bytes and says whether they were read, or refused as its door refuses; whatever else it
raises is a fault found. Used by the gated tests, and by ``by_hand.py``, which runs for as long as one likes.
"""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz.targets import checkpoints, memories, messages, processes, topologies
from tests.fuzz.targets.door import Target, short


def targets() -> dict[str, Target]:
    """All of them by name."""
    rooms = (messages, topologies, checkpoints, memories, processes)
    return {
        name: replace(target, inputs=short(target.inputs)) for room in rooms for name, target in room.targets().items()
    }
