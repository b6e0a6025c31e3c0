"""Check that the processor keeps the order of stores on which ``actorlearn/memory/shared.py`` relies."""

from __future__ import annotations

import platform

from launch.errors import RunError
from launch.topology.load import Topology

ORDERED = ("x86_64", "AMD64")
"""Machines, by uname's names, on which a reader that sees a new value also sees all earlier stores."""


def disorder(machine: str = "") -> str:
    """Return why shared memory may be read wrongly on a processor that reorders stores; empty on a suitable one.

    ``machine``: the processor's name as uname gives it; empty: this machine's.
    """
    machine = machine or platform.machine()
    if machine in ORDERED:
        return ""
    return (
        f"processor {machine}: shared memory relies on the order of stores of x86-64; on this processor, a process may "
        "read rows that are half written"
    )


def refuse_disorder(topology: Topology, machine: str = "") -> None:
    """Raise RunError if the processor's memory order is unsuitable and the topology does not accept the risk."""
    if not topology.supervision.any_memory_order and (found := disorder(machine)):
        raise RunError(f"{found}; use an x86-64 machine, or accept the risk with supervision.any_memory_order: true")
