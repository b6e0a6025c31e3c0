"""One run and its faults: each is inflicted, watched until the run has recovered, and recorded."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from actorlearn.memory.shared import Segment
from actorlearn.parameters.published import Published
from launch.runs.jsonl import Lines
from tests.chaos import census, judge, rows, topologies
from tests.chaos.faults import Faults, Record, Watch, seconds
from tests.chaos.living import Living, Process
from tests.chaos.schedule import Fault, Trial
from tests.chaos.stage import Stage
from tests.runaways import lives
from tests.waiting import within

PATIENCE_S = 300.0
"""Time in which a run must recover from a fault; generous, because the machine may be training at the same time."""
GONE_S, NODES_GONE_S = 10.0, 40.0
"""Time after which nothing is left of a killed run, and of its nodes, which first wait for their lease."""
BUSY = 2
"""Load average for each core beyond which a node may be lost without a fault."""
MOST_AT_ONCE = 5
ALONE = ("freeze", "disk", "memory", "drain")
"""Faults that wait until the run has recovered from all others; so does the end of the supervisor."""


class Broken(RuntimeError):
    """The run is in no state for more faults."""


class Attempt:
    """A trial in progress."""

    def __init__(self, trial: Trial, stage: Stage, tell: Callable[[str], None]) -> None:
        """Nothing is started yet."""
        self.trial, self.stage, self.tell = trial, stage, tell
        self.run = Living(stage, trial.mode, trial.seed, f"{os.getpid()}.{trial.number}.{trial.seed}")
        self.records: list[Record] = []
        self.violations: list[str] = []
        self.rollbacks: list[judge.Rollback] = []
        self.faults = Faults(trial, stage, self.run, self.violations)
        self._watches: dict[int, tuple[Watch, float, tuple[str, ...]]] = {}
        self._baseline: dict[str, census.Survivor] = {}
        self._segments: list[str] = []
        self._judged = 0
        self._metrics = Lines(self.run.folder / "metrics.jsonl")
        self._versions: dict[Path, tuple[Published, int]] = {}
        self._look_s = 0.0
        self._env_steps = 0
        self._trainers: dict[str, int] = {}
        """Incarnations when the newest row of metrics was seen."""
        self._lost = 0
        """Number of nodes that were lost in this life."""
        self.starved = 0
        """Number of nodes that were lost because the machine was too busy for them to give a sign of life in time."""
        self._all_gone = False
        """Whether no trainer that had learned was left, at some time since steps went back."""

    # The whole ------------------------------------------------------------------------------------------------------

    def go(self) -> Record:
        """Inflict all faults; return the record of the run."""
        began_s = time.monotonic()
        try:
            self._begin()
            for number, fault in enumerate(self.trial.faults):
                self._one(number, fault)
            self._wait(lambda: not self._watches, "all faults got over", PATIENCE_S * 2)
            self._end()
            found = judge.judge(self.run, self.rollbacks)
            self.violations += found.pop("violations")
        except Broken as broken:
            found = {}
            self.violations.append(f"{broken}; screen: {self.run.screen()[-1500:]}")
        finally:
            self.run.clear_away()
        return {
            "kind": "trial",
            "trial": self.trial.number,
            "mode": self.trial.mode,
            "seed": self.trial.seed,
            "ending": self.trial.ending,
            "faults": len(self.records),
            "lives": self.run.lives,
            "wall_s": round(time.monotonic() - began_s, 1),
            "starved": self.starved,
            "violations": self.violations,
            **found,
        }

    def _begin(self, *changes: str) -> None:
        """Start the run or resume it, and wait until it learns."""
        self._versions, self._env_steps, self._trainers = {}, 0, {}
        self._lost = 0
        self.faults.harmed.clear()
        self.run.start(*changes)
        self._metrics = Lines(self.run.folder / "metrics.jsonl")
        list(self._metrics.new())
        self._judged = 0
        self._wait(lambda: self.run.all_up, "all processes up", PATIENCE_S)
        self._goes_on_now()
        self._wait(lambda: self.run.settled, "work")
        self._wait(lambda: self._trainers, "row of metrics")  # by then the supervisor has opened its files
        self._count_all()
        if not topologies.over_nodes(self.trial.mode) and (ports := census.listeners(self.run)):
            self.violations.append(f"listens on {ports}")

    def _count_all(self) -> None:
        """Record what all processes have, before more faults."""
        self._baseline = census.survivors(self.run)
        self._segments = census.segments(self.run)

    def _end(self) -> None:
        """Let the run end, in the way the trial has."""
        self._quiet()
        finishes = self.trial.ending == "finish"
        self._drain()
        if finishes and self.run.life.lost:
            self.rollbacks.append(judge.rollback(self.run, abrupt=True))
        if finishes:
            rows.clear(self.run.rows.folder)
            taken = judge.summary(self.run)["env_steps"]
            self.run.start(f"total_steps={taken + 500}")
            self._ended(0, "finished")
        self._nothing_left()
        keep, learners = 2, topologies.learners(self.trial.mode)
        self.violations += [f"in the run's folder: {name}" for name in census.files_left(self.run, keep, learners)]

    # What is looked at all the time ---------------------------------------------------------------------------------

    def _wait(self, happened: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> None:
        """Look at everything until it has happened; raises Broken."""
        deadline_s = time.monotonic() + seconds
        while not happened():
            if time.monotonic() > deadline_s:
                raise Broken(f"no {what} in {seconds:g} s; {self._state()}")
            self._turn()

    def _state(self) -> str:
        known = self.run.life.processes.values()
        return f"{[(p.name, p.incarnation, p.pid, p.up_s is not None) for p in known]}; {self.run.life.died[-5:]}"

    def _turn(self) -> None:
        """Wait a moment, read new events, and advance every watch."""
        time.sleep(0.02)
        self.run.look()
        assert self.run.process is not None
        if self.run.process.poll() is not None:
            raise Broken(f"the run ended with {self.run.process.returncode}")
        for number, (watch, deadline_s, _) in list(self._watches.items()):
            try:
                next(watch)
            except StopIteration:
                self._over(number)
            else:
                if time.monotonic() > deadline_s:
                    said = f"not got over in {PATIENCE_S:g} s: {self.records[number]}; {self._state()}"
                    self.records[number]["violation"] = said
                    self._over(number)
                    raise Broken(said)
        self._deaths()
        if time.monotonic() >= self._look_s:
            self._look_s = time.monotonic() + 0.2
            self._numbers()

    def _over(self, number: int) -> None:
        del self._watches[number]
        if self.records[number]["role"] == "agent" and self.records[number]["fault"] != "stop":
            self._count_all()  # learners were on other nodes meanwhile
        self.tell(f"    {self.records[number]}")

    def _deaths(self) -> None:
        """Check that only processes with the fault ``hang`` die of a hang."""
        for event in self.run.life.died[self._judged :]:
            self._judged += 1
            if event["cause"] == "hang" and (event["process"], event["incarnation"]) not in self.faults.expected:
                self.violations.append(f"killed for a hang that was none: {event}")
            if event["cause"].startswith("exit"):
                self.violations.append(f"ended by itself: {event}")
        for event in self.run.life.lost[self._lost :]:
            self._lost, self._all_gone = self._lost + 1, True
            if event["node"] in self.faults.harmed:
                self.faults.harmed.remove(event["node"])
            elif os.getloadavg()[0] > BUSY * (os.cpu_count() or 1):
                self.starved += 1
                self._baseline, self._segments = {}, []  # learners are on other nodes now
            else:
                self.violations.append(f"a node was lost that nobody had harmed: {event}")

    def _numbers(self) -> None:
        """Versions of weights never go back; steps only where weights do."""
        for path in self.run.shared("weights-*"):
            if path not in self._versions:
                with suppress(OSError, ValueError):
                    self._versions[path] = Published(Segment.open(path)), -1
            if path in self._versions:
                published, before = self._versions[path]
                if (version := published.version) < before:
                    self.violations.append(f"{path.name} went back from version {before} to {version}")
                self._versions[path] = published, version
        self._all_gone |= bool(self._trainers) and not self._now_trainers()
        for row in self._metrics.new():
            if row["env_steps"] < self._env_steps and not self._rolls_back():
                self.violations.append(f"env_steps went back from {self._env_steps} to {row['env_steps']}")
            self._env_steps, self._trainers = row["env_steps"], self._now_trainers()
            dropped = sum(steps for name, steps in row.items() if name.startswith("dropped_"))
            if row.get("steps_dropped") != dropped:
                self.violations.append(f"steps_dropped is {row.get('steps_dropped')}, its parts come to {dropped}")

    def _now_trainers(self) -> dict[str, int]:
        """Return the incarnations of trainers that have learned."""
        known = {name: p for name, p in self.run.life.processes.items() if p.role == "trainer"}
        return {name: p.incarnation for name, p in known.items() if self.run.used_last_ns(name)}

    def _rolls_back(self) -> bool:
        """Whether learners may have gone back to a checkpoint since the newest row; this depends on the mode."""
        mode, all_gone = topologies.split(self.trial.mode)[0], self._all_gone
        self._all_gone = False
        served = topologies.over_nodes(self.trial.mode) and mode == "async"
        return mode in ("alone", "gossip") or ((mode == "sync" or served) and all_gone)

    # One fault ------------------------------------------------------------------------------------------------------

    def _one(self, number: int, fault: Fault) -> None:
        """Wait for the moment of a fault, and inflict it; the watches of other faults go on meanwhile."""
        until_s = time.monotonic() + fault.after_s
        self._wait(lambda: time.monotonic() >= until_s, "time")
        last = fault.kind in ALONE or (fault.kind == "kill" and fault.role in ("supervisor", "guardian"))
        self._wait(lambda: len(self._watches) < (1 if last else MOST_AT_ONCE), "moment for the next fault")
        if fault.role in ("agent", "guardian"):  # one node at a time
            self._wait(lambda: not any("agent" in names for _, _, names in self._watches.values()), "agents")
        if last or (fault.role == "agent" and fault.kind != "stop"):
            self._wait(lambda: self.run.all_up, "all processes up")
        record: Record = {"kind": "fault", "trial": self.trial.number, "number": number, "mode": self.trial.mode}
        record |= {"fault": fault.kind, "role": fault.role, "how": fault.how, "beside": len(self._watches)}
        for other in self._watches:
            self.records[other]["beside"] += 1
        self.records.append(record)
        watch, busy = self._inflict(fault, record)
        self._watches[number] = watch, time.monotonic() + PATIENCE_S, busy
        if last:
            self._wait(lambda: number not in self._watches, "end of this fault", 2 * PATIENCE_S)

    def _inflict(self, fault: Fault, record: Record) -> tuple[Watch, tuple[str, ...]]:
        if fault.role == "agent" and fault.kind != "stop":
            return self.faults.agent(fault, record), ("agent",)
        if fault.role in ("supervisor", "guardian", "agent", "all", "run folder", "/dev/shm"):
            if fault.kind in ("disk", "memory"):
                return self.faults.full(fault, record), ()
            named = {"kill": self.faults.kill_guardian, "stop": self.faults.stop, "freeze": self.faults.freeze}
            if fault.role == "supervisor" and fault.kind in ("kill", "drain"):
                return self._restart(fault, record), ()
            return named[fault.kind](fault, record), (fault.role,)
        target = self._target(fault)
        record |= {"role": target.role, "target": f"{target.name}.{target.incarnation}"}
        ways = {
            "kill": self.faults.kill,
            "stop": self.faults.stop,
            "hang": self.faults.hang,
            "wakeup": self.faults.wakeup,
        }
        return ways[fault.kind](fault, record, target), (target.name,)

    def _target(self, fault: Fault) -> Process:
        """Return the target: a process of the role that no other fault has, or a simulator if there is no such role."""
        role = fault.role if any(name.startswith(fault.role) for name in self.run.names) else "simulator"
        found: list[Process] = []

        def candidates() -> bool:
            busy = {name for _, _, names in self._watches.values() for name in names}
            known = sorted(self.run.life.processes.values(), key=lambda process: process.name)
            found[:] = [p for p in known if p.role == role and p.name not in busy and lives(p.pid)]
            if fault.kind != "kill":
                found[:] = [p for p in found if p.up_s is not None]
            return bool(found)

        self._wait(candidates, f"{role} to hit")
        return found[min(int(fault.which * len(found)), len(found) - 1)]

    def _goes_on_now(self) -> None:
        now_ns = time.monotonic_ns()
        self._wait(lambda: self.run.learned_last_ns() > now_ns, "gradient")

    def _restart(self, fault: Fault, record: Record) -> Watch:
        """The supervisor is killed, or told to end; then the run goes on from its newest checkpoint."""
        self._quiet()
        since_ns = time.monotonic_ns()
        assert self.run.process is not None
        if fault.kind == "kill":
            self.run.process.kill()
            self.run.process.wait()
            self.run.kill_replacements()
            gone_s = NODES_GONE_S if topologies.over_nodes(self.trial.mode) else GONE_S
            if not within(gone_s, lambda: not self.run.all_pids()):
                self.violations.append(f"left after the supervisor was killed: {census.left(self.run)}")
            record["gone_s"] = seconds(time.monotonic_ns() - since_ns)
        else:
            self._drain()
            self._nothing_left()
        self.rollbacks.append(judge.rollback(self.run, abrupt=fault.kind == "kill" or bool(self.run.life.lost)))
        since_ns = time.monotonic_ns()
        watches, self._watches = self._watches, {}
        self._begin()
        self._watches = watches
        record["recovery_s"] = seconds(self.run.learned_last_ns() - since_ns)
        yield from self.faults.goes_on(record, since_ns)

    # Ends -----------------------------------------------------------------------------------------------------------

    def _quiet(self) -> None:
        """Check that processes that have been there all the time have no more than at first."""
        watches, self._watches = self._watches, {}
        self._wait(lambda: self.run.all_up, "all processes up")
        self._goes_on_now()
        grown: list[str] = []

        def settled() -> bool:
            grown[:] = census.grown(self._baseline, census.survivors(self.run))
            if self._baseline and len(now := census.segments(self.run)) > len(self._segments):
                grown.append(f"in the run's /dev/shm {now}; there were {self._segments}")
            return not grown

        with suppress(Broken):
            self._wait(settled, "end of growth", 5.0)
        self.violations += grown
        self._watches = watches

    def _drain(self) -> None:
        assert self.run.process is not None
        os.kill(self.run.process.pid, signal.SIGINT)
        self._ended(130, "stopped")

    def _ended(self, exit_code: int, status: str) -> None:
        """Wait for the run's own end."""
        assert self.run.process is not None
        ended = self.run.process.poll
        if not within(PATIENCE_S, lambda: ended() is not None):
            raise Broken(f"the run did not end; {self._state()}")
        self.run.look()
        said = judge.summary(self.run)
        if self.run.process.returncode != exit_code or said.get("status") != status:
            self.violations.append(f"ended with {self.run.process.returncode}, {said.get('status')}: {said}")
        self.violations += judge.unknown(said, self.run.said, self.run.life.lost_nodes)[1]

    def _nothing_left(self) -> None:
        if not within(5.0, lambda: not census.left(self.run)):
            self.violations += [f"left: {what}" for what in census.left(self.run)]


def attempt(trial: Trial, tell: Callable[[str], None] = lambda said: None) -> list[Record]:
    """Run a trial; return a record for each fault, and one of the run."""
    with Stage() as stage:
        tell(f"trial {trial.number}: {trial.mode}, seed {trial.seed}, {len(trial.faults)} faults, {trial.ending}")
        going = Attempt(trial, stage, tell)
        found = going.go()
        if found["violations"]:
            _keep(going, found)
        return [*going.records, found]


def _keep(going: Attempt, found: Record) -> None:
    """Leave what a person needs to look into a violation."""
    folder = os.environ.get("ACTORLEARN_TEST_CHAOS_KEEP")
    if folder:
        place = Path(folder, f"trial-{going.trial.number}-{going.trial.mode}")
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / "found.txt").write_text(f"{found}\n\n{asdict(going.trial)}\n\n{going.run.screen()}")
        with suppress(OSError):  # not all of it can be had, where a disk is full, or processes are still ending
            shutil.copytree(going.run.folder, place / "run", ignore=shutil.ignore_patterns("ballast"))
