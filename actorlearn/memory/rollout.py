"""Blocks of experience: the meaning of a row, the writer of each column, and the words that order the writers.

A row ``t`` of a block has, for the B environments of one simulator group:

====================================================  ==========  ================================================
column                                                written by  meaning
====================================================  ==========  ================================================
observation[t], reward[t], terminated[t],             simulator   the result of the action before row t (reward is raw;
truncated[t], life_lost[t], first[t]                              first: a new game starts here, without an action)
action[t], policy_version[t], the algorithm's own     inference   chosen from observation[t]
state[t + 1], recurrent networks only                 inference   the network's state after observation[t], its input
                                                                  together with observation[t + 1]
====================================================  ==========  ================================================

Row T of a block is also row 0 of the next block: the simulator copies it. ``action[t]`` leads to ``reward[t + 1]``;
``processes/batches.py`` is the one place that shifts them. If ``first[t]`` is set, readers use zeros instead of
``state[t]``, because a game begins without memory. If a game ends inside a block, ``simulators.reset`` decides what
follows:

================  ===============================================  ===================================================
reset             the row after a game's last row                  row 0 of the next block
================  ===============================================  ===================================================
inside            the first row of the next game                   row T of this block
wait              void, like all rows up to row T: first is set,   the first row of the next game; row T of this block
                  reward 0, no other flag, any observation         if the game continues
================  ===============================================  ===================================================

In games of several agents the rows of an agent that is not in its game are void too (``envs/interface.py``). Readers
treat a void row as a longer reset: the action that leads to a row with ``first`` is always ignored. Row 0 of a
simulator's first rollout is the first row of a game, or the state after ``simulators.decorrelation_steps``.

Words in shared memory, not messages, determine which process continues. Time is divided into *rollouts* of T rows,
numbered over the whole run; rollout r is in block ``r % blocks`` of every group, and timestep n = r * T + t is row t of
rollout r.

==================  ==================  ==========================================================================
word                one writer          meaning
==================  ==================  ==========================================================================
open (run)          trainer             rollouts below it may be begun; raising it frees older blocks
version, env_steps  trainer             of each open rollout: newest weights when it was opened, and steps before it
judged (run)        trainer             newest rollout whose age was judged; ``judged_by``: the version it was judged by
hold (run)          trainer             number of the newest snapshot it has requested; 0 = none
hold_from (run)     trainer             first rollout whose rows belong in that snapshot
held (member)       simulator           number of the newest snapshot it has answered; negative = it could not take it
ready (member)      simulator           1 when it can begin its first rollout; it is not admitted before
listed (member)     inference           1 when its server knows it; it is not admitted before. 1 from the start if
                                        the simulator runs the policy itself
joined (member)     trainer             first rollout the simulator takes part in; -1 until it is admitted
left (member)       trainer             first rollout the simulator no longer takes part in
released (member)   trainer             commit of the account after which the segment is no longer needed; 0 before
observed[group]     simulator           timesteps below it have an observation
acted[group]        inference           timesteps below it have an action
completed[group]    simulator           rollouts below it are complete
==================  ==================  ==========================================================================

Members join and leave at numbered rollouts, ``open`` is one word for all processes, and trainer and server both know a
member before it joins. Every process therefore derives the same participants for every timestep, and the composition of
batches does not depend on timing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from numpy.typing import NDArray

from actorlearn.actions import Actions, cell
from actorlearn.failpoints import hit
from actorlearn.memory.fields import Field
from actorlearn.memory.shared import Segment

MOST_BLOCKS = 64
"""Most rollouts that can be open at once."""
FAR = 2**62
"""Number of a rollout that is never reached: no limit."""

ARRIVAL_COLUMNS = ("observation", "reward", "terminated", "truncated", "life_lost", "first")


class BlockShape(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes that determine the layout of a simulator's segment."""

    groups: int
    blocks: int
    horizon: int
    """T: rows that an update learns from; a block has one more."""
    envs_per_group: int
    observation_shape: tuple[int, ...]
    observation_dtype: str
    actions: Actions
    columns: dict[str, tuple[str, tuple[int, ...]]] = {}
    """The algorithm's columns, for each row and environment: name -> (dtype, shape)."""
    state_size: int = 0
    """Length of a recurrent network's state, for each row and environment; 0: there is no such column."""


