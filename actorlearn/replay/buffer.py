"""Replay memory in one shared segment: a ring of rows for each environment, every frame stored once.

Reads: blocks, as they lie in shared memory. Writes: its own segment (``replay/rows.py``). Refuses to know: what is
learned, and torch.

``add`` writes only into the margin of a ring: it changes nothing that is drawn, and may run while another thread
samples. ``flush`` lets the rows added be drawn, and forgets as many of the oldest. Flushed after each rollout that is
ordinary replay; flushed every C steps it is Fast DQN's, whose temporary buffers the margins then are.

A flush is there as a whole or not at all, whatever moment its process is killed at: ``replay/flushed.py``. Who opens
the segment next calls ``recover``, and goes on as if nothing had been: the same environments store in the same rings,
joined to what they had stored.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from actorlearn.failpoints import hit, through
from actorlearn.memory.shared import Segment
from actorlearn.replay.flushed import Flushed, Record
from actorlearn.replay.nstep import NStep, n_step
from actorlearn.replay.rings import Placement, Rings, cells_between
from actorlearn.replay.rows import ReplayShape, column_fields
from actorlearn.replay.samplers import Sampler
from actorlearn.replay.saved import check, read

PART_BYTES = 1 << 26
"""Part of a file that is written at once: less than a second of a slow disk, where all of it may take minutes."""
_AS_THEY_ARE = ("action", "reward", "terminated", "truncated", "life_lost")
_OVER = ("terminated", "truncated", "life_lost")


class Sample(NamedTuple):
    """A minibatch of B transitions; the two observations are overwritten by the next one of the same size."""

    observation: NDArray[Any]  # [B, *observation_shape]
    action: NDArray[Any]  # [B] int64, or [B, n] float32
    reward: NDArray[np.float32]  # [B] n-step sum, discounted and clipped
    discount: NDArray[np.float32]  # [B] of the next observation's value: 0 at a terminal
    next_observation: NDArray[Any]  # [B, *observation_shape] the final one where the game ended
    cell: NDArray[np.int64]  # [B] place in the rings
    position: NDArray[np.int64]  # [B] which of all rows that were ever there: tells whether it still is
    probability: NDArray[np.float64]  # [B] of being drawn


class Replay:
    """A segment of rings with a sampler; one process adds, flushes and samples."""

    def __init__(self, segment: Segment, shape: ReplayShape, returns: NStep, sampler: Sampler) -> None:
        """Bind to a segment of ``replay_fields(shape)`` that holds nothing yet; ``sampler`` has rings * rows cells."""
        if shape.size < shape.margin + shape.stack + returns.steps:
            raise ValueError(
                f"rings of {shape.size} rows are too short for {shape.margin} rows a flush, "
                f"stacks of {shape.stack} and {returns.steps}-step returns: store more, or on fewer rings"
            )
        self.shape = shape
        self.returns = returns
        self.sampler = sampler
        self._segment = segment
        self._written, self._begun = segment["written"], segment["begun"]
        self._flushed = Flushed(segment)
        self._rings = Rings(self._flushed.now.owner.copy(), self._flushed.now.following.copy())
        self._columns = [field.name for field in column_fields(shape)]
        flat = {name: segment[name] for name in self._columns}
        self._column = {name: array.reshape(-1, *array.shape[2:]) for name, array in flat.items()}
        """Every column by cells: [rings * rows, …]."""
        self._out: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}

    def __len__(self) -> int:
        """Return how many transitions can be drawn."""
        return len(self.sampler)

    @property
    def rollouts(self) -> int:
        """Rollouts below it have been flushed, as who stores them says."""
        return int(self._flushed.now.rollouts[0])

    @property
    def empty(self) -> bool:
        """Whether nothing was ever flushed, or restored."""
        return not self._flushed.flushes

    @property
    def begun(self) -> int:
        """Environment steps of the run when storing began, as who stores says; -1 before."""
        return int(self._begun[0])

    @begun.setter
    def begun(self, env_steps: int) -> None:
        self._begun[0] = env_steps

    # Writing ---------------------------------------------------------------------------------------------------

    def add(self, owner: str, rollout: int, block: Mapping[str, NDArray[Any]]) -> bool:
        """Write a block's ``COLUMNS`` [T + 1, B, …]; row T's action is not looked at, as it is row 0 of the next.

        ``owner`` names a simulator's incarnation and group: its rollouts follow each other, and where one is missing,
        or an heir's first begins at another frame than the last one led to, nothing is joined across the gap. False,
        and nothing stored, when all rings are somebody else's. Raises ValueError when more is added between two flushes
        than the margin holds.
        """
        first = block["first"]
        frame = block["observation"][:, :, -1] if self.shape.stack > 1 else block["observation"]
        placement = self._rings.place(owner, rollout, first.shape[1])
        if placement is None:
            return False
        ring = placement.rings
        head = self._cell(ring, self._written[ring] - 1)  # [B] the row written last
        over_head = self._stored_again(placement, first[0], frame[0], head)
        kept = _of_games(first)
        position = self._written[ring] - over_head + kept.cumsum(axis=0) - 1  # [T + 1, B]
        if (position[-1] >= self._shown[ring] + self.shape.margin).any():
            raise ValueError(f"{owner}: more rows since the last flush than the margin of {self.shape.margin}")
        history = self._history(first, head, over_head)
        cell = self._cell(ring, position)[kept]
        for name, rows in history.items():
            self._column[name][cell] = rows[kept]
            hit("buffer.history")
        for name in _AS_THEY_ARE:
            self._column[name][cell] = block[name][kept]
        self._column["frame"][cell] = frame[kept]
        hit("buffer.rows")
        self._written[ring] = position[-1] + 1
        hit("buffer.added")
        return True

    def _stored_again(
        self, placement: Placement, first: NDArray[np.bool_], frame: NDArray[Any], head: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Say of which rings [B] the head is written over by a block's row 0, of which these are two columns.

        Row 0 is the last block's row T, but for a game that has waited for this block. A void row T gives way. Where
        another simulator stored row T, the two are the same only if their frames are.
        """
        cut = self._column["cut"][head]
        again: NDArray[np.bool_] = np.logical_and(placement.goes_on, ~first | cut)
        if placement.goes_on and placement.inherited:
            again &= cut | _alike(frame, self._frames[head])
        return again

    def leave(self, owner: str) -> None:
        """Free an owner's rings for who comes next; what it has stored stays until that is overwritten."""
        self._rings.leave(owner)

    def leave_to(self, owners: Iterable[str]) -> None:
        """Free the rings of all but these owners."""
        self._rings.leave_to(owners)

    def room(self, environments: Mapping[str, int]) -> set[str]:
        """Return those of these owners, of so many environments each, who would find rings if nobody else stayed."""
        rings = Rings(self._rings.owner.copy(), self._rings.following.copy())
        rings.leave_to(environments)
        return {owner for owner, count in environments.items() if rings.place(owner, 0, count)}

    def _history(
        self, first: NDArray[np.bool_], head: NDArray[np.int64], again: NDArray[np.bool_]
    ) -> dict[str, NDArray[Any]]:
        """Work out what each row [T + 1, B] has before it: the columns ``cut``, ``before`` and ``usable``."""
        most = self.shape.stack - 1
        same = again & ~first[0]
        cut = first.copy()
        cut[0] |= ~same
        before = np.zeros(first.shape, np.uint8)
        before[0] = np.where(same, self._column["before"][head], 0)
        usable = first.copy()
        usable[0] |= np.where(same, self._column["usable"][head], most == 0)
        for t in range(1, len(first)):
            before[t] = np.where(first[t], 0, np.minimum(before[t - 1] + 1, most))
            usable[t] |= usable[t - 1] | (before[t] == most)
        return {"cut": cut, "before": before, "usable": usable}

    def flush(self, rollouts: int | None = None) -> None:
        """Let all rows added so far be drawn that have n rows behind them, and forget the oldest.

        With ``rollouts``, all rollouts below it are in the replay from then on: that and the rows are one commit.
        """
        now, n = self._flushed.now, self.returns.steps
        cell = self._settled(now.shown, self._written)
        usable = self._column["usable"]
        whole, going = usable[cell], np.ones(len(cell), np.bool_)
        for j in range(1, n + 1):
            then = self._after(cell, j)
            whole &= ~(going & self._column["cut"][then])  # nothing leads there, and the game had not ended before
            going &= ~(self._column["terminated"][then] | self._column["truncated"][then])
        # Of rows that are not drawn yet. Killed from here to the commit, what is added again says the same of them:
        # a row that is not whole keeps its cut, and where that does not come again nothing is joined to it.
        usable[cell] = whole
        hit("buffer.whole")
        oldest = self._oldest()
        rings, stored = self._rings, now.rollouts if rollouts is None else np.array([rollouts])
        self._flushed.commit(Record(self._written, rings.owner, rings.following, stored))
        gone = cells_between(oldest, self._oldest(), self.shape.rows)
        self.sampler.remove(gone[usable[gone]])
        hit("buffer.removed")
        self.sampler.insert(cell[whole])
        hit("buffer.inserted")
        self._flushed.follow()

    def recover(self) -> None:
        """Take up what a process had flushed before it was killed; once, before anything else.

        What it had added since then is to be added again. Priorities are those that it had given.
        """
        self._written[:] = self._flushed.now.shown
        oldest, usable = self._oldest(), self._column["usable"]
        cell = cells_between(oldest, np.maximum(self._shown - self.returns.steps, oldest), self.shape.rows)
        new = self._settled(self._flushed.before.shown, self._shown)
        if self._flushed.followed:
            new = new[:0]
        self.sampler.recover(cell[usable[cell]], new[usable[new]])
        self._flushed.follow()

    def _settled(self, before: NDArray[np.int64], now: NDArray[np.int64]) -> NDArray[np.int64]:
        """Cells of the rows whose n next rows have come between two flushes."""
        n = self.returns.steps
        return cells_between(np.maximum(before - n, 0), np.maximum(now - n, 0), self.shape.rows)

    # Reading ---------------------------------------------------------------------------------------------------

    def sample(self, count: int, random: np.random.Generator) -> Sample:
        """Draw a minibatch; raises LookupError where there is none."""
        cell, probability = self.sampler.draw(count, random)
        following = self._after(cell[:, None], np.arange(1, self.returns.steps + 1))  # [B, n]
        over = {name: self._column[name][following] for name in _OVER}
        reward, discount, steps = n_step(self.returns, self._column["reward"][following], over)
        if count not in self._out:
            shape = (count, *self.shape.observation_shape)
            self._out[count] = np.empty(shape, self.shape.observation_dtype), np.empty(shape, self._frames.dtype)
        observation, next_observation = self._out[count]
        self._gather(cell, observation)
        self._gather(self._after(cell, steps), next_observation)
        return Sample(
            observation=observation,
            action=self._column["action"][cell],
            reward=reward,
            discount=discount,
            next_observation=next_observation,
            cell=cell,
            position=self._position(cell),
            probability=probability,
        )

    def update(self, sample: Sample, priority: NDArray[np.floating[Any]]) -> int:
        """Give a sample's transitions [B] priorities; how many were not written, as the transition is forgotten."""
        there = sample.position >= self._oldest()[sample.cell // self.shape.rows]
        self.sampler.update(sample.cell[there], priority[there])
        return int(np.count_nonzero(~there))

    def _gather(self, cell: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Rebuild the observations of cells [B]."""
        k = self.shape.stack
        frames = self._after(cell[:, None], np.arange(1 - k, 1))  # [B, k], oldest first
        # "clip" changes nothing, as all cells exist, but lets numpy copy straight into ``out``.
        np.take(self._frames, frames.ravel(), 0, out.reshape(-1, *self.shape.frame_shape), mode="clip")
        before = self._column["before"][cell]
        for b in np.flatnonzero(before < k - 1):
            out[b, : k - 1 - before[b]] = 0  # by the game's own rule: there were no frames yet

    @property
    def _shown(self) -> NDArray[np.int64]:
        return self._flushed.now.shown

    @property
    def _frames(self) -> NDArray[Any]:
        return self._column["frame"]

    # Places ----------------------------------------------------------------------------------------------------

    def _cell(self, ring: NDArray[np.int64], position: NDArray[np.int64]) -> NDArray[np.int64]:
        return ring * self.shape.rows + position % self.shape.rows

    def _after(self, cell: NDArray[np.int64], steps: int | NDArray[np.int64]) -> NDArray[np.int64]:
        """The cell so many rows later, or earlier, in the same ring."""
        slot = cell % self.shape.rows
        return cell - slot + (slot + steps) % self.shape.rows

    def _position(self, cell: NDArray[np.int64]) -> NDArray[np.int64]:
        """The newest position shown that lies in each cell."""
        ring, slot = np.divmod(cell, self.shape.rows)
        position: NDArray[np.int64] = slot + (self._shown[ring] - 1 - slot) // self.shape.rows * self.shape.rows
        return position

    def _oldest(self) -> NDArray[np.int64]:
        """Least position of each ring that is drawn: before it lie k - 1 rows for its stack, or the ring's begin."""
        forgotten = self._shown - self.shape.size
        oldest: NDArray[np.int64] = np.where(forgotten > 0, forgotten + self.shape.stack - 1, 0)
        return oldest

    # Checkpoints -----------------------------------------------------------------------------------------------

    def save(self, folder: Path, beat: Callable[[], object] = lambda: None) -> dict[str, Any]:
        """Write what is long into files of a folder, and return what is short, as plain numbers; raises OSError.

        Of what has been flushed: what was added since then is to be added again, by who restores it.
        Files are written from shared memory as it is: nothing is copied. ``beat`` is called after every PART_BYTES.
        """
        rows = min(int(self._shown.max()), self.shape.rows)
        for name in self._columns:
            _write(folder / f"{name}.npy", self._segment[name][:, :rows], beat)
        for name, array in self._words().items():
            _write(folder / f"{name}.npy", array, beat)
        for name, array in self.sampler.arrays().items():
            _write(folder / f"sampler-{name}.npy", array, beat)
        return {"shape": msgspec.to_builtins(self.shape), "sampler": self.sampler.state()}

    def _words(self) -> dict[str, NDArray[Any]]:
        """Return the short arrays of a replay by the names of their files."""
        return {**self._flushed.now._asdict(), "begun": self._begun}

    def restore(
        self,
        folder: Path,
        state: Mapping[str, Any],
        beat: Callable[[], object] = lambda: None,
        *,
        goes_on: bool = False,
        rollouts: int | None = None,
    ) -> None:
        """Take back what was saved by a replay of the same shape; raises ValueError or OSError, and it is empty then.

        ``beat`` is called after every PART_BYTES, which are read from the disk as they are copied.
        ``goes_on``: each simulator goes on, in whatever incarnation, where its environments stood when this was saved.
        Else all are taken for new ones, what they store next is not joined to what they had stored, and with
        ``rollouts`` the rollouts to be stored are those from it on. Killed on the way it is empty too.
        """
        if msgspec.convert(state.get("shape"), ReplayShape) != self.shape:
            raise ValueError(f"{folder}: the replay saved there is {state['shape']!r:.500}, not {self.shape}")
        columns = {name: read(folder / f"{name}.npy", self._segment[name]) for name in self._columns}
        words = self._words()
        for name, array in words.items():
            if name not in ("owner", "following") or (folder / f"{name}.npy").exists():  # they were not saved once
                words[name] = read(folder / f"{name}.npy", array)
        drawn = {name: read(folder / f"sampler-{name}.npy") for name in self.sampler.arrays()}
        check(folder, words)
        for name, saved in columns.items():
            _copy(saved, self._segment[name][:, : saved.shape[1]], beat)
            hit("buffer.restored")
        numbers = state.get("sampler")
        self._written[:], self._begun[:] = words["shown"], words["begun"]
        self.sampler.restore(drawn, numbers if isinstance(numbers, Mapping) else {})
        self._rings = Rings(words["owner"].copy(), words["following"].copy())
        if goes_on:
            self._rings.expect_heirs()
            rollouts = None
        else:
            self._rings.leave_to(())
        stored = words["rollouts"] if rollouts is None else np.array([rollouts])
        self._flushed.follow(ahead=1)
        self._flushed.commit(Record(words["shown"], self._rings.owner, self._rings.following, stored))


def _of_games(first: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say which rows [T + 1, B] are of games; void ones are followed by void ones, or by a game's first."""
    kept = np.ones_like(first)
    kept[:-1] = ~(first[:-1] & first[1:])
    return kept


def _alike(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether the frames of environments [B, …] are the same, bit for bit."""
    bits = [np.ascontiguousarray(f, other.dtype).reshape(len(f), -1).view(np.uint8) for f in (one, other)]
    same: NDArray[np.bool_] = (bits[0] == bits[1]).all(axis=1)
    return same


def _write(path: Path, array: NDArray[Any], beat: Callable[[], object]) -> None:
    """Write what np.save does, but ring by ring in parts that are on disk before the next one is begun."""
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for ring in array if array.ndim > 1 else array[None]:
            content = ring.reshape(-1).view(np.uint8)
            for at in range(0, content.size, PART_BYTES):
                part = memoryview(content[at : at + PART_BYTES])
                if file.write(through("replay.write", part)) != len(part):
                    raise OSError(errno.EIO, "fewer bytes were taken than given", str(path))
                file.flush()
                os.fsync(file.fileno())
                beat()


def _copy(saved: NDArray[Any], array: NDArray[Any], beat: Callable[[], object]) -> None:
    """Copy ring by ring, in parts."""
    rings = zip(saved, array, strict=True) if array.ndim > 1 else [(saved, array)]
    for source, ring in rings:
        rows = max(1, PART_BYTES * len(ring) // max(ring.nbytes, 1))
        for at in range(0, len(ring), rows):
            ring[at : at + rows] = source[at : at + rows]
            beat()
