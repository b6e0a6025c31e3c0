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

from actorlearn.envs.make import make
from actorlearn.memory.rollout import Blocks, Rollouts
from actorlearn.memory.shared import Segment
from actorlearn.processes.group import Group
from actorlearn.processes.snapshots import Snapshots, restore
from actorlearn.wire.channel import Waiter
from actorlearn.wire.wakeup import Wakeup, Wakeups
from actorlearn.worker.handshake import shape_to_match
from actorlearn.worker.settings import SimulatorSettings
from actorlearn.worker.worker import POLL_MS, Worker

if TYPE_CHECKING:
    from actorlearn.acting.policy import Policy


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
    while worker.poll():
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
            if not worker.poll():
                return False
    return True


def _local_policy(settings: SimulatorSettings) -> Policy:
    """Return the policy of stage 2 for this process; the only way torch comes into a simulator."""
    from actorlearn.acting.policy import Policy

    number = settings.id.number
    return Policy(
        settings.policy, "cpu", settings.seed, stream=number, weights=settings.weights, rollouts=settings.rollouts
    )
