"""Kinds of faults: each method inflicts a fault, and watches until the run has recovered."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from tests.chaos import topologies
from tests.chaos.living import MARKED, Living, Process
from tests.chaos.schedule import HANG_S, Fault, Trial
from tests.chaos.stage import Stage
from tests.runaways import lives

Watch = Iterator[None]
"""Yields until the run has recovered from a fault."""
Record = dict[str, Any]
"""Numbers and names that are written down of a fault, or of a run."""


class Faults:
    """Inflicts faults on one run; each method is a watch, which writes down in a record what it has seen."""

    def __init__(self, trial: Trial, stage: Stage, run: Living, violations: list[str]) -> None:
        """``violations`` are appended to."""
        self.trial, self.stage, self.run, self.violations = trial, stage, run, violations
        self.expected: set[tuple[str, int]] = set()
        """Names and incarnations of processes that are expected to die of a hang."""
        self.harmed: list[str] = []
        """Nodes that are expected to be lost, and are not yet."""
        self._random = random.Random(f"inflict {trial.seed}")

    # Getting over it ------------------------------------------------------------------------------------------------

    def goes_on(self, record: Record, since_ns: int) -> Watch:
        """Wait for a gradient that is computed after now; record the time since ``since_ns``."""
        now_ns = time.monotonic_ns()
        while self.run.learned_last_ns() <= now_ns:
            yield
        record["stalled_s"] = seconds(self.run.learned_last_ns() - since_ns)

    def _step_s(self, name: str) -> float | None:
        """Mean time of a rollout of a learner until now."""
        trainer = next((n for n in self.run.names if n.startswith("trainer") and n[-1] == name[-1]), "trainer")
        known = self.run.life.processes.get(trainer) or self.run.life.processes.get("trainer")
        mark = self.run.mark(known.name, known.incarnation) if known else None
        if mark is None or mark.count < 10:
            return None
        parts = {"ppo": 4}.get(topologies.split(self.trial.mode)[1], 1)
        return seconds(mark.last_ns - mark.first_ns) / mark.count * parts

    def _replaced(self, record: Record, targets: list[Process], since_ns: int) -> Watch:
        """Wait until newer incarnations of all targets work; of roles without marks, until they are ready."""
        for target in targets:
            while not self._works_again(target):
                yield
        newest = [(t, self.run.life.processes.get(t.name)) for t in targets]
        spawns, firsts = [], []
        for target, now in newest:
            if target.role in MARKED:
                firsts.append(seconds(self.run.first_use_ns(target.name, target.incarnation) - since_ns))
            if now and now.up_s is not None:
                spawns.append(now.up_s - now.spawned_s)
        record["recovery_s"], record["spawn_s"] = max(firsts, default=None), max(spawns, default=None)

    def _works_again(self, target: Process) -> bool:
        now = self.run.life.processes.get(target.name)
        if target.role not in MARKED:
            return now is not None and now.incarnation > target.incarnation and now.up_s is not None
        return self.run.first_use_ns(target.name, target.incarnation) > 0

    # Kinds ----------------------------------------------------------------------------------------------------------

    def kill(self, fault: Fault, record: Record, target: Process) -> Watch:
        record["step_s"] = self._step_s(target.name)
        since_ns = time.monotonic_ns()
        with suppress(ProcessLookupError):
            os.kill(target.pid, signal.SIGKILL)
        yield from self._replaced(record, [target], since_ns)
        yield from self.goes_on(record, since_ns)

    def kill_guardian(self, fault: Fault, record: Record) -> Watch:
        node, guardian = _chosen(fault, self.run.guardians())
        targets = [process for process in self.run.life.processes.values() if process.node == node]
        since_ns = time.monotonic_ns()
        os.kill(guardian, signal.SIGKILL)
        yield from self._replaced(record, targets, since_ns)
        if lives(guardian):
            self.violations.append(f"guardian {guardian} lives on")
        yield from self.goes_on(record, since_ns)

    def stop(self, fault: Fault, record: Record, target: Process | None = None) -> Watch:
        """Stop a process for a short time, after which it must not have been restarted."""
        assert self.run.process is not None
        named = {"guardian": self.run.guardians, "agent": self.run.agents}
        if target:
            pid = target.pid
        elif fault.role in named:
            pid = _chosen(fault, named[fault.role]())[1]
        else:
            pid = self.run.process.pid
        since_ns, until_s = time.monotonic_ns(), time.monotonic() + fault.lasts_s
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        while time.monotonic() < until_s:
            yield
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        yield from self.goes_on(record, since_ns)
        if target and target.role in MARKED:
            now_ns = time.monotonic_ns()
            while self._same(target) and self.run.used_last_ns(target.name) <= now_ns:
                yield

    def _same(self, target: Process) -> bool:
        now = self.run.life.processes.get(target.name)
        return now is not None and now.incarnation == target.incarnation

    def agent(self, fault: Fault, record: Record) -> Watch:
        """Lose a node: its learners continue elsewhere, and when it is back, one of them returns to it."""
        node, pid = _chosen(fault, self.run.agents())
        record["target"] = node
        there = [process.pid for process in self.run.life.processes.values() if process.node == node]
        joined, since_ns = self.run.life.joined.count(node), time.monotonic_ns()
        self.harmed.append(node)
        signals = {"kill": signal.SIGKILL, "drain": signal.SIGTERM, "hang": signal.SIGSTOP}
        os.kill(pid, signals[fault.kind])
        if fault.kind == "drain":  # its learners save first
            while lives(pid):
                yield
        if fault.kind != "hang":
            self.run.replace_agent(node)
        while node in self.harmed:
            yield
        record["detect_s"] = seconds(time.monotonic_ns() - since_ns)
        if left := [pid for pid in there if lives(pid)]:
            self.violations.append(f"processes {left} live on though node {node} was lost")
        if fault.kind == "hang":
            os.kill(pid, signal.SIGCONT)
        while self.run.life.joined.count(node) == joined or not self.run.settled:
            yield
        record["recovery_s"] = seconds(time.monotonic_ns() - since_ns)
        yield from self.goes_on(record, since_ns)

    def freeze(self, fault: Fault, record: Record) -> Watch:
        """Stop all processes for longer than the hang limit; none may be restarted because of it."""
        assert self.run.process is not None
        before = {name: p.incarnation for name, p in self.run.life.processes.items()}
        pids = self.run.all_pids()
        since_ns, until_s = time.monotonic_ns(), time.monotonic() + HANG_S + fault.lasts_s
        for pid in [self.run.process.pid, *pids]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        while time.monotonic() < until_s:
            yield
        self._random.shuffle(pids)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        yield from self.goes_on(record, since_ns)
        for _ in range(100):  # longer than a hang takes to be found
            yield
        after = {name: p.incarnation for name, p in self.run.life.processes.items()}
        if before != after:
            self.violations.append(f"restarted after a freeze of all: {before} to {after}")

    def hang(self, fault: Fault, record: Record, target: Process) -> Watch:
        """Stop a process for good: it is replaced within the limit, and the old incarnation never writes again."""
        self.expected.add((target.name, target.incarnation))
        since_ns = time.monotonic_ns()
        with suppress(ProcessLookupError):
            os.kill(target.pid, signal.SIGSTOP)
        while self._same(target):
            yield
        record["detect_s"] = seconds(time.monotonic_ns() - since_ns)
        with suppress(ProcessLookupError):
            os.kill(target.pid, signal.SIGCONT)
        yield from self._replaced(record, [target], since_ns)
        if lives(target.pid):
            self.violations.append(f"{target.name}.{target.incarnation} lives on beside its successor")
        yield from self.goes_on(record, since_ns)

    def wakeup(self, fault: Fault, record: Record, target: Process) -> Watch:
        """Remove, replace or fill the wakeup of a process, which then looks by itself, later."""
        since_ns = time.monotonic_ns()
        with suppress(OSError):
            found = self.run.stage.sockets.glob(f"*/{target.name}.wakeup")
            path = max(found, key=lambda path: path.lstat().st_ctime)  # those of a killed node are left for a while
            if fault.how == "full":
                handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                with suppress(OSError):
                    for _ in range(32):  # twice its size: its reader may read meanwhile
                        os.write(handle, bytes(4096))
                os.close(handle)
            else:
                path.unlink(missing_ok=True)
            if fault.how == "replaced":
                os.mkfifo(path, 0o600)
            elif fault.how == "file":
                path.write_bytes(b"no wakeup")
        before = self.run.gradients()
        while 0 <= self.run.gradients() - before < 5:
            yield
        yield from self.goes_on(record, since_ns)

    def full(self, fault: Fault, record: Record) -> Watch:
        """Fill a file system for a while, in which a process may be killed; then the run recovers."""
        folder = self.run.folder.parent if fault.kind == "disk" else self.stage.shared
        since_ns, until_s = time.monotonic_ns(), time.monotonic() + fault.lasts_s
        self.stage.fill(folder)
        targets = []
        if fault.how != "alone":
            targets = [p for p in self.run.life.processes.values() if p.role == fault.how][:1]
            for target in targets:
                with suppress(ProcessLookupError):
                    os.kill(target.pid, signal.SIGKILL)
        while time.monotonic() < until_s:
            yield
        self.stage.free(folder)
        since_ns = time.monotonic_ns()
        yield from self._replaced(record, targets, since_ns)
        yield from self.goes_on(record, since_ns)


def _chosen(fault: Fault, pids: dict[str, int]) -> tuple[str, int]:
    """Return the node and the process id that a fault hits."""
    return sorted(pids.items())[min(int(fault.which * len(pids)), len(pids) - 1)]


def seconds(nanoseconds: int) -> float:
    return round(nanoseconds / 1e9, 4)