def block_fields(shape: BlockShape) -> list[Field]:
    """Return the fields of a simulator's segment."""
    rows = (shape.groups, shape.blocks, shape.horizon + 1)
    per_env = (*rows, shape.envs_per_group)
    observation_poison = 0xA5 if shape.observation_dtype == "uint8" else float("nan")
    state = [Field("state", "float32", (*per_env, shape.state_size), float("nan"))] if shape.state_size else []
    return [
        Field("shape", "int64", (5,)),
        Field("held", "int64", (1,), 0),
        Field("ready", "int64", (1,), 0),
        Field("listed", "int64", (1,), 1),
        Field("joined", "int64", (1,), -1),
        Field("left", "int64", (1,), FAR),
        Field("released", "int64", (1,), 0),
        Field("observed", "int64", (shape.groups, 8), 0),
        Field("acted", "int64", (shape.groups, 8), 0),
        Field("completed", "int64", (shape.groups, 8), 0),
        Field("observation", shape.observation_dtype, (*per_env, *shape.observation_shape), observation_poison),
        Field("reward", "float32", per_env, float("nan")),
        Field("terminated", "bool", per_env, 1),
        Field("truncated", "bool", per_env, 1),
        Field("life_lost", "bool", per_env, 1),
        Field("first", "bool", per_env, 1),
        action_field(shape.actions, per_env),
        Field("policy_version", "int64", rows, -1),
        *state,
        *(Field(name, dtype, (*per_env, *extra)) for name, (dtype, extra) in sorted(shape.columns.items())),
    ]


def action_field(actions: Actions, per_env: tuple[int, ...]) -> Field:
    """Return the field of the action column; its poison value is no valid action."""
    dtype, shape = cell(actions)
    return Field("action", dtype, (*per_env, *shape), -1 if dtype == "int64" else float("nan"))


def rollouts_fields() -> list[Field]:
    """Return the fields of a learner's rollouts segment."""
    return [
        Field("open", "int64", (8,), 0),
        Field("hold", "int64", (8,), 0),
        Field("hold_from", "int64", (1,), 0),
        Field("version", "int64", (MOST_BLOCKS,), -1),
        Field("env_steps", "int64", (MOST_BLOCKS,), 0),
        Field("judged", "int64", (8,), -1),
        Field("judged_by", "int64", (1,), -1),
    ]


