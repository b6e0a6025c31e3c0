"""Stage 1 of 5: steps environments and writes what they return, in place, into blocks.

Reads: the action column of its blocks, written by stage 2.
Writes: observation, raw reward and boundary columns; the words ``observed`` and ``completed``; wakes stages 2 and 3.
Next: ``acting/policy.py`` answers each row with actions, in ``processes/inference.py`` or, without a server, in here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from actorlearn.envs.interface import Row, VectorEnv
from actorlearn.envs.make import make
from actorlearn.envs.starts import GameStarts
from actorlearn.memory.rollout import ARRIVAL_COLUMNS, Blocks, Rollouts
from actorlearn.memory.shared import Segment
from actorlearn.processes.snapshots import Snapshots, Standing, restore
from actorlearn.wire.channel import Waiter
from actorlearn.wire.wakeup import Wakeup, Wakeups
from actorlearn.worker.handshake import shape_to_match
from actorlearn.worker.settings import SimulatorSettings
from actorlearn.worker.worker import POLL_MS, Worker

if TYPE_CHECKING:
    from actorlearn.acting.policy import Policy


class Group:
    """The environments of one group and their place in time; ``advance`` does what can be done now."""

    def __init__(self, index: int, env: VectorEnv, blocks: Blocks, rollouts: Rollouts, reset: str = "inside") -> None:
        """Start before the first rollout; the trainer's ``joined`` word says which one that is."""
        self.index = index
        self.env = env
        self.blocks = blocks
        self.rollouts = rollouts
        self.starts = GameStarts(env, reset)
        self.timestep = -1
        """Newest timestep whose observation is written; -1 before the first."""
        self.between_rollouts = True
        """Whether the group must begin a rollout next, once it is open."""
        self.standing: Standing | None = None
        """Snapshot to continue from, until that is done."""

    def advance(self) -> str:
        """Write one more row if it is this group's turn; returns waiting, observed, completed or left."""
        if self.standing is not None:
            return self.standing.go_on(self)
        if self.between_rollouts:
            return self._begin_rollout()
        if self.blocks.acted(self.index) <= self.timestep:
            return "waiting"
        return self._step()

    def _begin_rollout(self) -> str:
        joined = self.blocks.joined
        if joined < 0:
            return "waiting"
        rollout = joined if self.timestep < 0 else (self.timestep + 1) // self.blocks.horizon
        if rollout >= self.blocks.left:
            return "left"
        self.starts.restart()
        if self.rollouts.open <= rollout:
            return "waiting"
        self.blocks.begin(self.index, rollout, first=self.timestep < 0)
        self.timestep = rollout * self.blocks.horizon
        self.starts.begin(self._row(self.timestep))
        self.between_rollouts = False
        self.blocks.mark_observed(self.index, self.timestep)
        return "observed"

    def _step(self) -> str:
        action = self.blocks.row("action", self.index, self.timestep)
        rollout, t = divmod(self.timestep, self.blocks.horizon)
        last = t + 1 == self.blocks.horizon
        row = self._last_row(rollout) if last else self._row(self.timestep + 1)
        self.env.step(action, row)
        self.starts.void(row)
        if last:
            self.between_rollouts = True
            self.blocks.mark_completed(self.index, rollout)
            return "completed"
        self.timestep += 1
        self.blocks.mark_observed(self.index, self.timestep)
        return "observed"

    def _row(self, timestep: int) -> Row:
        return Row(**{name: self.blocks.row(name, self.index, timestep) for name in ARRIVAL_COLUMNS})

    def _last_row(self, rollout: int) -> Row:
        return Row(**{name: self.blocks.last_row(name, self.index, rollout) for name in ARRIVAL_COLUMNS})


def run(settings: SimulatorSettings) -> None:
    """Step the groups in turn until SIGTERM, or until all have left."""
    worker = Worker(settings)
    if settings.core is not None:
        os.sched_setaffinity(0, {settings.core})  # before the environments start threads, which inherit it
    blocks = Blocks(Segment.open(settings.segment.file))
    rollouts = Rollouts(Segment.open(settings.rollouts.file))
    size = len(settings.env_seeds) // blocks.groups
    seeds = [settings.env_seeds[g * size : (g + 1) * size] for g in range(blocks.groups)]
    envs = [make(settings.env, own, worker.progress.beat) for own in seeds]
    groups = [Group(g, env, blocks, rollouts, settings.reset) for g, env in enumerate(envs)]
    policy = _local_policy(settings) if not settings.inference_wakeup else None
    woken = {"trainer": settings.trainer_wakeup, "inference": settings.inference_wakeup}
    wakeups = Wakeups({listener: own.file for listener, own in woken.items() if own})
    waiter = Waiter(Wakeup(settings.wakeup.file), worker.control.dealer)
    snapshots = Snapshots(settings.states, settings.id.name, groups, rollouts, blocks)
    worker.hello(shape_to_match(settings.env.id, groups[0].env.spec, blocks.horizon, blocks.blocks, blocks.groups))
    if _started(groups, seeds, settings, worker):
        blocks.mark_ready()
        wakeups.wake("trainer")
    while worker.alive():
        if worker.control.ordered:
            worker.control.applied()  # membership comes to a simulator through its segment's words
        if snapshots.due:
            if failure := snapshots.answer():
                worker.control.warned(failure)
            wakeups.wake("trainer")
            worker.timings.add("copy")
        results = [_advance(group, policy, wakeups, worker) for group in groups]
        if all(result == "left" for result in results):
            worker.control.finished("drained")
            break
        if not any(result in ("observed", "completed") for result in results):
            waiter.wait(POLL_MS)
            worker.timings.add("wait")
    for group in groups:
        group.env.close()
    worker.control.close()


def _advance(group: Group, policy: Policy | None, wakeups: Wakeups, worker: Worker) -> str:
    """Advance a group and wake the process that waits for it; returns the result of ``Group.advance``."""
    result = group.advance()
    worker.timings.add("simulate")
    if result == "completed":
        wakeups.wake("trainer")
    elif result == "observed" and policy is None:
        wakeups.wake("inference")
    elif result == "observed" and policy is not None:
        policy.act([(group.blocks, group.index, group.timestep)])
        worker.timings.add("infer")
    return result


def _started(
    groups: Sequence[Group], seeds: Sequence[Sequence[int]], settings: SimulatorSettings, worker: Worker
) -> bool:
    """Bring all environments to their first row, or to a snapshot's; False after a SIGTERM meanwhile."""
    if settings.resumes:
        try:
            restore(Path(settings.resumes), groups, answers_itself=not settings.inference_wakeup)
            return True
        except ValueError as error:
            worker.control.warned(f"the run does not go on exactly: environments start from their seeds, as {error}")
    for group in groups:
        for _ in group.starts.first(settings.decorrelation_steps, seeds[group.index]):
            worker.timings.add("simulate")
            if not worker.alive():
                return False
    return True


def _local_policy(settings: SimulatorSettings) -> Policy:
    """Return the policy of stage 2 for this process; the only way torch comes into a simulator."""
    from actorlearn.acting.policy import Policy

    number = settings.id.number
    return Policy(
        settings.policy, "cpu", settings.seed, stream=number, weights=settings.weights, rollouts=settings.rollouts
    )
