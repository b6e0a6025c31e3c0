"""Parameter servers in threads, for tests: each can be killed, with or without its machine, and restarted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import torch

from actorlearn.address import Shm
from actorlearn.models.normalize import merge_into
from actorlearn.optim.groups import GroupedOptimizer, groups_within, make_groups
from actorlearn.optim.interface import make as make_optimizer
from actorlearn.optim.specs import OptimizerSettings
from actorlearn.parameters.shard import OptimizerRule, StatisticsRule, UpdateRule
from actorlearn.parameters.shard_layout import LOOPBACK, ROLE, Sharding
from actorlearn.processes.parameter_server import ParameterServer
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.settings import ParameterServerSettings, PolicySettings
from tests.named import algorithm, model
from tests.parameters.networked import Listing


class Serving:
    """The parameter servers of a run."""

    def __init__(
        self,
        folder: Path,
        listing: Listing,
        optimizer: OptimizerSettings,
        sizes: tuple[int, int],
        learners: int,
        servers: int = 1,
        quorum: int = 0,
    ) -> None:
        """Start them. ``sizes``: numbers of parameters and of statistics."""
        self.folder, self.listing, self.optimizer, self.sizes = folder, listing, optimizer, sizes
        self.learners, self.servers, self.quorum = learners, servers, quorum
        self.sharding = Sharding(*sizes, servers)
        self.running: dict[int, tuple[threading.Event, threading.Thread, ParameterServer]] = {}
        self._incarnations = dict.fromkeys(range(servers), -1)
        self.stack = ExitStack()
        """What is closed before the servers."""
        for number in range(servers):
            self.start(number)

    def start(self, number: int) -> None:
        """Start a server, again if it was killed."""
        self._incarnations[number] += 1
        own = ProcessId(ROLE, number).again(self._incarnations[number])
        server = ParameterServer(self.settings(own), self.rules(number), self.listing.admit(own))
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                server.serve(10)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        self.running[number] = over, thread, server

    def kill(self, number: int, machine: bool = False) -> None:
        """End a server; ``machine``: its memory is lost too."""
        over, thread, server = self.running.pop(number)
        over.set()
        thread.join()
        server.close()
        self.listing.lose(ProcessId(ROLE, number).again(self._incarnations[number]))
        for path in self.folder.glob("shard-*") if machine else ():
            if self.sharding.server_of(int(path.name.rpartition("-")[2])) == number:
                path.unlink()

    @property
    def filled(self) -> bool:
        """Whether every shard has weights."""
        return all(shard.filled for _, _, server in self.running.values() for shard in server.shards.values())

    def restart(self, number: int, machine: bool = False) -> None:
        """Kill a server and start it again."""
        self.kill(number, machine)
        self.start(number)

    def close(self) -> None:
        """End all."""
        self.stack.close()
        for number in list(self.running):
            self.kill(number)

    def settings(self, own: ProcessId) -> ParameterServerSettings:
        """Settings of a server."""
        sizes = self.learners, self.servers, self.quorum
        return server_settings(self.folder, own, self.listing.run_id, self.optimizer, *sizes)

    def rules(self, number: int) -> dict[int, UpdateRule]:
        """The rules of a server's shards."""
        made: dict[int, UpdateRule] = {}
        groups = make_groups(self.optimizer, {}, self.sizes[0])
        for shard, span in enumerate(self.sharding.spans):
            own = torch.zeros(span.stop - span.start)
            if self.sharding.server_of(shard) == number:
                within = groups_within(groups, span)
                made[shard] = (
                    OptimizerRule(GroupedOptimizer(make_optimizer, within, own), own)
                    if shard < self.sharding.statistics_shard
                    else StatisticsRule(own, merge_into)
                )
        return made


def server_settings(
    folder: Path, own: ProcessId, run_id: str, optimizer: OptimizerSettings, learners: int, servers: int, quorum: int
) -> ParameterServerSettings:
    """Settings of a server whose network is never made, with its memory in a folder."""
    policy = PolicySettings(
        observation_shape=(1,),
        observation_dtype="float32",
        actions=2,
        model=model("mlp"),
        algorithm=algorithm(),
    )
    return ParameterServerSettings(
        id=own,
        run_id=run_id,
        control=None,
        progress=Shm(path=""),
        index=0,
        seed=0,
        policy=policy,
        optimizer=optimizer,
        learners=learners,
        servers=servers,
        quorum=quorum,
        memory=Shm(path=str(folder / "shard")),
        host=LOOPBACK,
        report_every_s=1.0,
    )


def in_threads(*work: Callable[[], object]) -> None:
    """Do several things at the same time, and pass on what they raise."""
    with ThreadPoolExecutor(len(work)) as threads:
        for done in [threads.submit(each) for each in work]:
            done.result(50)
