"""Stage 2 of 5: the inference server, which chooses actions for rows in the blocks of several simulators.

Reads: the observations of rows that need actions, which the word ``observed`` in shared memory marks
(``memory/rollout.py``); for a recurrent network also its state; the published weights.
Writes: the action, the policy version and the algorithm's columns of each row, and the network's state to the next row;
the words ``acted`` and ``listed``. Then wakes the simulator.
Next: the simulator takes the next step (stage 1); complete blocks go to ``processes/batches.py`` (stage 3).
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
    """The simulators (members) for which this server chooses actions, in the order of the supervisor's list."""

    def __init__(self, settings: InferenceSettings) -> None:
        self.number = settings.id.number
        self.members: dict[str, Blocks] = {}
        self.wakeups = Wakeups()
        self.batching = Batching(settings.batch_rows, settings.deadline_ms)

    def follow(self, members: Sequence[Member]) -> None:
        """Follow the newest list of members: open the segments of new simulators, and close those of ended ones."""
        own = [member for member in members if member.server == self.number]
        self.members = open_members(own, self.members)
        for blocks in self.members.values():
            blocks.mark_listed()
        self.wakeups.follow({member.id.socket_id: member.wakeup.file for member in own if member.wakeup})

    def answer(self, policy: Policy, beat: Callable[[], object] = lambda: None) -> bool:
        """Choose actions for every row that needs them, and return whether there was one.

        ``beat`` is called after each batch, to give a sign of life.
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
