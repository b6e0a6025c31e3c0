"""Blocks of experience in shared memory, and the numbers by which processes know when they may read and write them.

A simulator steps its environments in groups. A block holds a rollout of one group: T + 1 rows of its B environments
(T is the horizon). "Inference" below is the process that runs the policy: an inference server, or the simulator itself.
Row ``t`` of a block has these columns:

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
``processes/batches.py`` aligns them for learning. If ``first[t]`` is set, readers use zeros instead of ``state[t]``,
because a game begins without memory. If a game (episode) ends inside a block, the key ``simulators.reset`` decides what
follows:

================  ===============================================  ===================================================
reset             the row after a game's last row                  row 0 of the next block
================  ===============================================  ===================================================
inside            the first row of the next game                   row T of this block
wait              *void*, like all rows up to row T: first is set, the first row of the next game; row T of this block
                  reward 0, no other flag, any observation         if the game continues
================  ===============================================  ===================================================

In games of several agents the rows of an agent that is not in its game are void too (``envs/interface.py``). Readers
need no special case for void rows: an action that leads to a row with ``first`` is always ignored. Row 0 of a
simulator's first rollout is the first row of a game, or a row within a game after ``simulators.decorrelation_steps``.

Rollouts are numbered over the whole run. Rollout r is in block ``r % blocks`` of every group, and timestep n = r * T +
t is row t of rollout r. Processes learn from *words*, 8-byte numbers in shared memory, how far the others are. Each
word has one writer. A word belongs to the whole learner ("run"), to a simulator ("member") or to one of its groups:

==================  ==================  ==========================================================================
word                one writer          meaning
==================  ==================  ==========================================================================
open (run)          trainer             rollouts below it may be begun; raising it allows older blocks to be overwritten
version, env_steps  trainer             for each open rollout: newest version of the weights when it was opened, and
                                        number of environment steps before it
judged (run)        trainer             newest rollout whose policy lags were computed; ``judged_by``: version of the
                                        weights with which they were computed
hold (run)          trainer             number of the newest snapshot of simulators that it has requested; 0 = none
hold_from (run)     trainer             first rollout whose rows belong in that snapshot
held (member)       simulator           number of the newest snapshot that it has taken; negative = it failed
ready (member)      simulator           1 when it can begin its first rollout; the trainer does not admit it before
listed (member)     inference           1 when the server knows the simulator; the trainer does not admit it before.
                                        1 from the start if the simulator runs the policy itself
joined (member)     trainer             first rollout in which the simulator takes part; -1 until it is admitted
left (member)       trainer             first rollout in which the simulator no longer takes part
released (member)   trainer             commit of the account after which the segment may be removed; 0 before
observed[group]     simulator           timesteps below it have an observation
acted[group]        inference           timesteps below it have an action
completed[group]    simulator           rollouts below it are complete
==================  ==================  ==========================================================================

Simulators join and leave at numbered rollouts, all processes read the same word ``open``, and trainer and server both
know a simulator before it joins. Every process therefore computes the same participants for every timestep, and the
composition of batches does not depend on timing.
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
"""Largest number of rollouts that can be in progress or not learned from at the same time."""
FAR = 2**62
"""A number that no rollout reaches, for "never"."""

ARRIVAL_COLUMNS = ("observation", "reward", "terminated", "truncated", "life_lost", "first")


class BlockShape(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes that determine how a simulator's time steps are laid out in shared memory."""

    groups: int
    blocks: int
    horizon: int
    """T: time steps of a rollout; the first of the next rollout is stored too, T + 1 in all."""
    envs_per_group: int
    observation_shape: tuple[int, ...]
    observation_dtype: str
    actions: Actions
    columns: dict[str, tuple[str, tuple[int, ...]]] = {}
    """The columns that the algorithm records when acting: name -> (dtype, shape per time step and environment)."""
    state_size: int = 0
    """Length of a recurrent network's state for one environment; 0: the network is not recurrent."""


