"""Replay buffer in shared memory: a ring buffer of time steps for each environment, with every frame stored once.

A stored time step is a *row*, and what is drawn, a transition or a sequence, is an *item* (``replay/rows.py``). ``add``
writes only to the margin of a ring, the part that cannot be drawn. So it may run while another thread samples.
``flush`` makes the added rows drawable, and drops as many of the oldest. With a flush after each rollout this is an
ordinary replay. With a flush every C steps it is the replay of Fast DQN, and the margins are its temporary buffers.

A flush is atomic, even if its process is killed (``replay/flushed.py``). The next process that opens the segment calls
``recover``. Environments then keep their rings, and new rows continue those that are stored.
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

from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.failpoints import hit, through
from actorlearn.memory.shared import Segment
from actorlearn.replay.flushed import Flushed, FlushRecord
from actorlearn.replay.nstep import n_step
from actorlearn.replay.rings import Rings, RingsGiven, cells_between
from actorlearn.replay.rows import ReplayShape, column_fields
from actorlearn.replay.samplers import Sampler
from actorlearn.replay.saved import check, mapped, read

PART_BYTES = 1 << 26
"""Bytes that are written between two calls of ``beat``: this takes under a second even on a slow disk."""
_AS_THEY_ARE = ("action", "reward", "terminated", "truncated", "life_lost")
_OVER = ("terminated", "truncated", "life_lost")


class Sample(NamedTuple):
    """A minibatch of B sequences of L transitions, with n-step returns.

    A sequence has R = L + n observations. A single transition (L = 1) has R = 2: that before the action, and that from
    which its return bootstraps. The next minibatch of the same size overwrites the observations.
    """

    observation: NDArray[Any]  # [R, B, *observation_shape]
    first: NDArray[np.bool_]  # [R, B] the network's state is zero before the row; False for row 0, which has ``state``
    state: NDArray[np.float32]  # [B, S] stored state of a recurrent network before row 0; S = 0 if none is stored
    valid: NDArray[np.bool_]  # [L, B] a transition begins at the row: False for a game's final observation
    action: NDArray[Any]  # [L, B] int64, or [L, B, n] float32
    reward: NDArray[np.float32]  # [L, B] n-step sum, discounted and clipped
    discount: NDArray[np.float32]  # [L, B] factor of the value of the observation reached: 0 at a terminal
    reached: NDArray[np.int64]  # [L, B] row of the observation reached: the final one if the game ended
    cell: NDArray[np.int64]  # [B] index of the item's first row among the rows of all rings
    position: NDArray[np.int64]  # [B] position of this row in its ring, by which `update` finds that it still exists
    probability: NDArray[np.float64]  # [B] probability with which the item was drawn


class Replay:
    """A replay buffer in shared memory, with a ring buffer of time steps for each environment.

    Only one process, the trainer, uses it. A cell is the index of a time step in all rings together: ring * steps per
    ring + index in the ring. R in shapes is the number of rings.
    """

    def __init__(self, segment: Segment, shape: ReplayShape, settings: OffPolicySettings, sampler: Sampler) -> None:
        """Use shared memory with the arrays of ``replay_fields(shape)``, and a sampler for all its cells.

        ``settings`` say how returns are computed. Raises ValueError if a ring is too short for the margin and one item.
        """
        least = shape.margin + shape.stack + settings.n_step + (shape.length - 1) + (shape.every - 1)
        if shape.size < least:
            items = f"sequences of {shape.length} rows, one every {shape.every}, " if shape.length > 1 else ""
            raise ValueError(
                f"the replay holds {shape.size} rows of each environment, too few for {shape.margin} new "
                f"rows between two additions, {items}stacks of {shape.stack} frames and "
                f"{settings.n_step}-step returns; set replay.capacity_steps higher or use fewer "
                "environments"
            )
        self.shape = shape
        self.settings = settings
        self.sampler = sampler
        self._segment = segment
        self._written, self._begun = segment["written"], segment["begun"]
        self._flushed = Flushed(segment)
        self._rings = Rings(self._flushed.now.owner.copy(), self._flushed.now.following.copy())
        self._columns = [field.name for field in column_fields(shape)]
        flat = {name: segment[name] for name in self._columns}
        self._column = {name: array.reshape(-1, *array.shape[2:]) for name, array in flat.items()}
        """Views of all columns by cell, [rings * rows, …]; cell = ring * rows + slot."""
        self._span = shape.length - 1 + settings.n_step
        """Number of rows that must follow an item's first row before the item can be drawn."""
        self._out: dict[int, NDArray[Any]] = {}

    @property
    def transitions(self) -> int:
        """Number of stored transitions whose returns are complete."""
        rows, oldest = self.shape.rows, self._oldest()
        count = np.maximum(self._shown - self.settings.n_step - oldest, 0)
        usable, begin = self._segment["usable"], oldest % rows
        spans = zip(usable, begin.tolist(), (begin + count).tolist(), strict=True)
        return sum(int(ring[a:b].sum()) + int(ring[: max(b - rows, 0)].sum()) for ring, a, b in spans)

    @property
    def rollouts(self) -> int:
        """Number of rollouts that have been stored: all with a smaller number."""
        return int(self._flushed.now.rollouts[0])

    @property
    def empty(self) -> bool:
        """Whether no time steps have been flushed or restored yet."""
        return not self._flushed.flushes

    @property
    def begun(self) -> int:
        """Number of environment steps of the run when the first time step was stored; -1 before the trainer sets it."""
        return int(self._begun[0])

    @begun.setter
    def begun(self, env_steps: int) -> None:
        self._begun[0] = env_steps

    # Writing ---------------------------------------------------------------------------------------------------

    def add(self, owner: str, rollout: int, block: Mapping[str, NDArray[Any]]) -> bool:
        """Store T + 1 time steps of B environments; they cannot be drawn before the next ``flush``.

        ``block`` has the arrays [T + 1, B, …]; step T comes again as step 0 of the next block. ``owner`` names the
        environments (``replay/rings.py``), and ``rollout`` numbers their blocks. No transition connects a block to
        stored steps if a number is missing, or if the first frame from a restarted simulator is not the last stored.

        Returns False, and stores nothing, if too few rings are free for a new owner. Raises ValueError if more steps
        are added between two flushes than the margin holds.
        """
        first = block["first"]
        frame = block["observation"][:, :, -1] if self.shape.stack > 1 else block["observation"]
        given = self._rings.place(owner, rollout, first.shape[1])
        if given is None:
            return False
        ring = given.rings
        head = self._cell(ring, self._written[ring] - 1)  # [B] the last written row
        over_head = self._stored_again(given, first[0], frame[0], head)
        kept = np.ones_like(first)
        kept[:-1] = ~(first[:-1] & first[1:])  # a void row, which precedes another row with ``first``, is not stored
        position = self._written[ring] - over_head + kept.cumsum(axis=0) - 1  # [T + 1, B]
        if (position[-1] >= self._shown[ring] + self.shape.margin).any():
            raise ValueError(
                f"{owner} added more than {self.shape.margin} rows to a ring since the last flush; call "
                "flush more often"
            )
        history = self._history(first, head, over_head)
        cell = self._cell(ring, position)[kept]
        for name, rows in history.items():
            self._column[name][cell] = rows[kept]
            hit("buffer.history")
        for name in _AS_THEY_ARE:
            self._column[name][cell] = block[name][kept]
        self._column["frame"][cell] = frame[kept]
        if self.shape.state_size:
            begins = cell % self.shape.every == 0
            state = np.where(first[kept][begins, None], 0.0, block["state"][kept][begins])
            self._column["state"][cell[begins] // self.shape.every] = state
        hit("buffer.rows")
        self._written[ring] = position[-1] + 1
        hit("buffer.added")
        return True

    def _stored_again(
        self, given: RingsGiven, first: NDArray[np.bool_], frame: NDArray[Any], head: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return [B] whether step 0 of a rollout, with ``first`` and ``frame`` [B, …], overwrites the last stored step.

        Step 0 never overwrites it if a rollout is missing between them. Otherwise it overwrites a step with ``cut``,
        and a step that is the same time step: step 0 begins no game and, if another owner stored the last step, the
        frames are equal. ``head`` [B]: the cells of the last stored steps.
        """
        cut = self._column["cut"][head]
        again: NDArray[np.bool_] = np.logical_and(given.goes_on, ~first | cut)
        if given.goes_on and given.inherited:
            again &= cut | _alike(frame, self._column["frame"][head])
        return again

    def leave_to(self, owners: Iterable[str]) -> None:
        """Free the rings of all but these owners for new ones; stored steps can be drawn until they are overwritten."""
        self._rings.leave_to(owners)

    def room(self, environments: Mapping[str, int]) -> set[str]:
        """Return which of ``environments`` (owner -> number of environments) would get rings if all others left."""
        rings = Rings(self._rings.owner.copy(), self._rings.following.copy())
        rings.leave_to(environments)
        return {owner for owner, count in environments.items() if rings.place(owner, 0, count)}

    def _history(
        self, first: NDArray[np.bool_], head: NDArray[np.int64], again: NDArray[np.bool_]
    ) -> dict[str, NDArray[Any]]:
        """Return the columns ``cut``, ``before`` and ``usable`` [T + 1, B], which depend on earlier steps.

        ``first`` [T + 1, B] is the block's array. Step 0 overwrites the cell ``head`` where ``again`` [B] is True.
        """
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
        """Make added steps drawable, unless their sequence or n-step return is incomplete; drop as many of the oldest.

        With ``rollouts``, all rollouts below this number count as stored from now on. If the process is killed, either
        the flush and this number take effect, or neither does.
        """
        now, n = self._flushed.now, self.settings.n_step
        cell, new = (self._settled(now.shown, self._written, rows) for rows in (n, self._span))
        usable = self._column["usable"]
        whole, going = usable[cell], np.ones(len(cell), np.bool_)
        for j in range(1, n + 1):
            then = self._after(cell, j)
            whole &= ~(going & self._column["cut"][then])  # the game's next row is missing: there is no return
            going &= ~(self._column["terminated"][then] | self._column["truncated"][then])
        # These rows cannot be drawn yet. If the process is killed before the commit, adding them again gives the same
        # flags: the cut after an incomplete row is kept, and a row that was not added again has no successor.
        usable[cell] = whole
        hit("buffer.whole")
        oldest = self._oldest()
        rings, stored = self._rings, now.rollouts if rollouts is None else np.array([rollouts])
        self._flushed.commit(FlushRecord(self._written, rings.owner, rings.following, stored))
        gone = cells_between(oldest, self._oldest(), self.shape.rows)
        self.sampler.remove(self._items(gone))
        hit("buffer.removed")
        self.sampler.insert(self._items(new))
        hit("buffer.inserted")
        self._flushed.follow()

    def recover(self) -> None:
        """Continue with the memory of a killed process; must be called before any other method.

        Priorities and flushed steps are kept. Steps added since the last flush are dropped and must be added again.
        """
        self._written[:] = self._flushed.now.shown
        new = self._settled(self._flushed.before.shown, self._shown, self._span)
        if self._flushed.followed:
            new = new[:0]
        self.sampler.recover(self.drawable(), self._items(new))
        self._flushed.follow()

    def _settled(self, before: NDArray[np.int64], now: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
        """Return the cells [N] of time steps whose step ``rows`` later is at a position from ``before`` to now - 1.

        ``before`` and ``now`` [R] are positions in each ring.
        """
        return cells_between(np.maximum(before - rows, 0), np.maximum(now - rows, 0), self.shape.rows)

    def _items(self, cell: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the given, flushed cells at which a drawable transition or sequence begins.

        A transition must begin at its first row. At each other row a transition must begin or a game end.
        """
        usable, cut = self._column["usable"], self._column["cut"]
        begins: NDArray[np.int64] = cell[usable[cell] & (cell % self.shape.every == 0)]
        for j in range(1, self.shape.length):
            then = self._after(begins, j)
            ends = (self._column["terminated"][then] | self._column["truncated"][then]) & ~cut[then]
            begins = begins[usable[then] | ends]
        return begins

    # Reading ---------------------------------------------------------------------------------------------------

    def drawable(self) -> NDArray[np.int64]:
        """Return the cells [N] at which drawable transitions or sequences begin: ring by ring, the oldest first."""
        oldest = self._oldest()
        return self._items(cells_between(oldest, np.maximum(self._shown - self._span, oldest), self.shape.rows))

    def sample(self, count: int, random: np.random.Generator) -> Sample:
        """Draw a minibatch of ``count`` transitions or sequences; raises LookupError if none can be drawn."""
        cell, probability = self.sampler.draw(count, random)
        of_items = self._after(cell, np.arange(self.shape.length)[:, None])  # [L, B]
        following = self._after(of_items.reshape(-1, 1), np.arange(1, self.settings.n_step + 1))  # [L * B, n]
        over = {name: self._column[name][following] for name in _OVER}
        returns = n_step(self.settings, self._column["reward"][following], over)
        rows, reached = self._rows(cell, returns.steps.reshape(of_items.shape))
        first = self._column["cut"][rows]
        first[0] = False
        return Sample(
            observation=self._observations(rows, first),
            first=first,
            state=self._states(cell),
            valid=self._column["usable"][of_items],
            action=self._column["action"][of_items],
            reward=returns.reward.reshape(of_items.shape),
            discount=returns.discount.reshape(of_items.shape),
            reached=reached,
            cell=cell,
            position=self._position(cell),
            probability=probability,
        )

    def _rows(self, cell: NDArray[np.int64], steps: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the cells of a sample's observations, and the index of the one that each return [L, B] reaches.

        ``steps`` [L, B]: length of each return. The cells are [2, B] for single transitions, else [L + n, B].
        """
        if self.shape.length == 1:  # the rows between are not needed
            return np.concatenate([cell[None], self._after(cell, steps)]), np.ones_like(steps)
        rows = self._after(cell, np.arange(self._span + 1)[:, None])
        return rows, np.arange(self.shape.length)[:, None] + steps

    def _observations(self, cell: NDArray[np.int64], first: NDArray[np.bool_]) -> NDArray[Any]:
        """Return the observations in a sample's cells, in memory that the next call for as many cells overwrites.

        After the L steps of a sequence, observations from the end of the game on are set to zero: no return reaches
        them, and they may be those of another game or of none.
        """
        count = cell.size
        if count not in self._out:
            self._out[count] = np.empty((count, *self.shape.observation_shape), self.shape.observation_dtype)
        self._gather(cell.ravel(), self._out[count])
        observation = self._out[count].reshape(*cell.shape, *self.shape.observation_shape)
        if self.shape.length > 1:
            after = observation[self.shape.length :]
            after[np.logical_or.accumulate(first[self.shape.length :], axis=0)] = 0
        return observation

    def _states(self, cell: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the stored states [B, S] of a recurrent network before the time steps in these cells."""
        if not self.shape.state_size:
            return np.empty((len(cell), 0), np.float32)
        state: NDArray[np.float32] = self._column["state"][cell // self.shape.every]
        return state

    def update(self, sample: Sample, priority: NDArray[np.floating[Any]]) -> None:
        """Set the priorities [B] of a sample's transitions or sequences, except those that were dropped since."""
        there = sample.position >= self._oldest()[sample.cell // self.shape.rows]
        self.sampler.update(sample.cell[there], priority[there])

    def _gather(self, cell: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Write the observations of cells [B], made from stored frames, to ``out`` [B, *observation_shape]."""
        k = self.shape.stack
        frames = self._after(cell[:, None], np.arange(1 - k, 1))  # [B, k], oldest first
        # All cells exist, so "clip" changes no index, but with it numpy copies to ``out`` without a buffer.
        np.take(self._column["frame"], frames.ravel(), 0, out.reshape(-1, *self.shape.frame_shape), mode="clip")
        before = self._column["before"][cell]
        for b in np.flatnonzero(before < k - 1):
            out[b, : k - 1 - before[b]] = 0  # frames before the game's first are zeros

    @property
    def _shown(self) -> NDArray[np.int64]:
        return self._flushed.now.shown

    # Cells and positions -----------------------------------------------------------------------------------------

    def _cell(self, ring: NDArray[np.int64], position: NDArray[np.int64]) -> NDArray[np.int64]:
        return ring * self.shape.rows + position % self.shape.rows

    def _after(self, cell: NDArray[np.int64], steps: int | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cells of the time steps ``steps`` later in the same ring; earlier if negative."""
        slot = cell % self.shape.rows
        return cell - slot + (slot + steps) % self.shape.rows

    def _position(self, cell: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position of the newest flushed time step in each cell."""
        ring, slot = np.divmod(cell, self.shape.rows)
        position: NDArray[np.int64] = slot + (self._shown[ring] - 1 - slot) // self.shape.rows * self.shape.rows
        return position

    def _oldest(self) -> NDArray[np.int64]:
        """Return the smallest drawable position of each ring [R]; k - 1 older rows complete its stack of k frames."""
        forgotten = self._shown - self.shape.size
        oldest: NDArray[np.int64] = np.where(forgotten > 0, forgotten + self.shape.stack - 1, 0)
        return oldest

    # Checkpoints -----------------------------------------------------------------------------------------------

    def save(self, folder: Path, beat: Callable[[], object] = lambda: None) -> dict[str, Any]:
        """Write all arrays to files of a folder, and return the rest as plain numbers; raises OSError.

        Steps added since the last flush are not saved and must be added again after a restore. Files are written
        directly from shared memory, without a copy. ``beat`` is called after every PART_BYTES, as a sign that the
        process does not hang.
        """
        rows = min(int(self._shown.max()), self.shape.rows)
        for name in self._columns:
            array = self._segment[name]
            _write(folder / f"{name}.npy", array[:, : -(-rows * array.shape[1] // self.shape.rows)], beat)
        for name, array in self._words().items():
            _write(folder / f"{name}.npy", array, beat)
        for name, array in self.sampler.arrays().items():
            _write(folder / f"sampler-{name}.npy", array, beat)
        return {"shape": msgspec.to_builtins(self.shape), "sampler": self.sampler.state()}

    def _words(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that are saved besides the columns, by the names of their files."""
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
        """Read the files of a replay of the same shape.

        With ``goes_on``, the simulators will continue exactly from their state when the replay was saved. Otherwise no
        transition connects their steps to the stored ones, and ``rollouts``, if given, is the first rollout that will
        be stored.

        ``beat`` is called as in ``save``. Raises ValueError or OSError. After an error, or if the process is killed
        during this call, the replay is empty.
        """
        if msgspec.convert(state.get("shape"), ReplayShape) != self.shape:
            raise ValueError(
                f"{folder}: the saved replay has the shape {state['shape']!r:.500}, but this run needs {self.shape}"
            )
        columns = {name: read(folder / f"{name}.npy", self._segment[name]) for name in self._columns}
        words = self._words()
        for name, array in words.items():
            words[name] = read(folder / f"{name}.npy", array)
        drawn = {
            name: mapped(folder / f"sampler-{name}.npy", array.dtype) for name, array in self.sampler.arrays().items()
        }
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
        self._flushed.commit(FlushRecord(words["shown"], self._rings.owner, self._rings.following, stored))


def _alike(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Return [B] whether frames [B, …] are equal bit for bit."""
    bits = [np.ascontiguousarray(f, other.dtype).reshape(len(f), -1).view(np.uint8) for f in (one, other)]
    same: NDArray[np.bool_] = (bits[0] == bits[1]).all(axis=1)
    return same


def _write(path: Path, array: NDArray[Any], beat: Callable[[], object]) -> None:
    """Write an array in the format of np.save, in parts of PART_BYTES; call fsync and ``beat`` after each part."""
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for ring in array if array.ndim > 1 else array[None]:
            content = ring.reshape(-1).view(np.uint8)
            for at in range(0, content.size, PART_BYTES):
                part = memoryview(content[at : at + PART_BYTES])
                if file.write(through("buffer.write", part)) != len(part):
                    raise OSError(errno.EIO, "the disk took only a part of the bytes", str(path))
                file.flush()
                os.fsync(file.fileno())
                beat()


def _copy(saved: NDArray[Any], array: NDArray[Any], beat: Callable[[], object]) -> None:
    """Copy a saved array to shared memory ring by ring, in parts of PART_BYTES; call ``beat`` after each part."""
    rings = zip(saved, array, strict=True) if array.ndim > 1 else [(saved, array)]
    for source, ring in rings:
        rows = max(1, PART_BYTES * len(ring) // max(ring.nbytes, 1))
        for at in range(0, len(ring), rows):
            ring[at : at + rows] = source[at : at + rows]
            beat()
