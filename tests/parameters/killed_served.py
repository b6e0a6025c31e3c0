"""Kills learners and parameter servers, each a process of its own: `… killed_served <folder> <world>…`.

A world is written ``3,trainer-1:server_lines.sent=kill@9``: the quorum among four learners, then the processes whose
first incarnation gets SIGKILL, each with its failpoint. A killed process is restarted at once with what it left: a
learner with its account, a server with its shared memory. Sockets, keys and memory are those of a run; the
supervisor's orders are files.

A world is judged by its ``Witness`` and by the answers that the learners wrote down. Of the exchange's own counts,
only those of handled and of dropped changes are used. Prints a line of JSON for each world.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from actorlearn.address import Shm
from actorlearn.failpoints import armed
from actorlearn.parameters.consumed import Consumed, Position
from actorlearn.parameters.interface import Learner
from actorlearn.parameters.modes import make
from actorlearn.parameters.served import Served
from actorlearn.parameters.settings import ServedExchangeSettings
from actorlearn.parameters.shard_frames import APPLIED, DROPPED, LearnerRow, ShardFrame
from actorlearn.parameters.shard_layout import HEAD_WORDS, ROLE, shard_fields
from actorlearn.processes.parameter_server import ParameterServer, ShardMemory
from actorlearn.wire.endpoints import Endpoints
from actorlearn.wire.identity import ProcessId, trainer_id
from actorlearn.wire.messages import Endpoint, Listens, Order
from tests import named
from tests.parameters.serving import server_settings
from tests.parameters.witness import Witness, made_of

LEARNERS, SERVERS = 4, 2
VERSIONS = 40
"""Versions after which learners leave."""
CELLS = 8 * VERSIONS
"""Changes that each learner can make; most of those of a slow one are dropped."""
STEPS = 2
"""Changes of a rollout."""
OPTIMIZER = named.optimizer(name="adam", epsilon=1e-5, clip_norm=0.0)
LIMIT_S = 60.0
SETTLED_NS = 100_000_000
"""A folder that changed less than this before it was read is read again: its time stamps are coarse."""
RUN = "killed"


class Orders:
    """The supervisor's orders, as files: each process on the network writes one with its own endpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read_ns, self._order = -1, Order(version=0)

    def newest(self) -> Order:
        now_ns, changed_ns = time.time_ns(), self.folder.stat().st_mtime_ns
        if changed_ns != self._read_ns:
            self._read_ns, found = changed_ns if now_ns - changed_ns >= SETTLED_NS else -1, []
            for path in sorted(self.folder.glob("[!.]*")):
                with suppress(FileNotFoundError):  # it has died since
                    found.append(msgspec.json.decode(path.read_bytes(), type=Endpoint))
            self._order = Order(version=self._order.version + 1, endpoints=found)
        return self._order

    def endpoints(self, own: ProcessId) -> Endpoints:
        """Endpoints of a process, which lists itself."""

        def tell(said: Listens) -> None:
            beside = self.folder / f".{own.name}"
            beside.write_bytes(msgspec.json.encode(Endpoint(id=own, key=said.key, address=said.address)))
            beside.rename(self.folder / own.name)

        return Endpoints(own, RUN, self.newest, tell)


class Asking:
    """A learner's lines to its servers, with a file of all answers."""

    def __init__(self, exchange: Served, path: Path) -> None:
        self._lines, self._path = exchange.lines, path
        self.versions = dict.fromkeys(range(SERVERS), 0)

    def ask(self, requests: Mapping[int, ShardFrame], *patience_s: float) -> dict[int, ShardFrame]:
        answers = self._lines.ask(requests, *patience_s)
        changes = {shard: answer for shard, answer in answers.items() if answer.number >= 0}
        said = [(shard, own.number, own.outcome, self.versions[shard]) for shard, own in changes.items()]
        with self._path.open("ab", buffering=0) as file:
            file.write(np.array(said, np.int64).tobytes())
        self.versions |= {shard: answer.version for shard, answer in answers.items()}
        return answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lines, name)


def learn(folder: Path, own: ProcessId) -> None:
    """Make changes until each shard has VERSIONS versions."""
    account = np.memmap(folder / f"account-{own.number}", np.int64, "r+", shape=(2,))
    parameters = SERVERS * LEARNERS * CELLS
    quorum = int((folder / "quorum").read_text())
    endpoints = Orders(folder / "orders").endpoints(own)
    while own.incarnation == 0 and len(endpoints.find("trainer")) < LEARNERS:  # a shard waits only for those listed
        time.sleep(0.002)
    learner = Learner(
        *(OPTIMIZER, torch.zeros(parameters), torch.zeros(parameters)),
        number=own.number,
        consumed=Consumed(LEARNERS),
        endpoints=endpoints,
    )
    exchange = make(ServedExchangeSettings(learners=LEARNERS, servers=SERVERS, quorum=quorum, wire="float32"), learner)
    assert isinstance(exchange, Served)
    asking = Asking(exchange, folder / f"answers-{own.number}")
    exchange.lines = asking  # type: ignore[assignment]
    position = exchange.join(0, 0, Position(int(account[0]), int(account[1]))).position
    assert position is not None
    account[:] = position
    while min(asking.versions.values()) < VERSIONS:
        exchange.agree(STEPS, STEPS, Position(int(account[0]), int(account[1])))
        for step in range(STEPS):
            gradient = torch.zeros(SERVERS, LEARNERS, CELLS)
            gradient[:, own.number, int(account[0]) * STEPS + step] = 1.0
            exchange.step(gradient.flatten(), [0.1])
        exchange.settle()
        account[:] = account[0] + 1, account[1] + STEPS
    exchange.close()


