"""Stage 1 of 5: the simulator, which steps environments and writes their results to blocks in shared memory.

Reads: the actions in its blocks, which stage 2 writes.
Writes: observations, raw rewards and ends of games; the words ``observed`` and ``completed`` (``memory/rollout.py``).
Then wakes the inference server (stage 2) or the trainer (stage 3).
Next: ``acting/policy.py`` chooses actions for each row, in an inference server (``processes/inference.py``) or, without
a server, in this process.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from actorlearn.envs.make import make
from actorlearn.memory.rollout import Blocks, Rollouts
from actorlearn.memory.shared import Segment
from actorlearn.processes.group import EnvGroup
from actorlearn.processes.snapshots import Snapshots, restore
from actorlearn.wire.channel import Waiter
from actorlearn.wire.wakeup import Wakeup, Wakeups
from actorlearn.worker.handshake import shape_to_match
from actorlearn.worker.settings import SimulatorSettings
from actorlearn.worker.worker import POLL_MS, Worker

if TYPE_CHECKING:
    from actorlearn.acting.policy import Policy


class Simulator:
    """The loop of a simulator: steps each group that has actions, and wakes the process that needs its rows."""

    def __init__(self, settings: SimulatorSettings) -> None:
        """Make the environments, open shared memory, and make the policy if there is no inference server."""
        self.settings, self.worker = settings, Worker(settings)
        if settings.core is not None:
            os.sched_setaffinity(0, {settings.core})  # before environments start threads, which inherit the affinity
        self.blocks = blocks = Blocks(Segment.open(settings.segment.file))
        rollouts = Rollouts(Segment.open(settings.rollouts.file))
        size = len(settings.env_seeds) // blocks.groups
        self.seeds = [settings.env_seeds[group * size : (group + 1) * size] for group in range(blocks.groups)]
        """Seeds of each group's environments."""
        envs = [make(settings.env, seeds, self.worker.progress.beat) for seeds in self.seeds]
        self.groups = [EnvGroup(g, env, blocks, rollouts, settings.reset) for g, env in enumerate(envs)]
        self.policy = _local_policy(settings) if not settings.inference_wakeup else None
        """The policy, if there is no inference server; else None."""
        self.snapshots = Snapshots(settings.states, settings.id.name, self.groups, rollouts, blocks)
        woken = {"trainer": settings.trainer_wakeup, "inference": settings.inference_wakeup}
        self.wakeups = Wakeups({listener: own.file for listener, own in woken.items() if own})
        """Named pipes that wake the trainer and the inference server."""
        self.waiter = Waiter(Wakeup(settings.wakeup.file), self.worker.control.dealer)

    def run(self) -> None:
        """Step the groups in turn until SIGTERM, or until all groups have left the run."""
        self._begin()
        while self.worker.poll():
            if self.worker.control.ordered:
                self.worker.control.applied()  # nothing to do: words in shared memory tell it to join or leave
            if self.snapshots.due:
                self._take_snapshot()
            results = [self._advance(group) for group in self.groups]
            if all(result == "left" for result in results):
                self.worker.control.finished("drained")
                break
            if not any(result in ("observed", "completed") for result in results):
                self.waiter.wait(POLL_MS)
                self.worker.timings.add("wait")
        for group in self.groups:
            group.env.close()
        self.worker.control.close()

    def _advance(self, group: EnvGroup) -> str:
        """Advance a group, and wake the process that waits for it; returns the result of `EnvGroup.advance`."""
        result = group.advance()
        self.worker.timings.add("simulate")
        if result == "completed":
            self.wakeups.wake("trainer")
        elif result == "observed" and self.policy is None:
            self.wakeups.wake("inference")
        elif result == "observed" and self.policy is not None:
            self.policy.act([(group.blocks, group.index, group.timestep)])
            self.worker.timings.add("infer")
        return result

    def _take_snapshot(self) -> None:
        """Take the snapshot that the trainer has requested."""
        if failure := self.snapshots.answer():
            self.worker.control.warned(failure)
        self.wakeups.wake("trainer")
        self.worker.timings.add("copy")

    def _begin(self) -> None:
        """Report to the supervisor, start all environments, and ask the trainer to be admitted to a rollout."""
        blocks, spec = self.blocks, self.groups[0].env.spec
        shape = shape_to_match(self.settings.env.id, spec, blocks.horizon, blocks.blocks, blocks.groups)
        self.worker.hello(shape)
        if self._started():
            blocks.mark_ready()
            self.wakeups.wake("trainer")

    def _started(self) -> bool:
        """Start all environments from their seeds, or restore them from a snapshot; returns False after SIGTERM."""
        settings = self.settings
        if settings.resumes:
            try:
                restore(Path(settings.resumes), self.groups, answers_itself=self.policy is not None)
                return True
            except ValueError as error:
                self.worker.control.warned(
                    f"the run is not resumed exactly: environments start from their seeds, because {error}"
                )
        for group, seeds in zip(self.groups, self.seeds, strict=True):
            for _ in group.starts.first(settings.decorrelation_steps, seeds):
                self.worker.timings.add("simulate")
                if not self.worker.poll():
                    return False
        return True


def run(settings: SimulatorSettings) -> None:
    """Run a simulator until it has left the run, or until SIGTERM."""
    Simulator(settings).run()


def _local_policy(settings: SimulatorSettings) -> Policy:
    """Make the policy of a simulator without an inference server; a simulator imports torch only here."""
    from actorlearn.acting.policy import Policy

    number = settings.id.number
    return Policy(
        settings.policy, "cpu", settings.seed, stream=number, weights=settings.weights, rollouts=settings.rollouts
    )
