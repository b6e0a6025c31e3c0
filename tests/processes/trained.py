"""A trainer in this process, and a thread that plays its supervisor and its simulator."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from actorlearn.address import Ipc, Pipe, Shm
from actorlearn.learning.update import Learning
from actorlearn.memory.account import Account, account_fields
from actorlearn.memory.progress import progress_fields
from actorlearn.memory.rollout import Blocks, Rollouts, make_segment, rollouts_fields
from actorlearn.memory.shared import Segment
from actorlearn.metrics.timings import SECTIONS
from actorlearn.parameters.published import Published, weights_fields
from actorlearn.processes.trainer import Trainer
from actorlearn.wire.channel import Router
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Finished, Member, Message, Order, Released, decode, encode
from actorlearn.worker.settings import TrainerSettings
from tests.blocks import block_shape
from tests.learning.made import HORIZON, learning

ENVS = 4
STEPS = HORIZON * ENVS
"""Steps of a rollout."""

M = TypeVar("M", bound=Message)


class Scene:
    """The segments of one learner in a folder, and the processes around its trainer."""

    def __init__(self, folder: Path, made: Learning | None = None, **changed: Any) -> None:
        """``made`` has the network and the algorithm; ``changed`` are keys of the trainer's settings."""
        self.folder = folder
        paths: dict[str, Any] = {
            name: Shm(str(folder / name)) for name in ("progress", "weights", "rollouts", "account")
        }
        paths |= {
            "wakeup": Pipe(str(folder / "wakeup")),
            "control": Ipc(str(folder / "control")),
            "run_dir": str(folder),
        }
        numbers = {"total_steps": 5 * STEPS, "checkpoint_every_steps": 10**6, "checkpoint_keep": 3}
        numbers |= {"rollout_steps": STEPS, "report_every_s": 0.0}
        made = made or learning()
        self.settings: TrainerSettings = msgspec.structs.replace(
            made.settings,
            **(paths | numbers | changed),
        )
        sizes = {"progress": progress_fields(len(SECTIONS)), "weights": weights_fields(made.weights.numel())}
        sizes |= {"rollouts": rollouts_fields(), "account": account_fields()}
        self.segments = {name: Segment.create(folder / name, fields) for name, fields in sizes.items()}
        shape = block_shape(horizon=HORIZON, envs_per_group=ENVS, columns=made.algorithm.columns(2))
        self.blocks = Blocks(make_segment(folder / "simulator-0.0", shape))
        self.member = Member(id=ProcessId("simulator"), segment=Shm(str(folder / "simulator-0.0")))
        self.rewards: Callable[[int], NDArray[np.float32]] = lambda rollout: np.ones((HORIZON + 1, ENVS), np.float32)
        self.lags: Callable[[int], int | NDArray[np.int64]] = lambda rollout: 0
        """Updates by which the weights that act are older than those at the opening of a rollout, [T + 1]."""
        self.games = False
        """Whether each environment plays one whole game in each rollout."""
        self.said: list[Message] = []
        self.orders: dict[int, Order] = {}
        """Orders, by the rollout that is to be learned next when they are sent."""
        self.last: Order | None = None
        """The order that is sent once a simulator has been released."""

    def run(self) -> None:
        """Run a trainer to its end; raises what it raises."""
        router = Router(self.settings.control)
        over = threading.Event()
        others = threading.Thread(target=self._play, args=(router, over))
        others.start()
        try:
            trainer = Trainer(self.settings)
            try:
                trainer.run()
            finally:
                trainer.worker.control.close()
        finally:
            over.set()
            others.join()
            self._hear(router, 200)  # the last messages may still be on their way
            router.close()

    def all(self, kind: type[M]) -> list[M]:
        """The trainer's messages of this kind."""
        return [message for message in self.said if isinstance(message, kind)]

    @property
    def summary(self) -> dict[str, Any]:
        """Summary of the run's end."""
        (finished,) = self.all(Finished)
        return {"reason": finished.reason, **finished.summary}

    @property
    def account(self) -> Account:
        """The account as it has been committed."""
        return Account(self.segments["account"])

    @property
    def version(self) -> int:
        """Newest version of the weights."""
        return Published(self.segments["weights"]).version

    def _play(self, router: Router, over: threading.Event) -> None:
        order, rollouts = Order(version=1, members=[self.member]), Rollouts(self.segments["rollouts"])
        self.blocks.mark_ready()
        while not over.wait(0.001):
            self._hear(router)
            order = self.orders.pop(self.account.rollouts_learned, order)
            order = self.last if self.last and self.all(Released) else order
            router.send(self.settings.id.socket_id, encode(order))
            self._play_open(rollouts)

    def _play_open(self, rollouts: Rollouts) -> None:
        """Play the next rollout if it is open; all actions are 0."""
        rollout = self.blocks.completed(0)
        if not self.blocks.takes_part(rollout) or rollout >= rollouts.open:
            return
        self.blocks.begin(0, rollout, first=rollout == self.blocks.joined)
        for field in self.blocks.columns:
            self.blocks.block(field, 0, rollout)[:] = 0
        self.blocks.block("observation", 0, rollout)[:] = np.random.default_rng(rollout).random((HORIZON + 1, ENVS, 2))
        self.blocks.block("reward", 0, rollout)[:] = self.rewards(rollout)
        if self.games:
            self.blocks.block("first", 0, rollout)[0] = self.blocks.block("terminated", 0, rollout)[-1] = True
        self.blocks.block("policy_version", 0, rollout)[:] = rollouts.version(rollout) - self.lags(rollout)
        self.blocks.mark_observed(0, (rollout + 1) * HORIZON - 1)
        self.blocks.mark_completed(0, rollout)

    def _hear(self, router: Router, timeout_ms: int = 0) -> None:
        while (heard := router.recv(timeout_ms)) is not None:
            self.said.append(decode(heard[1], "supervisor"))