def serve(folder: Path, own: ProcessId) -> None:
    """Serve until killed."""
    orders = Orders(folder / "orders")
    quorum = int((folder / "quorum").read_text())
    settings = server_settings(folder, own, RUN, OPTIMIZER, LEARNERS, SERVERS, quorum)
    server = ParameterServer(settings, {own.number: Witness(LEARNERS * CELLS)}, orders.endpoints(own))
    while True:
        server.serve(10)


class World:
    """One run: its processes, their kills and restarts, and the check of each change."""

    def __init__(self, folder: Path, quorum: int, ends: Mapping[str, str]) -> None:
        """``ends``: the failpoints at which first incarnations are killed, by the names of processes."""
        self.folder, self.quorum, self.ends = folder, quorum, ends
        (folder / "orders").mkdir(parents=True)
        (folder / "quorum").write_text(str(quorum))
        for learner in range(LEARNERS):
            np.zeros(2, np.int64).tofile(folder / f"account-{learner}")
        self.running: dict[int, ProcessId] = {}
        self.deaths: list[ProcessId] = []

    def run(self) -> None:
        """Start all processes, and restart those that die, until all learners have left."""
        began_s = time.monotonic()
        try:
            for own in [*(ProcessId(ROLE, n) for n in range(SERVERS)), *(trainer_id(n) for n in range(LEARNERS))]:
                self._start(own)
            while any(own.role != ROLE for own in self.running.values()):
                assert time.monotonic() - began_s < LIMIT_S, f"not over: {sorted(map(str, self.running.values()))}"
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid:
                    self._ended(self.running.pop(pid), os.waitstatus_to_exitcode(status))
                else:
                    time.sleep(0.002)
        finally:
            for pid in self.running:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def _start(self, own: ProcessId) -> None:
        arm = self.ends.get(own.name, "") if own.incarnation == 0 else ""
        if pid := os.fork():
            self.running[pid] = own
            return
        try:
            with armed(arm):
                (serve if own.role == ROLE else learn)(self.folder, own)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    def _ended(self, own: ProcessId, ended: int) -> None:
        (self.folder / "orders" / own.name).unlink(missing_ok=True)
        if ended == 0:
            return
        assert ended == -signal.SIGKILL, f"{own} ended with {ended}"
        self.deaths.append(own)
        self._start(own.again(own.incarnation + 1))

    # The check of a world ---------------------------------------------------------------------------------------------

    def judge(self) -> dict[str, int]:
        """Compare each shard's numbers with the answers to learners; return counts of versions, deaths and drops."""
        dropped = 0
        for shard in range(SERVERS):
            fields = shard_fields(LEARNERS * CELLS, 2, LEARNERS)
            memory = ShardMemory(Shm(path=str(self.folder / "shard")).numbered(shard), fields)
            content = memory.load(1)
            memory.close()
            assert content is not None
            weights, versions, _ = content.vectors
            rows = [LearnerRow.of(row) for row in content.words[HEAD_WORDS:].reshape(LEARNERS, -1).tolist()]
            self._judge_versions(made_of(weights, versions, CELLS), int(content.words[1]), shard)
            for learner, row in enumerate(rows):
                self.judge_changes(versions.reshape(LEARNERS, CELLS)[learner], row, shard, learner)
            dropped += sum(row.dropped for row in rows)
        return {"versions": VERSIONS, "deaths": len(self.deaths), "dropped": dropped}

    def _judge_versions(self, made: Mapping[int, list[int]], newest: int, shard: int) -> None:
        assert list(made) == list(range(1, newest + 1)) and newest >= VERSIONS, (shard, newest, list(made))
        gone = sum(own.role != ROLE for own in self.deaths)  # a dead learner is not listed, and so not waited for
        least = min(self.quorum, LEARNERS - gone)
        for version, learners in made.items():
            assert len(set(learners)) == len(learners), f"shard {shard}, version {version}: {learners}"
            full = least <= len(learners) <= self.quorum
            assert full or version > VERSIONS, f"shard {shard}, version {version}: {learners}"  # later, learners leave

    def judge_changes(self, versions: torch.Tensor, row: LearnerRow, shard: int, learner: int) -> None:
        """Check that each change of a learner is in the version that its answer tells, or was dropped and counted."""
        rollout, step = divmod(row.handled, 1 << 32)
        handled = rollout * STEPS + step + 1 if row.handled >= 0 else 0  # -1: it came when the others had left
        applied = int(versions.count_nonzero())
        where = f"shard {shard}, learner {learner}: {handled} handled, {applied} applied, {row.dropped} dropped"
        assert not versions[handled:].any(), where
        assert handled - applied == row.dropped, where
        answers = np.fromfile(self.folder / f"answers-{learner}", np.int64).reshape(-1, 4)
        for number, outcome, version in answers[answers[:, 0] == shard, 1:].tolist():
            cell = (number >> 32) * STEPS + (number & 0xFFFFFFFF)
            held = int(versions[cell])
            if outcome >= APPLIED:
                assert held == version + 1, f"{where}: change {cell}, accepted for {version}, is in {held}"
            elif outcome == DROPPED:
                assert held == 0, f"{where}: change {cell} was dropped and is in {held}"


def main(folder: Path, *worlds: str) -> None:
    for number, words in enumerate(worlds):
        quorum, *ends = words.split(",")
        world = World(folder / str(number), int(quorum), dict(end.split(":", 1) for end in ends))
        world.run()
        print(json.dumps(world.judge()), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), *sys.argv[2:])
