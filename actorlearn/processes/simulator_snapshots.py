"""The trainer's side of snapshots: requests them from all simulators, waits for them, and moves them to a checkpoint.

A checkpoint with snapshots is exact: a run that is resumed from it continues as if it had not been interrupted. If a
simulator does not take its snapshot, the checkpoint has no snapshots, and records the reason.

The request consists of the words ``hold`` and ``hold_from`` in shared memory; each simulator answers with the word
``held`` (``memory/rollout.py``). ``processes/snapshots.py`` is the simulator's side, which writes the files.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from actorlearn.failpoints import hit
from actorlearn.files import make_folder
from actorlearn.memory.rollout import FAR
from actorlearn.processes.members import RolloutMembers
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.settings import snapshot_of

PATIENCE_S = 10.0
"""Longest wait for snapshots, in seconds. A simulator takes one between two steps, usually within milliseconds."""

Value = TypeVar("Value")


class SimulatorSnapshots:
    """Gets snapshots of all simulators of a learner, and moves them to a checkpoint."""

    def __init__(
        self, folder: str, members: RolloutMembers, wake: Callable[[], object], wait: Callable[[], bool]
    ) -> None:
        """Let simulators write snapshots to the temporary folder ``folder``; if it is empty, take no snapshots.

        ``wake`` wakes the simulators. ``wait`` sleeps for a short time, updates the list of simulators, and returns
        False if this process has to end.
        """
        self._folder = Path(folder) if folder else None
        self._members, self._wake, self._wait = members, wake, wait
        self._taken: list[ProcessId] = []
        self.inexact = "checkpoint.exact is false"
        """Reason why snapshots are missing; empty if there is one of every simulator."""
        self._failed = False
        """Whether ``inexact`` is a failure; simulators that start, leave or have ended are none."""
        self._complained = False
        self._clear()

    def take(self) -> None:
        """Let every simulator take a snapshot, and wait for it.

        A snapshot also contains the time steps that are not learned from yet.
        """
        self._taken, self._failed = [], False
        if self._folder is None:
            return
        if not self._members.rollouts.open:
            self.inexact = ""  # no simulator has begun, so seeds determine everything
            return
        if changing := self._changing():
            self.inexact = changing
            return
        try:
            make_folder(self._folder)
        except OSError as error:
            self.give_up(str(error))
            return
        number = self._members.rollouts.ask(self._members.next)
        hit("simulator_snapshots.asked")
        self._wake()
        self.inexact = self._awaited(number)
        if not self.inexact:
            self._taken = [self._members.ids[socket_id] for socket_id in self._members.playing]

    def give_up(self, why: str) -> None:
        """Leave the snapshots out of the next checkpoint, and record the reason ``why``."""
        self.inexact, self._failed = why, True

    def _awaited(self, number: int) -> str:
        """Wait until all simulators have taken snapshot ``number``; returns the reason if one is missing, else ""."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not (changing := self._changing()) and not (refused := self._refused(number)):
            late = self._late(number)
            if not late:
                return ""
            if time.monotonic() >= deadline_s:
                self._failed = True
                return f"{', '.join(late)} did not answer within {PATIENCE_S:g} s"
            if not self._wait():
                self._failed = True
                return "the trainer was told to end"
        if changing:
            return changing
        self._failed = True
        return f"{', '.join(refused)} could not take a snapshot"

    def _changing(self) -> str:
        """Return why snapshots would be incomplete: simulators start, leave or have ended, or none runs; else ""."""
        playing = self._members.playing
        for socket_ids, why in (
            (self._members.gone, "has ended"),
            (self._members.pending, "has not begun yet"),
            ([socket_id for socket_id, blocks in playing.items() if blocks.left < FAR], "is leaving"),
        ):
            if socket_ids:
                return f"{', '.join(self._names(socket_ids))} {why}"
        return "" if playing else "no simulator is running"

    def _refused(self, number: int) -> list[str]:
        playing = self._members.playing
        return self._names(socket_id for socket_id, blocks in playing.items() if blocks.held == -number)

    def _late(self, number: int) -> list[str]:
        held = {socket_id: abs(blocks.held) for socket_id, blocks in self._members.playing.items()}
        return self._names(socket_id for socket_id in held if held[socket_id] < number)

    def _names(self, socket_ids: Iterable[str]) -> list[str]:
        return [self._members.ids[socket_id].name for socket_id in socket_ids]

    def put(self, folder: Path) -> dict[str, Any]:
        """Move the snapshots to a checkpoint's folder; return their list, or why there are none, for its state."""
        names = [own.name for own in self._taken]
        if self._folder is not None and not self.inexact:
            try:
                for name in names:
                    os.replace(self._folder / snapshot_of(name), folder / snapshot_of(name))
                hit("simulator_snapshots.put")
            except OSError as error:
                self.give_up(str(error))
                for name in names:
                    (folder / snapshot_of(name)).unlink(missing_ok=True)
        taken = [] if self.inexact else self._taken
        return {"inexact": self.inexact, "simulators": msgspec.to_builtins(taken)}

    def complaint(self) -> str:
        """Return a warning when a failure has kept snapshots out of a checkpoint for the first time; else "".

        There is no warning if simulators only start or leave, because later checkpoints have snapshots again. The
        reason is in the checkpoint, and ``resume`` prints it.
        """
        if self._folder is None or not self._failed or self._complained:
            return ""
        self._complained = True
        return f"a checkpoint is not exact: {self.inexact}; a run resumed from it begins new games"

    def close(self) -> None:
        """Forget the snapshots, and remove their folder."""
        self._taken = []
        self._clear()

    def _clear(self) -> None:
        if self._folder is not None:
            with suppress(OSError):
                shutil.rmtree(self._folder)


def rekey_to_first(values: Mapping[str, Value], simulators: Iterable[ProcessId]) -> dict[str, Value]:
    """Rename keys "<simulator>.<number of restarts>/<group>" to those of simulators that were never restarted.

    In a resumed run no simulator has been restarted yet.
    """
    found = {}
    for own in simulators:
        for group in count():
            if (owner := f"{own.socket_id}/{group}") not in values:
                break
            found[f"{own.again(0).socket_id}/{group}"] = values[owner]
    return found


def simulators_of(state: Mapping[str, Any]) -> list[ProcessId]:
    """Return the ids of the simulators whose snapshots are in the checkpoint with this ``state``."""
    return msgspec.convert(state["simulators"], list[ProcessId])
