"""Stage 1 of 5: the simulator, which steps environments and writes their results to shared memory.

Reads: the actions of its environments, which stage 2 writes; the words ``joined``, ``left``, ``open`` and ``acted``.
Writes: observations, raw rewards and ends of games; the words ``observed`` and ``completed`` (``memory/rollout.py``
explains all words). Then wakes the inference server (stage 2) or the trainer (stage 3).
Next: ``acting/policy.py`` chooses actions for the observations, in an inference server (``processes/inference.py``) or,
if there is none, in this process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from actorlearn.envs.interface import Row, VectorEnv, empty_row
from actorlearn.envs.make import make
from actorlearn.memory.rollout import ARRIVAL_COLUMNS, Blocks, Rollouts
from actorlearn.memory.shared import Segment
from actorlearn.processes.snapshots import SavedPlace, Snapshots, restore
from actorlearn.wire.channel import Waiter
from actorlearn.wire.wakeup import Wakeup, Wakeups
from actorlearn.worker.handshake import shape_to_match
from actorlearn.worker.settings import SimulatorSettings
from actorlearn.worker.worker import POLL_MS, Worker

if TYPE_CHECKING:
    from actorlearn.acting.policy import Policy


class Simulator:
    """A process that steps environments and stores their time steps for the trainer.

    It steps a group of environments when all its actions are written, and wakes the process that needs the results.
    """

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
        """Step a group, and wake the process that waits for it; returns the result of `EnvGroup.advance`."""
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
        """Report to the supervisor, start all environments, and tell the trainer that they can begin a rollout."""
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


class EnvGroup:
    """Environments of a simulator that step together; `advance` writes their next time step to shared memory."""

    def __init__(self, index: int, env: VectorEnv, blocks: Blocks, rollouts: Rollouts, reset: str = "inside") -> None:
        """Make a group that has begun no rollout yet; the trainer sets the number of its first one."""
        self.index = index
        self.env = env
        self.blocks = blocks
        self.rollouts = rollouts
        self.starts = GameStarts(env, reset)
        self.timestep = -1
        """Newest timestep for which an observation is written; -1 before the first."""
        self.between_rollouts = True
        """Whether the last rollout is complete; the group begins the next one when the trainer allows it."""
        self.saved_place: SavedPlace | None = None
        """Time steps in a snapshot from which the group still has to continue; None if there are none."""

    def advance(self) -> str:
        """Write one more time step of all environments if that is possible, and return what was done.

        =========  ==================================================================
        waiting    nothing was written: an action or the permission to begin a rollout is missing
        observed   observations were written, and need actions
        completed  the last time step of a rollout was written
        left       the group takes part in no further rollout
        =========  ==================================================================
        """
        if self.saved_place is not None:
            return self.saved_place.resume(self)
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
        self.starts.begin(self._row(self.blocks.row))
        self.between_rollouts = False
        self.blocks.mark_observed(self.index, self.timestep)
        return "observed"

    def _step(self) -> str:
        action = self.blocks.row("action", self.index, self.timestep)
        rollout, t = divmod(self.timestep, self.blocks.horizon)
        row = self._row(self.blocks.row_after)
        self.env.step(action, row)
        self.starts.void(row)
        if t + 1 == self.blocks.horizon:
            self.between_rollouts = True
            self.blocks.mark_completed(self.index, rollout)
            return "completed"
        self.timestep += 1
        self.blocks.mark_observed(self.index, self.timestep)
        return "observed"

    def _row(self, column: Callable[[str, int, int], NDArray[Any]]) -> Row:
        """Return the newest time step if ``column`` is `Blocks.row`, or the next one if it is `Blocks.row_after`."""
        return Row(**{name: column(name, self.index, self.timestep) for name in ARRIVAL_COLUMNS})


class GameStarts:
    """Remembers which environments of a group begin a game with the next rollout, and the games' first time steps."""

    def __init__(self, env: VectorEnv, reset: str) -> None:
        """Start with new games in all environments of ``env``.

        ``reset`` (`simulators.reset`) is "inside" if the next game begins in the rollout in which a game ends, and
        "wait" if it begins with the next rollout.
        """
        self._env = env
        self._waits = reset == "wait"
        self._row = empty_row(env.spec, env.count)
        """First time steps of the environments that begin a game with the next rollout."""
        self._anew = np.ones(env.count, np.bool_)
        """[B] whether an environment begins a game with the next rollout."""
        self._over = np.zeros(env.count, np.bool_)
        """[B] whether an environment's game has ended in this rollout, and its next game waits for the next rollout."""

    def first(self, decorrelation_steps: int, seeds: Sequence[int]) -> Iterator[None]:
        """Take random steps (`decorrelate`) before the first rollout; yields after each step of the environments."""
        self._anew[:], self._over[:] = True, False
        return decorrelate(self._env, self._row, decorrelation_steps, seeds)

    def void(self, row: Row) -> None:
        """Mark the time steps of environments whose game is over as void; they are stepped with the others."""
        if not self._waits:
            return
        row.begin(self._over)
        self._over |= row.terminated | row.truncated

    def restart(self) -> None:
        """Begin the games that wait for the next rollout; called between two rollouts, while the trainer learns."""
        if self._over.any():
            self._env.restart(self._over, self._row)
            self._anew |= self._over
            self._over[:] = False

    def begin(self, row: Row) -> None:
        """Write the first time steps of new games to step 0 of a rollout. Other environments continue their games."""
        if self._anew.any():
            row.take(self._row, self._anew)
            self._anew[:] = False

    def begin_from(self, row: Row) -> None:
        """Make ``row`` the first time step of the next rollout for all environments."""
        self._row.take(row, np.ones_like(self._anew))
        self._anew[:] = True

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state for a snapshot: new games, their first time steps, and waiting environments."""
        row = {column.name: getattr(self._row, column.name)[self._anew] for column in fields(self._row)}
        return {"anew": self._anew, "over": self._over, **row}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a state; raises KeyError or ValueError if it does not fit."""
        self._anew[:], self._over[:] = state["anew"], state["over"]
        for column in fields(self._row):
            getattr(self._row, column.name)[self._anew] = state[column.name]


def decorrelate(env: VectorEnv, row: Row, most_steps: int, seeds: Sequence[int]) -> Iterator[None]:
    """Start every environment, and let it take from 0 to ``most_steps`` random actions.

    Without this, all environments reach the same part of the game at the same time, and the first batches are
    correlated (Stooke & Abbeel 2018, section 5.3, where the seed is the clock).

    The number of actions and the actions are drawn uniformly, with ``seeds``; all agents of a game take the same
    number. Environments can only be stepped together. An environment with fewer actions is therefore restarted before
    its first one. At the end ``row`` has the newest time step of each environment, and a game that has just ended is
    restarted. Yields after each step, so that the caller can show that it does not hang.
    """
    random = np.random.default_rng(seeds)
    agents = env.spec.agents
    steps = random.integers(most_steps, size=env.count // agents, endpoint=True).repeat(agents)
    env.reset(row)
    for left in reversed(range(steps.max())):
        env.step(env.random_actions(random), row)
        _restart(env, steps == left, row)
        yield
    over, out = row.terminated | row.truncated, row.terminated | row.truncated | row.first
    ended = out.reshape(-1, agents).all(axis=1) & over.reshape(-1, agents).any(axis=1)
    _restart(env, ended.repeat(agents), row)


def _restart(env: VectorEnv, chosen: NDArray[np.bool_], row: Row) -> None:
    if chosen.any():
        env.restart(chosen, row)
