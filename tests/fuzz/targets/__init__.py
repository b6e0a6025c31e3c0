"""Targets of the fuzzer: readers of foreign bytes, each with its allowed errors and inputs that are nearly right.

A target's ``read`` returns True if the bytes were read, and False if they were refused with an allowed error. Any other
exception is a fault. ``test_inputs.py`` and ``by_hand.py`` use the targets.
"""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz.targets import checkpoints, memories, messages, processes, topologies
from tests.fuzz.targets.door import Target, short


def targets() -> dict[str, Target]:
    """Return all targets by name."""
    rooms = (messages, topologies, checkpoints, memories, processes)
    return {
        name: replace(target, inputs=short(target.inputs)) for room in rooms for name, target in room.targets().items()
    }