def block_fields(shape: BlockShape) -> list[Field]:
    """Return the shared memory layout of a simulator: its time steps and counters."""
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
    """Return the layout of the column of actions; its initial value is no valid action."""
    dtype, shape = cell(actions)
    return Field("action", dtype, (*per_env, *shape), -1 if dtype == "int64" else float("nan"))


def rollouts_fields() -> list[Field]:
    """Return the shared memory layout of `Rollouts`."""
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
    """Tells simulators in shared memory which rollouts they may begin, and with which weights and step counts."""

    def __init__(self, segment: Segment, steps: int = 0) -> None:
        """Use a shared memory segment.

        ``steps``, which only the trainer needs: environment steps of one rollout of all learners together.
        """
        self._open = segment["open"]
        self._hold, self._hold_from = segment["hold"], segment["hold_from"]
        self._version = segment["version"]
        self._env_steps = segment["env_steps"]
        self._judged, self._judged_by = segment["judged"], segment["judged_by"]
        self._steps = steps
        self._newest = (-1, 0, 0)
        self._before: dict[int, tuple[int, int]] = {}
        """Version and steps of the rollouts that were open at the checkpoint from which this run was resumed."""

    @property
    def open(self) -> int:
        """Simulators may begin all rollouts with a number below this one."""
        return int(self._open[0])

    def version(self, rollout: int) -> int:
        """Return the version of the weights that was the newest when simulators could first begin this rollout."""
        return int(self._version[rollout % MOST_BLOCKS])

    def env_steps(self, rollout: int) -> int:
        """Return the number of environment steps before this rollout; rollouts in progress count in full."""
        return int(self._env_steps[rollout % MOST_BLOCKS])

    def published(self, version: int, env_steps: int, rollouts_learned: int) -> None:
        """Set the newest version of the weights, for rollouts that `raise_to` opens to simulators from now on.

        ``env_steps`` and ``rollouts_learned``: numbers of steps and rollouts learned from so far.
        """
        self._newest = (version, env_steps, rollouts_learned)

    def judge(self, rollout: int, version: int) -> int:
        """Return the version with which the policy lags of a rollout are computed: ``version`` at the first call.

        So if a trainer dies while it learns from a rollout, the next trainer leaves out the same actions as too old.
        """
        if self._judged[0] != rollout:
            self._judged_by[0] = version
            hit("rollout.judged")
            self._judged[0] = rollout
        return int(self._judged_by[0])

    @property
    def hold(self) -> int:
        """Number of the newest simulator snapshot that the trainer has requested; 0 = none."""
        return int(self._hold[0])

    @property
    def hold_from(self) -> int:
        """First rollout whose time steps belong in that snapshot: the next to be learned from."""
        return int(self._hold_from[0])

    def ask(self, rollouts_learned: int) -> int:
        """Request a snapshot of all simulators, with their time steps from rollout ``rollouts_learned`` on.

        Returns the number of the snapshot.
        """
        self._hold_from[0] = rollouts_learned
        hit("rollout.hold_from")
        self._hold[0] = self.hold + 1
        return self.hold

    def state(self, rollouts_learned: int) -> dict[str, Any]:
        """Return versions and steps of the rollouts not learned from yet, as plain numbers for a checkpoint."""
        opened = {str(r): [self.version(r), self.env_steps(r)] for r in range(rollouts_learned, self.open)}
        return {"newest": list(self._newest), "open": opened}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned: each rollout has the version of weights and the steps with which it began."""
        version, env_steps, rollouts_learned = state["newest"]
        self._newest = version, env_steps, rollouts_learned
        self._before = {int(rollout): (version, steps) for rollout, (version, steps) in state["open"].items()}

    def raise_to(self, rollouts: int) -> None:
        """Let simulators begin all rollouts below this number; only the trainer may call this."""
        version, env_steps, rollouts_learned = self._newest
        for rollout in range(max(self.open, rollouts - MOST_BLOCKS), rollouts):
            expected = version, env_steps + (rollout - rollouts_learned) * self._steps
            slot = rollout % MOST_BLOCKS
            self._version[slot], self._env_steps[slot] = self._before.pop(rollout, expected)
        hit("rollout.described")
        self._open[0] = rollouts


def make_segment(path: Any, shape: BlockShape, number: int = 0, *, has_server: bool = False) -> Segment:
    """Make the shared memory of the simulator with this number.

    ``has_server``: an inference server chooses the actions, and must mark the simulator as known (`mark_listed`) first.
    """
    segment = Segment.create(path, block_fields(shape))
    segment["listed"][0] = not has_server
    segment["shape"][:] = (shape.groups, shape.blocks, shape.horizon, shape.envs_per_group, number)
    return segment


class Blocks:
    """A simulator's shared memory: its time steps, and counters that show other processes how far it is."""

    def __init__(self, segment: Segment) -> None:
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
        """Names of all columns."""

    # Membership, written by the trainer except for `ready` and `listed` ------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether the environments are ready to begin their first rollout, and the process that acts knows them."""
        return bool(self._ready[0] and self._listed[0])

    def mark_ready(self) -> None:
        """Mark the environments as ready for the first rollout; only the simulator may call this."""
        self._ready[0] = 1

    def mark_listed(self) -> None:
        """Mark the simulator as known to its inference server; only the server may call this."""
        self._listed[0] = 1

    @property
    def joined(self) -> int:
        """First rollout in which this simulator takes part; -1 until the trainer sets it."""
        return int(self._joined[0])

    @property
    def left(self) -> int:
        """First rollout in which this simulator no longer takes part; FAR until the trainer sets it."""
        return int(self._left[0])

    def admit(self, first_rollout: int) -> None:
        """Let the simulator take part from this rollout on, and set its counters to the start of this rollout."""
        timestep = first_rollout * self.horizon
        self._observed[:, 0] = timestep
        self._acted[:, 0] = timestep
        self._completed[:, 0] = first_rollout
        self._joined[0] = first_rollout  # last: other processes use the counters only once this is set

    def leave(self, first_rollout_without: int) -> None:
        """Let the simulator finish the rollouts below this one and then leave."""
        self._left[0] = first_rollout_without

    @property
    def released(self) -> int:
        """Commit of the step counts after which this memory may be removed, as all its steps are counted; 0 = none."""
        return int(self._released[0])

    def release(self, commit: int) -> None:
        """Allow this memory to be removed once the step counts have been committed this many times."""
        self._released[0] = commit

    def takes_part(self, rollout: int) -> bool:
        """Whether this simulator takes part in that rollout."""
        return 0 <= self.joined <= rollout < self.left

    # Snapshots -------------------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """Number of the newest snapshot that this simulator has taken; negative if it failed."""
        return int(self._held[0])

    def mark_held(self, number: int, taken: bool) -> None:
        """Mark the snapshot of this number as written, or as failed (not ``taken``); only the simulator calls this."""
        self._held[0] = number if taken else -number

    # Words that order the writers --------------------------------------------------------------------------------

    def observed(self, group: int) -> int:
        """Return the time step below which all time steps have an observation."""
        return int(self._observed[group, 0])

    def acted(self, group: int) -> int:
        """Return the time step below which all time steps have an action."""
        return int(self._acted[group, 0])

    def completed(self, group: int) -> int:
        """Return the number of complete rollouts, which is also the number of the first incomplete one."""
        return int(self._completed[group, 0])

    def rows(self, group: int, rollout: int) -> int:
        """Return the number of a group's actions in this rollout whose results have been written, 0 to T."""
        if self.completed(group) > rollout:
            return self.horizon
        return min(max(self.observed(group) - rollout * self.horizon - 1, 0), self.horizon - 1)

    def mark_observed(self, group: int, timestep: int) -> None:
        """Mark the observations of this time step as written; only the simulator calls this."""
        self._observed[group, 0] = timestep + 1

    def mark_acted(self, group: int, timestep: int, policy_version: int) -> None:
        """Mark the actions of this time step as written, and record the version of the weights that chose them.

        Only the process that runs the policy calls this.
        """
        rollout, t = divmod(timestep, self.horizon)
        self.segment["policy_version"][group, rollout % self.blocks, t] = policy_version
        self._acted[group, 0] = timestep + 1

    def go_on_at(self, group: int, timestep: int) -> None:
        """In a resumed run, set the time step of the next action; only a simulator that runs the policy calls this."""
        self._acted[group, 0] = timestep

    def mark_completed(self, group: int, rollout: int) -> None:
        """Mark all time steps of this rollout as written; only the simulator calls this."""
        self._completed[group, 0] = rollout + 1

    # Columns ---------------------------------------------------------------------------------------------------

    def row(self, name: str, group: int, timestep: int) -> NDArray[Any]:
        """Return column ``name``, such as "reward", at this time step: [B, ...]."""
        rollout, t = divmod(timestep, self.horizon)
        view: NDArray[Any] = self.segment[name][group, rollout % self.blocks, t]
        return view

    def row_after(self, name: str, group: int, timestep: int) -> NDArray[Any]:
        """Return column ``name`` one time step later, in the memory of the same rollout: [B, ...]."""
        rollout, t = divmod(timestep, self.horizon)
        view: NDArray[Any] = self.segment[name][group, rollout % self.blocks, t + 1]
        return view

    def last_row(self, name: str, group: int, rollout: int) -> NDArray[Any]:
        """Return column ``name`` at time step T of a rollout, which is step 0 of the next one: [B, ...]."""
        view: NDArray[Any] = self.segment[name][group, rollout % self.blocks, self.horizon]
        return view

    def block(self, name: str, group: int, rollout: int) -> NDArray[Any]:
        """Return column ``name`` of a whole rollout: [T + 1, B, ...] ([T + 1] for policy_version)."""
        view: NDArray[Any] = self.segment[name][group, rollout % self.blocks]
        return view

    def begin(self, group: int, rollout: int, first: bool) -> None:
        """Copy time step T of the previous rollout to step 0 of this one, or write zeros if this is the ``first``."""
        for name in self._carried:
            before = 0 if first else self.last_row(name, group, rollout - 1)
            self.row(name, group, rollout * self.horizon)[:] = before


