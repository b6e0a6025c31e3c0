"""The simulator's side of snapshots: writes its state to a file, from which a new process can continue.

The trainer requests a snapshot by the words ``hold`` and ``hold_from`` in shared memory (``memory/rollout.py``). The
simulator takes it between two steps: the state of its environments, and the steps that the trainer has not learned
from yet. It writes the file ``<name>.npz``, puts it in place by a rename, and then sets the word ``held``.

A new process restores its environments from the file. When the trainer has admitted the process to the rollout of the
first saved step, it writes the saved steps to shared memory.

With an inference server, there is one more step. The server draws the actions of several simulators together, and at
the snapshot these may be at different time steps. After the restore the server therefore draws the actions of all saved
time steps again, with the same result. Each simulator then writes its saved steps over them, so that shared memory
always has the actions that were carried out. A simulator with its own policy does not need this.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from actorlearn.envs.interface import Row
from actorlearn.failpoints import hit
from actorlearn.files import write_atomically
from actorlearn.memory.rollout import ARRIVAL_COLUMNS, Blocks, Rollouts
from actorlearn.worker.settings import snapshot_of

if TYPE_CHECKING:
    from actorlearn.processes.simulator import EnvGroup

Arrays = dict[str, NDArray[Any]]


class Snapshots:
    """Writes a simulator's state to a file when the trainer requests it."""

    def __init__(self, folder: str, name: str, groups: Sequence[EnvGroup], rollouts: Rollouts, blocks: Blocks) -> None:
        """Write to ``folder``, or refuse all requests if it is empty; ignore requests from before this process."""
        self._path = Path(folder, snapshot_of(name)) if folder else None
        self._groups, self._rollouts, self._blocks = groups, rollouts, blocks
        self._complained = False
        # The checkpoint of an older request was saved without this simulator, and its folder may have been removed.
        blocks.mark_held(rollouts.hold, taken=False)

    @property
    def due(self) -> bool:
        """Whether a snapshot is requested, and can be taken because all groups have continued from an earlier one."""
        return self._rollouts.hold > abs(self._blocks.held) and all(group.saved_place is None for group in self._groups)

    def answer(self) -> str:
        """Take the snapshot and write it; returns the reason if that fails for the first time, else "".

        A failure does not end the run.
        """
        number, since = self._rollouts.hold, self._rollouts.hold_from
        failure = ""
        try:
            if self._path is None:
                raise ValueError("settings.states names no folder for snapshots")
            write(self._path, taken(self._groups, number, since))
            hit("snapshots.written")
        except Exception as error:  # an environment may raise anything
            failure = f"the simulator cannot take a snapshot: {type(error).__name__}: {error}"
        self._blocks.mark_held(number, taken=not failure)
        warning = "" if self._complained else failure
        self._complained = self._complained or bool(failure)
        return warning


def taken(groups: Sequence[EnvGroup], number: int, since: int) -> Arrays:
    """Return the state of groups as arrays by name, with their time steps from rollout ``since`` on.

    ``number`` is that of the snapshot. Exceptions of environments are raised.
    """
    blocks = groups[0].blocks
    arrays = {"number": np.array(number), "since": np.array(since), "shape": blocks.segment["shape"][1:4]}
    for group in groups:
        state = {
            "place": np.array([group.timestep, group.between_rollouts]),
            **{f"env.{name}": array for name, array in group.env.state().items()},
            **{f"starts.{name}": array for name, array in group.starts.state().items()},
        }
        arrays |= {f"{group.index}.{name}": array for name, array in state.items()} | _rows(group, since)
    return arrays


def restore(path: Path, groups: Sequence[EnvGroup], answers_itself: bool) -> None:
    """Restore groups that have not begun yet from the snapshot at ``path``.

    ``answers_itself``: this simulator has its own policy. Raises ValueError if the snapshot cannot be restored; the
    caller must then start all environments anew.
    """
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as kept:
            arrays = dict(kept)
        for group in groups:
            _restore(group, arrays, answers_itself)
    except Exception as error:  # the file is not trusted, and an environment may raise anything
        for group in groups:
            group.saved_place = None
        raise ValueError(f"{path}: {type(error).__name__}: {error!s:.1000}") from error


def _restore(group: EnvGroup, arrays: Arrays, answers_itself: bool) -> None:
    blocks, since = group.blocks, int(arrays["since"])
    if (shape := arrays["shape"].tolist()) != (here := blocks.segment["shape"][1:4].tolist()):
        raise ValueError(
            f"the snapshot is of a group with [blocks, horizon, environments] = {shape!s:.100}, but this run's "
            f"groups have {here}"
        )
    timestep, between = (int(number) for number in arrays[f"{group.index}.place"])
    group.env.restore(_below(f"{group.index}.env.", arrays))
    group.starts.restore(_below(f"{group.index}.starts.", arrays))
    if timestep >= 0:
        group.saved_place = SavedPlace(
            since, timestep, bool(between), _checked(group, since, timestep, arrays), answers_itself
        )


