"""The protocol of a node, which carries out the supervisor's actions and reports events.

A run has one `Node`: this machine (``launch/nodes/local.py``), or a head that presents several machines as one
(``launch/nodes/head.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from actorlearn.memory.account import LearnerSteps
from launch.nodes.messages import DropLearner
from launch.plan.plan import Start
from launch.supervision import events as ev


@dataclass(frozen=True)
class ProtocolWarning:
    """A problem with a message; it is reported and has no other effect."""

    text: str


NodeAction = Start | ev.Kill | ev.Move | ev.ShowStack | ev.Send | ev.Answer | ev.DropMembers | DropLearner
"""Actions that a node carries out."""


class Node(Protocol):
    """One or several machines on which the processes of a run are started, watched and ended."""

    @property
    def fds(self) -> Sequence[int]:
        """Descriptors that become readable when there are events."""

    @property
    def section_ns(self) -> NDArray[np.int64]:
        """Nanoseconds [process index, section] that each process has spent in each section of its work."""

    def do(self, action: NodeAction) -> ev.Event | None:
        """Carry out an action; return the resulting event, or None if there is none or it comes later."""

    def events(self, now_s: float, gap_s: float) -> Iterator[ev.Event | ev.Note | ProtocolWarning]:
        """Yield the events since the last call; ``gap_s``: seconds before it in which this process could not run.

        The first event is Begin, once processes can be started. The caller reports notes and warnings.
        """

    def add_learners(self, learners: Collection[int]) -> None:
        """Make the segments of learners, or choose nodes for them.

        If this fails for one of them, raises OSError or TopologyError, and does nothing for the others.
        """

    def learner_steps(self) -> dict[int, LearnerSteps] | str:
        """Return the step counts of all learners that the run has had; if they are unknown, return the reason.

        Call it after ``end``.
        """

    def end(self) -> None:
        """End all processes; afterwards none can be started, but command lines can be answered."""

    def close(self) -> None:
        """End all processes and close the sockets; a second call does nothing."""