class GroupRollout(NamedTuple):
    """A group of environments of one simulator, with the shared memory in which it has played a rollout."""

    socket_id: str
    """Id of the simulator."""
    blocks: Blocks
    group: int

    @property
    def owner(self) -> str:
        """Name of the group, ``<socket id>/<group>``, by which game statistics and the replay know it."""
        return f"{self.socket_id}/{self.group}"


RowsAsked = tuple[Blocks, int, int]
"""A group of environments that needs actions at a time step: (simulator's shared memory, group, time step)."""


def unfinished_steps(blocks: Blocks, group: int) -> int:
    """Return how many environment steps of a group's incomplete rollout are lost if its simulator dies.

    Time step 0, which repeats the end of the previous rollout, and the first of a game are no environment steps.
    """
    if blocks.joined < 0:
        return 0
    rollout = blocks.completed(group)
    rows = blocks.observed(group) - rollout * blocks.horizon
    return int((~blocks.block("first", group, rollout)[1 : max(rows, 1)]).sum())


def steps_in_flight(blocks: Blocks, rollouts_learned: int) -> int:
    """Return the number of a simulator's environment steps that are not learned from yet.

    ``rollouts_learned``: number of rollouts learned from so far. Steps of the rollout in progress are included.
    """
    steps = sum(unfinished_steps(blocks, group) for group in range(blocks.groups))
    for group in range(blocks.groups):
        for rollout in range(max(rollouts_learned, blocks.joined), min(blocks.completed(group), blocks.left)):
            steps += int((~blocks.block("first", group, rollout)[1:]).sum())
    return steps