def _rows(group: EnvGroup, since: int) -> Arrays:
    """Return the time steps of a group from rollout ``since`` on, by `row_key`.

    If the group has not begun this rollout, the result is the last time step before it.
    """
    blocks = group.blocks
    if group.timestep < 0:
        return {}
    newest, t = divmod(group.timestep, blocks.horizon)
    if not since <= (group.timestep + group.between_rollouts) // blocks.horizon or newest >= since + blocks.blocks:
        raise ValueError(f"the group is in rollout {newest}, but the trainer requested rows from rollout {since} on")
    rows: Arrays = {}
    for rollout in range(min(since, newest), newest + 1):
        whole = rollout < newest or group.between_rollouts
        chosen = slice(blocks.horizon, None) if rollout < since else slice(blocks.horizon + 1 if whole else t + 1)
        rows |= {
            row_key(group.index, rollout - since, c): blocks.block(c, group.index, rollout)[chosen]
            for c in blocks.columns
        }
    return rows


def _checked(group: EnvGroup, since: int, timestep: int, arrays: Arrays) -> Arrays:
    """Return the time steps of a group from a snapshot; raises ValueError if they do not fit shared memory."""
    rows = {name: array for name, array in arrays.items() if name.startswith(f"{group.index}.row.")}
    newest = timestep // group.blocks.horizon
    for offset in range(min(since, newest) - since, newest - since + 1):
        for name in group.blocks.columns:
            array, block = rows[row_key(group.index, offset, name)], group.blocks.block(name, group.index, 0)
            if array.dtype != block.dtype or array.shape[1:] != block.shape[1:] or len(array) > len(block):
                raise ValueError(
                    f"the snapshot has {name} {array.dtype}{array.shape[1:]}, but this run has "
                    f"{block.dtype}{block.shape[1:]}"
                )
    return rows


def _below(prefix: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def write(path: Path, arrays: Arrays) -> None:
    """Write arrays to a file, which replaces an older one; it is flushed later, with the checkpoint."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    write_atomically(path, file.getvalue(), durable=False)


def row_key(group: int, offset: int, column: str) -> str:
    """Return the name in the snapshot file of a column of one rollout, whose number is ``since`` + ``offset``."""
    return f"{group}.row.{offset}.{column}"


# Continuing from a snapshot -----------------------------------------------------------------------------------------


@dataclass
class SavedPlace:
    """The time steps of a group of environments in a snapshot, from which a new process continues."""

    since: int
    """Rollout with which the saved steps begin: the next one to learn from when the snapshot was taken."""
    timestep: int
    """`EnvGroup.timestep` at the snapshot."""
    between_rollouts: bool
    """`EnvGroup.between_rollouts` at the snapshot."""
    rows: Mapping[str, NDArray[Any]]
    """Time steps of each column and rollout, by `row_key`."""
    answers_itself: bool
    """Whether the simulator has its own policy."""
    placed: bool = False
    """Whether the time steps have been written to shared memory."""

    def resume(self, group: EnvGroup) -> str:
        """Continue a group of environments as far as possible now; returns a result as `EnvGroup.advance` does."""
        blocks = group.blocks
        if blocks.joined < 0:
            return "waiting"
        if blocks.joined != self.since:  # other simulators have continued without this one
            self._begin_anew(group)
            return "waiting"
        executed = self.timestep + self.between_rollouts  # actions of the timesteps below it have been carried out
        if not self.placed:
            self._place(group, everything=True)
            hit("snapshots.placed")
            if self.answers_itself:
                blocks.go_on_at(group.index, max(executed, self.since * blocks.horizon))
            group.timestep, group.between_rollouts, self.placed = self.timestep, self.between_rollouts, True
            if self.timestep >= self.since * blocks.horizon:
                blocks.mark_observed(group.index, self.timestep)
                return "waiting" if self.between_rollouts and self.answers_itself else "observed"
        if blocks.acted(group.index) < executed:
            return "waiting"
        self._place(group, everything=False)
        group.saved_place = None
        complete = range(self.since, executed // blocks.horizon)
        for rollout in complete:
            blocks.mark_completed(group.index, rollout)
        return "completed" if complete else "waiting"

    def _place(self, group: EnvGroup, everything: bool) -> None:
        """Write the saved time steps to shared memory; without ``everything``, only what the policy has written."""
        for name in group.blocks.columns:
            if name in ARRIVAL_COLUMNS and not everything:
                continue
            for rollout in range(self.since - 1, self.timestep // group.blocks.horizon + 1):
                values = self.rows.get(row_key(group.index, rollout - self.since, name))
                if values is None:
                    continue
                block = group.blocks.block(name, group.index, rollout)
                if rollout < self.since:
                    block[group.blocks.horizon] = values[0]
                    continue
                # The newest row of an incomplete block has no action yet.
                unanswered = len(values) < len(block) and name not in (*ARRIVAL_COLUMNS, "state")
                values = values[: len(values) - unanswered]
                block[: len(values)] = values

    def _begin_anew(self, group: EnvGroup) -> None:
        """Let a group continue its games in a later rollout, without the saved time steps."""
        last = self.timestep // group.blocks.horizon - self.since
        newest = {name: self.rows[row_key(group.index, last, name)][-1] for name in ARRIVAL_COLUMNS}
        group.starts.begin_from(Row(**newest))
        group.timestep, group.between_rollouts, group.saved_place = -1, True, None