class Rollouts:
    """Rollouts that simulators may begin, each with the newest version and the step count when it was opened."""

    def __init__(self, segment: Segment, steps: int = 0) -> None:
        """Bind to a learner's rollouts segment; ``steps``: steps of one rollout of all learners (trainer only)."""
        self._open = segment["open"]
        self._hold, self._hold_from = segment["hold"], segment["hold_from"]
        self._version = segment["version"]
        self._env_steps = segment["env_steps"]
        self._judged, self._judged_by = segment["judged"], segment["judged_by"]
        self._steps = steps
        self._newest = (-1, 0, 0)
        self._before: dict[int, tuple[int, int]] = {}
        """Version and steps of rollouts that were open at the checkpoint this run was resumed from."""

    @property
    def open(self) -> int:
        """Number below which all rollouts may be begun."""
        return int(self._open[0])

    def version(self, rollout: int) -> int:
        """Return the version of the weights that was the newest when this rollout was opened."""
        return int(self._version[rollout % MOST_BLOCKS])

    def env_steps(self, rollout: int) -> int:
        """Return the environment steps before this open rollout; rollouts still in progress count in full."""
        return int(self._env_steps[rollout % MOST_BLOCKS])

    def published(self, version: int, env_steps: int, rollouts_learned: int) -> None:
        """Store a published version for rollouts opened from now on; ``env_steps``: steps learned from so far."""
        self._newest = (version, env_steps, rollouts_learned)

    def judge(self, rollout: int, version: int) -> int:
        """Return the version by which this rollout's rows are judged too old: the ``version`` of its first call.

        A restarted trainer that finishes a half-learned rollout therefore leaves out the same rows as its predecessor.
        """
        if self._judged[0] != rollout:
            self._judged_by[0] = version
            hit("rollout.judged")
            self._judged[0] = rollout
        return int(self._judged_by[0])

    @property
    def hold(self) -> int:
        """Number of the newest snapshot that the trainer has requested; 0 = none."""
        return int(self._hold[0])

    @property
    def hold_from(self) -> int:
        """First rollout whose rows belong in that snapshot: the next to be learned."""
        return int(self._hold_from[0])

    def ask(self, rollouts_learned: int) -> int:
        """Request a snapshot of all simulators, with their rows from the next rollout on; returns its number."""
        self._hold_from[0] = rollouts_learned
        hit("rollout.hold_from")
        self._hold[0] = self.hold + 1
        return self.hold

    def state(self, rollouts_learned: int) -> dict[str, Any]:
        """Return version and steps of the open rollouts not learned yet, as plain numbers for a checkpoint."""
        opened = {str(r): [self.version(r), self.env_steps(r)] for r in range(rollouts_learned, self.open)}
        return {"newest": list(self._newest), "open": opened}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore ``state()``: the same rollouts get the same version and steps when they are opened again."""
        version, env_steps, rollouts_learned = state["newest"]
        self._newest = version, env_steps, rollouts_learned
        self._before = {int(rollout): (version, steps) for rollout, (version, steps) in state["open"].items()}

    def raise_to(self, rollouts: int) -> None:
        """Let simulators begin rollouts below this number; called by the trainer only."""
        version, env_steps, rollouts_learned = self._newest
        for rollout in range(max(self.open, rollouts - MOST_BLOCKS), rollouts):
            expected = version, env_steps + (rollout - rollouts_learned) * self._steps
            slot = rollout % MOST_BLOCKS
            self._version[slot], self._env_steps[slot] = self._before.pop(rollout, expected)
        hit("rollout.described")
        self._open[0] = rollouts


def make_segment(path: Any, shape: BlockShape, number: int = 0, *, has_server: bool = False) -> Segment:
    """Create the segment of the simulator with this number and write its shape into it.

    ``has_server``: an inference server chooses the actions, and has to list the simulator first.
    """
    segment = Segment.create(path, block_fields(shape))
    segment["listed"][0] = not has_server
    segment["shape"][:] = (shape.groups, shape.blocks, shape.horizon, shape.envs_per_group, number)
    return segment


class Blocks:
    """The words and columns of a simulator's segment."""

    def __init__(self, segment: Segment) -> None:
        """Bind to a simulator's segment; its shape is read from it."""
        self.segment = segment
        self.groups, self.blocks, self.horizon, self.envs_per_group, self.number = (int(n) for n in segment["shape"])
        self._observed = segment["observed"]
        self._acted = segment["acted"]
        self._completed = segment["completed"]
        self._held = segment["held"]
        self._ready = segment["ready"]
        self._listed = segment["listed"]
        self._joined = segment["joined"]
        self._left = segment["left"]
        self._released = segment["released"]
        state = [field.name for field in segment.fields if field.name == "state"]
        self._carried = (*ARRIVAL_COLUMNS, *state)
        rows = (self.groups, self.blocks, self.horizon + 1)
        self.columns = [field.name for field in segment.fields if field.shape[:3] == rows]
        """Names of the columns."""

    # Membership, written by the trainer except for `ready` and `listed` ------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether the environments are ready to begin their first rollout, and the process that acts knows them."""
        return bool(self._ready[0] and self._listed[0])

    def mark_ready(self) -> None:
        """Mark the environments as ready for the first rollout; simulator only."""
        self._ready[0] = 1

    def mark_listed(self) -> None:
        """Mark the simulator as known to its server, which answers it from its first rollout on; inference only."""
        self._listed[0] = 1

    @property
    def joined(self) -> int:
        """First rollout that this member takes part in; -1 before it is admitted."""
        return int(self._joined[0])

    @property
    def left(self) -> int:
        """First rollout that this member no longer takes part in."""
        return int(self._left[0])

    def admit(self, first_rollout: int) -> None:
        """Let the member take part from this rollout on, and set its counters to this rollout."""
        timestep = first_rollout * self.horizon
        self._observed[:, 0] = timestep
        self._acted[:, 0] = timestep
        self._completed[:, 0] = first_rollout
        self._joined[0] = first_rollout

    def leave(self, first_rollout_without: int) -> None:
        """Let the member finish its rollouts below this one and then leave."""
        self._left[0] = first_rollout_without

    @property
    def released(self) -> int:
        """Commit of the account after which the segment may be removed, because all its rows are counted; 0 before."""
        return int(self._released[0])

    def release(self, commit: int) -> None:
        """Mark the segment as no longer needed once this commit of the account has been made."""
        self._released[0] = commit

    def takes_part(self, rollout: int) -> bool:
        """Whether this member's rows belong to that rollout."""
        return 0 <= self.joined <= rollout < self.left

    # Snapshots -------------------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """Number of the newest snapshot that this simulator has answered; negative if it could not take it."""
        return int(self._held[0])

    def mark_held(self, number: int, taken: bool) -> None:
        """Mark the snapshot of this number as written, or as failed (not ``taken``); simulator only."""
        self._held[0] = number if taken else -number

    # Words that order the writers --------------------------------------------------------------------------------

    def observed(self, group: int) -> int:
        """Return the timestep below which all rows have an observation."""
        return int(self._observed[group, 0])

    def acted(self, group: int) -> int:
        """Return the timestep below which all rows have an action."""
        return int(self._acted[group, 0])

    def completed(self, group: int) -> int:
        """Return the rollout below which all rollouts are complete."""
        return int(self._completed[group, 0])

    def rows(self, group: int, rollout: int) -> int:
        """Return the number of actions of a group in this rollout whose results are written."""
        if self.completed(group) > rollout:
            return self.horizon
        return min(max(self.observed(group) - rollout * self.horizon - 1, 0), self.horizon - 1)

    def mark_observed(self, group: int, timestep: int) -> None:
        """Mark the observation of this timestep as written; simulator only."""
        self._observed[group, 0] = timestep + 1

    def mark_acted(self, group: int, timestep: int, policy_version: int) -> None:
        """Mark the action of this timestep as written, chosen by this version of the weights; inference only."""
        rollout, t = divmod(timestep, self.horizon)
        self.segment["policy_version"][group, rollout % self.blocks, t] = policy_version
        self._acted[group, 0] = timestep + 1

    def go_on_at(self, group: int, timestep: int) -> None:
        """Mark timesteps below this one as acted, in a resumed run; only if the simulator runs the policy itself."""
        self._acted[group, 0] = timestep

    def mark_completed(self, group: int, rollout: int) -> None:
        """Mark all rows of this rollout as written; simulator only."""
        self._completed[group, 0] = rollout + 1

    # Columns ---------------------------------------------------------------------------------------------------

    def row(self, name: str, group: int, timestep: int) -> NDArray[Any]:
        """Return column ``name`` of the row of this timestep: [B, ...]."""
        rollout, t = divmod(timestep, self.horizon)
        view: NDArray[Any] = self.segment[name][group, rollout % self.blocks, t]
        return view

    def row_after(self, name: str, group: int, timestep: int) -> NDArray[Any]:
        """Return column ``name`` of the row after this timestep, in the same block: [B, ...]."""
        rollout, t = divmod(timestep, self.horizon)
        view: NDArray[Any] = self.segment[name][group, rollout % self.blocks, t + 1]
        return view

    def last_row(self, name: str, group: int, rollout: int) -> NDArray[Any]:
        """Return column ``name`` of row T of a rollout, which becomes row 0 of the next one: [B, ...]."""
        view: NDArray[Any] = self.segment[name][group, rollout % self.blocks, self.horizon]
        return view

    def block(self, name: str, group: int, rollout: int) -> NDArray[Any]:
        """Return column ``name`` of a whole rollout: [T + 1, B, ...] ([T + 1] for policy_version)."""
        view: NDArray[Any] = self.segment[name][group, rollout % self.blocks]
        return view

    def begin(self, group: int, rollout: int, first: bool) -> None:
        """Copy row T of the previous rollout to row 0 of this one; zeros in the simulator's first rollout."""
        for name in self._carried:
            before = 0 if first else self.last_row(name, group, rollout - 1)
            self.row(name, group, rollout * self.horizon)[:] = before


