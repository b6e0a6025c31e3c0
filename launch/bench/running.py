"""Runs a topology for a while, and measures it from outside: its rate, the time of each process by stage, its memory.

The run is started by ``actorlearn run``, so what is measured is what a user gets. The numbers come from its files, from
shared memory and from /proc.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psutil

from actorlearn.memory.shared import Segment
from actorlearn.metrics.timings import SECTIONS, shares
from actorlearn.wire.identity import ProcessId
from launch.errors import FailedError
from launch.reports.checks import section_of
from launch.runs.find import RunFolder
from launch.runs.jsonl import Lines, read_object
from launch.topology.load import load
from launch.topology.rules import least_starts

START_LIMIT_S = 120.0
"""Longest time in seconds from the command to the first report; a busy machine imports torch slowly."""
LEARNING_LIMIT_S = 120.0
"""Longest time in seconds that a measurement waits until a run with a replay learns."""
REPORT_EVERY_S = 0.5
"""Default for the seconds between two reports of a measured run."""
ENDLESS = 10**12
"""Value of total_steps with which a run does not end by itself."""
NO_OTHER_END = ("stop_at_steps=null", "stop_at_training_score=null", "evaluator.stop_at_score=null")
"""Overrides without which a run may end before total_steps."""
POLL_S = 0.001
"""Seconds between two looks at shared memory."""
_TURN_S = 0.05
"""Seconds between two looks at the files of a run."""
ENDS_WITH_US = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG, which exec keeps: SIGTERM when the parent ends
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""
"""Python code that executes a command in its own process, so that the command gets SIGTERM when its parent ends.

Its arguments are the process id of the parent, and the command.
"""
_STOP_LIMIT_S = 90.0
"""Seconds in which a run must end before it is killed."""


@dataclass(frozen=True)
class Reading:
    """Measurements of a run in one interval of time."""

    env_steps: int
    seconds: float
    """Length of the interval."""
    wall: Mapping[str, Mapping[str, float]]
    """Process -> stage (``SECTIONS``) -> share of the process's wall time, 0 to 1."""
    cpu: Mapping[str, float]
    """Process -> number of cores it used on average; 2 means two threads that never paused."""
    queued: Mapping[str, float] = field(default_factory=dict)
    """Process -> share of the time in which its main thread was ready to run but had no core."""
    rates: Sequence[float] = ()
    """Agent steps/s in each report of the interval."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Process -> its role."""

    @property
    def steps_per_s(self) -> float:
        """Environment steps per second, in all environments together."""
        return self.env_steps / self.seconds


