"""Stage 2 of 5: the inference server, which chooses actions for the environments of several simulators.

Reads: the observations that need actions, which ``observed`` in shared memory marks (``memory/rollout.py``); for a
recurrent network also its state; the published weights.
Writes: the action, the policy version and the algorithm's columns of each time step, and the network's state to the
next one; ``acted`` and ``listed`` in shared memory. Then wakes the simulator.
Next: the simulator takes the next step (stage 1); complete rollouts go to ``processes/batches.py`` (stage 3).

The observations of one forward pass are selected by one of two rules. `due_rows` waits until all simulators have
observations for the same time step. Batches are then the same in every run. `waiting_rows` takes those that are ready,
as do the predictors of BA3C and GA3C and the dynamic batching of PolyBeast. No simulator then waits for the slowest
one, but the composition of a batch depends on timing. ``members`` in this module are simulators.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from actorlearn.acting.policy import Policy
from actorlearn.memory.rollout import Blocks, RowsAsked
from actorlearn.wire.channel import Waiter
from actorlearn.wire.messages import Member
from actorlearn.wire.wakeup import Wakeup, Wakeups
from actorlearn.worker.settings import InferenceSettings
from actorlearn.worker.worker import POLL_MS, Worker, open_members


class InferenceServer:
    """Chooses actions for the environments of several simulators."""

    def __init__(self, settings: InferenceSettings) -> None:
        self.number = settings.id.number
        self.members: dict[str, Blocks] = {}
        self.wakeups = Wakeups()
        self.batching = Batching(settings.batch_rows, settings.deadline_ms)

    def follow(self, members: Sequence[Member]) -> None:
        """Open the shared memory of new simulators, and close that of ended ones."""
        own = [member for member in members if member.server == self.number]
        self.members = open_members(own, self.members)
        for blocks in self.members.values():
            blocks.mark_listed()
        self.wakeups.follow({member.id.socket_id: member.wakeup.file for member in own if member.wakeup})

    def answer(self, policy: Policy, beat: Callable[[], object] = lambda: None) -> bool:
        """Choose all actions that simulators wait for, and return whether there were any.

        ``beat`` is called after each batch, to show that this process does not hang.
        """
        answered, members = False, list(self.members.values())
        for asked in self.batching.batches(members):
            policy.act(asked, member=members.index(asked[0][0]))
            for socket_id, blocks in self.members.items():
                if any(blocks is own for own, _, _ in asked):
                    self.wakeups.wake(socket_id)
            answered = True
            beat()
        return answered


def run(settings: InferenceSettings) -> None:
    """Run an inference server until SIGTERM."""
    worker = Worker(settings)
    torch.set_num_threads(1)
    policy = Policy(
        settings.policy,
        settings.device,
        settings.seed,
        stream=settings.id.number,
        weights=settings.weights,
        rollouts=settings.rollouts,
        threads=settings.threads,
    )
    server = InferenceServer(settings)
    waiter = Waiter(Wakeup(settings.wakeup.file), worker.control.dealer)
    worker.hello()
    while worker.poll():
        if worker.control.ordered:
            server.follow(worker.control.order.members)
            worker.control.applied()
        answered = server.answer(policy, worker.progress.beat)  # rows exist only after weights have been published
        worker.timings.add("infer")
        if not answered:
            waiter.wait(server.batching.sleep_ms(POLL_MS))
            worker.timings.add("wait")
    worker.control.close()


def due_rows(members: Sequence[Blocks], group: int) -> list[RowsAsked]:
    """Return the observations of the oldest time step that needs actions, if all simulators have written theirs.

    ``group`` is the index of the group of environments within each simulator. Only simulators that play the rollout of
    the time step count, so one that has left or died causes no delay. Returns nothing while an observation is missing.
    """
    active = [member for member in members if member.joined >= 0]
    timesteps = [member.acted(group) for member in active if member.takes_part(member.acted(group) // member.horizon)]
    if not timesteps:
        return []
    timestep = min(timesteps)
    if all(member.observed(group) <= timestep for member in active):
        return []
    # Membership is read again: all participants of a rollout are listed and admitted before it begins, but perhaps
    # after the reads above.
    participants = [member for member in members if member.takes_part(timestep // member.horizon)]
    if any(member.observed(group) <= timestep for member in participants):
        return []
    return [(member, group, timestep) for member in participants if member.acted(group) == timestep]


def waiting_rows(members: Sequence[Blocks]) -> list[RowsAsked]:
    """Return the observations of all simulators and groups that need actions."""
    return [
        (member, group, member.acted(group))
        for member in members
        if member.joined >= 0  # before that, the trainer may be setting the counters (`Blocks.admit`)
        for group in range(member.groups)
        if member.observed(group) > member.acted(group)
    ]


class Batching:
    """Decides which observations an inference server processes in one batch, by one of two rules."""

    def __init__(self, batch_rows: int, deadline_ms: float, now_s: Callable[[], float] = time.monotonic) -> None:
        """Use the rule `due_rows` if ``batch_rows`` is 0, otherwise `waiting_rows`.

        With `waiting_rows`, a batch is formed when ``batch_rows`` observations wait, or ``deadline_ms`` after the first
        of them was seen. ``now_s`` is the clock, in seconds.
        """
        self._batch_rows = batch_rows
        self._deadline_s = deadline_ms / 1000
        self._now_s = now_s
        self._since_s: float | None = None
        """Clock when the oldest waiting observation was first seen, in seconds; None: none waits."""

    def batches(self, members: Sequence[Blocks]) -> Iterator[list[RowsAsked]]:
        """Yield the batches that are ready. Each is formed only after the caller has processed the previous one."""
        if self._batch_rows:
            batches: Iterable[list[RowsAsked]] = [self._rows_due(members)]
        else:
            batches = (
                due_rows(members, group) for group in range(max((member.groups for member in members), default=0))
            )
        yield from filter(None, batches)

    def _rows_due(self, members: Sequence[Blocks]) -> list[RowsAsked]:
        """Return all waiting observations if there are at least ``batch_rows`` or the deadline has passed."""
        asked = waiting_rows(members)
        if not asked:
            self._since_s = None
            return []
        if self._since_s is None:
            self._since_s = self._now_s()
        rows = sum(member.envs_per_group for member, _, _ in asked)
        if rows < self._batch_rows and self._now_s() - self._since_s < self._deadline_s:
            return []
        self._since_s = None
        return asked

    def sleep_ms(self, longest_ms: int) -> int:
        """Return how long to sleep: until the deadline of the oldest waiting observation, at most ``longest_ms``."""
        if self._since_s is None:
            return longest_ms
        left_s = self._since_s + self._deadline_s - self._now_s()
        return max(0, min(longest_ms, math.ceil(left_s * 1000)))
