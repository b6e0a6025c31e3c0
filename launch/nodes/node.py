"""The protocol of nodes, which carry out the supervisor's actions on their machines and report events.

A run has one: this machine (``launch/nodes/local.py``), or a head, behind which there are several (``head.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from launch.nodes.messages import DropLearner, DropMembers
from launch.plan.plan import Start
from launch.supervision import events as ev


@dataclass(frozen=True)
class ProtocolWarning:
    """A message that was not understood; it is reported and has no other effect."""

    text: str


NodeAction = Start | ev.Kill | ev.ShowStack | ev.Send | ev.Answer | DropMembers | DropLearner
"""Actions that nodes carry out."""


class Node(Protocol):
    """NodeResources, or machines, on which the processes of a run are started, watched and ended."""

    @property
    def fds(self) -> Sequence[int]:
        """Descriptors that become readable when there are events."""

    @property
    def section_ns(self) -> NDArray[np.int64]:
        """Nanoseconds [rows, sections] that each process has spent in each section, by its row."""

    def do(self, action: NodeAction) -> ev.Event | None:
        """Carry out an action; returns the resulting event, unless there is none or it comes later."""

    def events(self, now_s: float, gap_s: float) -> Iterator[ev.Event | ev.Note | ProtocolWarning]:
        """Yield what has happened since the last call, in order; ``gap_s``: time before it when nothing could run.

        The first event is Begin, once processes can be started. Notes are to be reported.
        """

    def add_learners(self, learners: Collection[int]) -> None:
        """Make room for learners; raises OSError or TopologyError, with room for none of them, where there is none."""

    def end(self) -> None:
        """End all processes; nothing can be started after it, but command lines can be answered."""

    def close(self) -> None:
        """End all processes, and close the sockets; a second call does nothing."""