class GroupRollout(NamedTuple):
    """The block that one group of a member has written in a rollout."""

    socket_id: str
    """Id of the member."""
    blocks: Blocks
    group: int

    @property
    def owner(self) -> str:
        """Name of the group, the key of its games, rings and returns: ``<socket id>/<group>``."""
        return f"{self.socket_id}/{self.group}"


def unfinished_steps(blocks: Blocks, group: int) -> int:
    """Return the environment steps of a group in its incomplete rollout, which are lost when its simulator dies.

    Row 0 of a rollout is not a step: it is row T of the previous rollout, or a new game. A row with ``first`` is not a
    step either.
    """
    if blocks.joined < 0:
        return 0
    rollout = blocks.completed(group)
    rows = blocks.observed(group) - rollout * blocks.horizon
    return int((~blocks.block("first", group, rollout)[1 : max(rows, 1)]).sum())


def steps_in_flight(blocks: Blocks, rollouts_learned: int) -> int:
    """Return a member's environment steps not learned from yet, in complete rollouts and in the one in progress."""
    steps = sum(unfinished_steps(blocks, group) for group in range(blocks.groups))
    for group in range(blocks.groups):
        for rollout in range(max(rollouts_learned, blocks.joined), min(blocks.completed(group), blocks.left)):
            steps += int((~blocks.block("first", group, rollout)[1:]).sum())
    return steps
