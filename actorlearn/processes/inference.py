"""Stage 2 of 5: runs the policy (``acting/policy.py``) on rows that are ready and writes the actions back into them.

Reads: the observation column of the rows that the shared word ``observed`` marks (``memory/rollout.py``), and the
columns state and first for a recurrent network; the newest published weights, or those of a row's rollout.
Writes: action, policy_version and the algorithm's own columns, and the state of the next row; the words ``acted`` and
``listed``; wakes the simulator.
Next: the simulator takes the next step (stage 1); complete blocks go to ``processes/batches.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from actorlearn.acting.batching import Batching
from actorlearn.acting.policy import Policy
from actorlearn.memory.rollout import Blocks
from actorlearn.wire.channel import Waiter
from actorlearn.wire.messages import Member
from actorlearn.wire.wakeup import Wakeup, Wakeups
from actorlearn.worker.settings import InferenceSettings
from actorlearn.worker.worker import POLL_MS, Worker, open_members


class InferenceServer:
    """The simulators (members) that this server answers, in the order in which the supervisor lists them."""

    def __init__(self, settings: InferenceSettings) -> None:
        self.number = settings.id.number
        self.members: dict[str, Blocks] = {}
        self.wakeups = Wakeups()
        self.batching = Batching(settings.batch_rows, settings.deadline_ms)

    def follow(self, members: Sequence[Member]) -> None:
        """Take the newest list of members: map the segments of new simulators, and unmap those of ended ones."""
        own = [member for member in members if member.server == self.number]
        self.members = open_members(own, self.members)
        for blocks in self.members.values():
            blocks.mark_listed()
        self.wakeups.follow({member.id.socket_id: member.wakeup.file for member in own if member.wakeup})

    def answer(self, policy: Policy, beat: Callable[[], object] = lambda: None) -> bool:
        """Choose actions for every row that is due; returns whether there was one.

        ``beat`` is called after each batch.
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
    """Choose actions for rows until SIGTERM."""
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