class Running:
    """Starts a run in ``with Running(...) as run``, measures it as often as wanted, and ends it."""

    def __init__(  # noqa: PLR0913 - one for each option of the command
        self,
        topology: str,
        overrides: Sequence[str] = (),
        total_steps: int | None = ENDLESS,
        report_every_s: float = REPORT_EVERY_S,
        engine: str | None = None,
        keys: Path | None = None,
        start_limit_s: float = START_LIMIT_S,
        by: Sequence[str] = (),
        run_dir: Path | None = None,
    ) -> None:
        """``topology``: path of its file. ``total_steps``: None keeps the ends of the topology, and so its schedules.

        ``engine``: name of the engine that starts nodes. ``keys``: folder of the keys with which nodes join.
        ``start_limit_s``: seconds to wait for a report. ``by``: a command, such as nice, to which the command of the
        run is appended. ``run_dir``: folder of the run, which is kept; None: a temporary folder.
        """
        self._options = [*(("--engine", engine) if engine else ()), *(("--keys", str(keys)) if keys else ())]
        self._start_limit_s, self._by = start_limit_s, by
        self._topology = topology
        self._overrides = [*overrides, f"report.every_s={report_every_s}"]
        if total_steps is not None:
            self._overrides += [f"total_steps={total_steps}", *NO_OTHER_END]
        self._folder = tempfile.TemporaryDirectory(prefix="actorlearn-bench-")
        self.run_dir = run_dir or Path(self._folder.name) / "run"
        self._errors = Path(self._folder.name) / "stderr"
        self._lines = Lines(self.run_dir / "metrics.jsonl")
        self._events = Lines(self.run_dir / "events.jsonl")
        self.seen: list[dict[str, Any]] = []
        """All reports so far."""

    def __enter__(self) -> Running:
        """Start the run and wait for its first report (line of metrics.jsonl); raises FailedError if it ends early."""
        command = [sys.executable, "-m", "actorlearn", "run", self._topology, *self._overrides]
        ended_with_us = [sys.executable, "-c", ENDS_WITH_US, str(os.getpid()), *self._by]
        with self._errors.open("wb") as errors:  # a file, because a full pipe would stop the run
            self._process = subprocess.Popen(
                [*ended_with_us, *command, *self._options, "--run-dir", str(self.run_dir)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                process_group=0,  # so that Ctrl-C reaches only this process, which then ends the run
            )
        try:
            self._wait_for_report()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._process.kill()
            self._process.wait()
            self._folder.cleanup()

    def read(self, seconds: float, warmup_s: float = 0.0) -> Reading:
        """Measure the run for at least ``seconds`` after a warm-up; reports of updates begin and end this interval.

        The warm-up of a run with a replay begins when the run learns; raises FailedError if it does not.
        """
        self._wait_for_learning()
        begin = self._update_after(time.monotonic() + warmup_s)
        sections, cpu_s, queued_s = self._sections(), self._cpu_s(), self._queued_s()
        end = self._update_after(time.monotonic() + seconds)
        first, last = self.seen[begin], self.seen[end]
        elapsed_s = last["time_s"] - first["time_s"]
        after, cpu_after_s, queued_after_s = self._sections(), self._cpu_s(), self._queued_s()
        self._check()
        return Reading(
            env_steps=last["env_steps"] - first["env_steps"],
            seconds=elapsed_s,
            wall={name: shares(sections[name], after[name]) for name in sections if name in after},
            cpu={name: (cpu_after_s[name] - cpu_s[name]) / elapsed_s for name in cpu_s if name in cpu_after_s},
            queued={
                name: (queued_after_s[name] - queued_s[name]) / elapsed_s for name in queued_s.keys() & queued_after_s
            },
            rates=rates(self.seen[begin : end + 1]),
            roles={own.name: own.role for own, _ in self._started()},
        )

    def rate(self, seconds: float, warmup_s: float = 0.0) -> float:
        """Measure only the environment steps/s, in all environments together; also of a run on several machines.

        The warm-up of a run with a replay begins when the run learns; raises FailedError if it does not.
        """
        self._wait_for_learning()
        first = self.seen[self._update_after(time.monotonic() + warmup_s)]
        last = self.seen[self._update_after(time.monotonic() + seconds)]
        self._check()
        return float((last["env_steps"] - first["env_steps"]) / (last["time_s"] - first["time_s"]))

    def publications(self, seconds: float) -> list[float]:
        """Return when the first learner published weights in the next ``seconds`` (monotonic clock, to ``POLL_S``)."""
        segment = Segment.open(Path(read_object(self.run_dir / "meta.json")["shm"]) / "progress")
        row = next(index for own, index in self._started() if own.role == "trainer")
        publishing = segment["section_ns"][row, SECTIONS.index("publish") : SECTIONS.index("publish") + 1]
        times, newest, until_s = [], int(publishing[0]), time.monotonic() + seconds
        while (now_s := time.monotonic()) < until_s:
            if (found := int(publishing[0])) != newest:
                newest = found
                times.append(now_s)
            time.sleep(POLL_S)
        del publishing
        segment.close()
        self._check()
        return times

    @property
    def pid(self) -> int:
        """Process id of the supervisor."""
        return self._process.pid

    def pss_bytes(self) -> int:
        """Return the resident bytes of all its processes, with shared pages counted once (proportional set size)."""
        self._check()
        root = psutil.Process(self._process.pid)
        total = 0
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += process.memory_full_info().pss
        return total

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return all events of one kind so far."""
        return [event for event in Lines(self.run_dir / "events.jsonl").new() if event["kind"] == kind]

    def pids(self) -> dict[str, int]:
        """Return name -> pid of each process."""
        return {event["process"]: event["pid"] for event in self.events("spawned")}

    def new_reports(self) -> list[dict[str, Any]]:
        """Return the reports since the last call, and add them to ``seen``."""
        rows = list(self._lines.new())
        self.seen += rows
        return rows

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self._process.poll() is not None

    def wait(self, seconds: float) -> None:
        """Wait until the run has ended, at most ``seconds``."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def _wait_for_report(self) -> None:
        deadline_s = time.monotonic() + self._start_limit_s
        while not self.new_reports():
            self._check()
            if time.monotonic() > deadline_s:
                raise FailedError(
                    f"the run of {self._topology} reported nothing for {self._start_limit_s:.0f} s; start it with "
                    "`actorlearn run` to see why"
                )
            time.sleep(_TURN_S)

    def _wait_for_learning(self) -> None:
        """Wait until a run with a replay has learned, because until then it is faster than training."""
        topology = RunFolder(self.run_dir, {}).topology()
        if not section_of(topology, "replay") or not section_of(topology, "algorithm").get("epochs"):
            return
        until_s = time.monotonic() + LEARNING_LIMIT_S
        while not any(row.get("minibatches") for row in self.seen):
            self._check()
            if time.monotonic() > until_s:
                starts = section_of(topology, "replay").get("learning_starts_steps")
                raise FailedError(
                    f"the run of {self._topology} learned nothing in {LEARNING_LIMIT_S:.0f} s, so its rate is not that "
                    f"of training; it has made {self.seen[-1]['env_steps']:,} steps, and learning starts after "
                    f"{starts:,} of each learner: write a smaller replay.learning_starts_steps"
                )
            time.sleep(_TURN_S)
            self.new_reports()

    def _update_after(self, when_s: float) -> int:
        """Wait for the first report with a new update after ``when_s`` (monotonic clock); return its place in ``seen``.

        Trainers also report while they wait for a rollout. Such a report has a later time than the previous one, but
        the same steps, so no rate can be measured from it.
        """
        deadline_s = when_s + self._start_limit_s
        while time.monotonic() < when_s:
            self._check()
            self.new_reports()
            time.sleep(_TURN_S)
        self.new_reports()
        while time.monotonic() < deadline_s:
            self._check()
            before = len(self.seen)
            self.new_reports()
            for place in range(before, len(self.seen)):
                if self.seen[place]["env_steps"] > self.seen[place - 1]["env_steps"]:
                    return place
            time.sleep(_TURN_S)
        raise FailedError(
            f"no update of the run of {self._topology} ended in {self._start_limit_s:.0f} s, so its rate cannot be "
            "measured: make updates shorter, for example with a smaller algorithm.horizon"
        )

    def _check(self) -> None:
        """Raise FailedError if the run has ended, or if one of its processes has died."""
        if self.ended:
            said = self._errors.read_text(errors="replace").strip().splitlines()
            why = said[-1].removeprefix("actorlearn: ") if said else self.error() or "no reason given"
            raise FailedError(f"the run of {self._topology} ended early: {why}")
        for event in self._events.new():
            if event["kind"] == "died":
                raise FailedError(f"the run of {self._topology} lost {event['process']}: {event['cause']}")

    def error(self) -> str:
        """Return the error with which the run ended; empty if there was none, or if it has not ended."""
        return str(read_object(self.run_dir / "summary.json").get("error") or "")

    def _sections(self) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
        """Return name of each process -> nanoseconds in each stage so far [stages]."""
        segment = Segment.open(Path(read_object(self.run_dir / "meta.json")["shm"]) / "progress")
        section_ns = segment["section_ns"].copy()
        segment.close()
        return {own.name: section_ns[index] for own, index in self._started()}

    def _started(self) -> list[tuple[ProcessId, int]]:
        found = [json.loads(path.read_text()) for path in sorted((self.run_dir / "settings").glob("*.json"))]
        return [(msgspec.convert(settings["id"], ProcessId), settings["index"]) for settings in found]

    def _queued_s(self) -> dict[str, float]:
        """Return name of each process -> seconds in which its main thread was ready to run but had no core."""
        found = {}
        for name, pid in self.pids().items():
            with suppress(OSError):
                found[name] = int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
        return found

    def _cpu_s(self) -> dict[str, float]:
        """Return name of each process -> processor seconds that it has used."""
        spent = {}
        for name, pid in self.pids().items():
            with suppress(psutil.NoSuchProcess):
                times = psutil.Process(pid).cpu_times()
                spent[name] = times.user + times.system
        times = psutil.Process(self._process.pid).cpu_times()
        return {"supervisor": times.user + times.system, **spent}


def learning_soon(topology: str, overrides: Sequence[str]) -> tuple[str, ...]:
    """Return the overrides with which a run learns from its first rollout, or as soon as its replay has a minibatch.

    A measurement is shorter than the time until learning starts, and its total_steps would make statistics_rows larger.
    The given overrides come last, so that a given replay.learning_starts_steps or model.statistics_rows is kept.
    """
    made = load(topology, overrides)
    limits = [least for least, _ in least_starts(made)]
    soon = [f"replay.learning_starts_steps={max(limits)}"] if limits else []
    if made.model.normalize_observation:
        soon.append("model.statistics_rows=0")
    return (*soon, *overrides)


def rates(reports: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    """Return the environment steps/s between successive reports of updates.

    Reports without new steps are left out: they were sent while a trainer waited for a rollout.
    """
    updates = [
        *reports[:1],
        *(later for earlier, later in pairwise(reports) if later["env_steps"] > earlier["env_steps"]),
    ]
    return tuple(
        (later["env_steps"] - earlier["env_steps"]) / (later["time_s"] - earlier["time_s"])
        for earlier, later in pairwise(updates)
        if later["time_s"] > earlier["time_s"]  # the last two reports may have the same time
    )


def rate_of(topology: str, overrides: Sequence[str], seconds: float, warmup_s: float) -> float:
    """Start a run, measure its environment steps/s for ``seconds`` after a warm-up, and end it."""
    with Running(topology, overrides) as run:
        return run.rate(seconds, warmup_s)
