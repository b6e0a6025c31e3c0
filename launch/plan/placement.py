"""Placement of the processes of a run on this machine: the device and the core of each. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from actorlearn.wire.identity import ProcessId
from actorlearn.worker.roles import ROLES
from launch.plan.role_plans import plan_of
from launch.topology.load import Topology


class Processor(NamedTuple):
    """Device and core on which one process computes."""

    device: str
    """Device as torch names it: cpu, or cuda:0."""
    core: int | None
    """Core that the process is pinned to; None where the kernel chooses."""


@dataclass(frozen=True)
class Placement:
    """Processors of all processes, also of those that are attached later."""

    devices: Mapping[str, str]
    """Device of each role, by name."""
    cores: tuple[int, ...] = ()
    """Cores that simulators are pinned to, in turn; empty where they are not pinned."""

    def of(self, process: ProcessId) -> Processor:
        """Return where one process computes."""
        pinned = ROLES.spec(process.role).makes_rows and self.cores
        return Processor(self.devices[process.role], self.cores[process.number % len(self.cores)] if pinned else None)


def place(topology: Topology, cores: Sequence[int]) -> Placement:
    """Place the processes of a topology on a machine with these cores, in the order in which they are to be taken."""
    return Placement(
        devices={role.name: plan_of(role).device(topology) for role in ROLES.specs()},
        cores=tuple(cores) if topology.simulators.pin else (),
    )
