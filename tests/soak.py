"""``python -m tests.soak --mode gossip --minutes 120``: hours of faults and changes, in which nothing may grow.

The run has an evaluator and an open desk. A process of it is killed every half minute, and processes are attached and
detached every minute. Memory, descriptors, threads and segments are sampled and written to ``samples.jsonl`` in the
run's folder. A second call with the same folder resumes the run and goes on. The exit status is 1 if anything grew.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import psutil

import actorlearn
from benchmarks.suites.desk import served
from launch.errors import FailedError, RunError
from launch.python.run import Run
from launch.runs.jsonl import read_object
from tests.sizes import ROOT
from tests.system.launched import pids_of

SAMPLE_S, KILL_S, CHANGE_S = 10.0, 30.0, 60.0
WARM_S = 120.0
"""Age from which a process is sampled, and time from the start of a call from which samples count."""
SETTLED_S = 45.0
"""Age from which a process that may be killed is sampled."""
GROWTH = {"rss_mib": (1.1, 8.0), "fds": (1.0, 2.0), "threads": (1.0, 2.0), "segments": (1.0, 0.0)}
"""What is sampled -> factor and sum by which the last third may exceed the first."""
MODES: dict[str, dict[str, Any]] = {
    "alone": {},
    "sync": {"mode": "sync", "learners.count": 2, "simulators.count": 1},
    "async": {"mode": "async", "learners.count": 2, "simulators.count": 1},
    "gossip": {"mode": "gossip", "learners.count": 3, "simulators.count": 1, "gossip.graph": "ring"},
}
KEYS = {
    "total_steps": 10**12,
    "algorithm.entropy_cost_final": 0.05,
    "optimizer.learning_rate_final": 4.0e-3,
    "inference.count": 1,
    "evaluator.count": 1,
    "evaluator.every_steps": 1_000_000,
    "evaluator.episodes": 20,
    "checkpoint.every_steps": 1_000_000,
    "supervision.restarts": 10**6,
    "supervision.unsaved_restarts": 10**6,
}
SURVIVES = ("supervisor", "desk", "evaluator")
"""What is not killed."""


class Sample(NamedTuple):
    """Median over the processes of a role, or a number of the whole run, at one time."""

    time_s: float
    role: str
    what: str
    value: float


def living(run: Run) -> dict[str, psutil.Process]:
    """The processes of a run by name."""
    found = {}
    for name, pid in pids_of(run.events()).items():
        with suppress(psutil.NoSuchProcess):
            found[name] = psutil.Process(pid)
    return found


def sampled(run: Run, others: dict[str, psutil.Process], time_s: float) -> Iterator[Sample]:
    """Sizes of the processes that are no longer starting, and the number of segments."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for name, process in (living(run) | others).items():
        role = name if name in others else name.rstrip("0123456789").rstrip("-")
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if time.time() - process.create_time() > (WARM_S if role in SURVIVES else SETTLED_S):
                values[role, "rss_mib"].append(process.memory_info().rss / 2**20)
                values[role, "fds"].append(process.num_fds())
                values[role, "threads"].append(process.num_threads())
    for (role, what), numbers in values.items():
        yield Sample(time_s, role, what, median(numbers))
    segments = Path(read_object(run.folder / "meta.json")["shm"])
    yield Sample(time_s, "run", "segments", len(list(segments.rglob("*"))))


def grown(samples: Sequence[Sample]) -> list[str]:
    """What exceeds in the last third of its samples what it was in the first: a line for each."""
    series: dict[tuple[str, str], list[float]] = defaultdict(list)
    for sample in samples:
        series[sample.role, sample.what].append(sample.value)
    found = []
    for (role, what), values in sorted(series.items()):
        third = len(values) // 3
        if not third:
            continue
        # Between an attachment and a detachment there are more segments, so the smallest numbers are compared.
        typical = min if what == "segments" else median
        first, last = typical(values[:third]), typical(values[-third:])
        factor, more = GROWTH[what]
        line = f"{role:12} {what:9} {first:8.1f} {last:8.1f}"
        if last > first * factor + more:
            found.append(line)
        print(line, "GREW" if found[-1:] == [line] else "", flush=True)
    return found


class Soak:
    """One call: kills, changes and samples until its time is over."""

    def __init__(self, run: Run, mode: str, log: Path, seed: int) -> None:
        self.run, self.mode, self.log, self.random = run, mode, log, random.Random(seed)
        self.attached: list[str] = []
        self.kills = self.changes = 0

    def kill(self) -> None:
        """Kill a process that is restarted."""
        mortal = [process for name, process in living(self.run).items() if not name.startswith(SURVIVES)]
        if mortal:
            with suppress(psutil.NoSuchProcess):
                self.random.choice(mortal).kill()
                self.kills += 1

    def change(self) -> None:
        """Attach, or detach what was attached last."""
        try:
            if self.attached:
                self.run.detach(*self.attached)
                self.attached = []
            else:
                learners = int(self.mode == "gossip")
                self.attached = self.run.attach(simulators=None if learners else 1, learners=learners)
            self.changes += 1
        except (RunError, FailedError) as error:  # what was attached may have been killed while it started
            print(f"{'detach' if self.attached else 'attach'}: {error}", flush=True)
            self.attached = []

    def go_on(self, seconds: float, others: dict[str, psutil.Process]) -> list[Sample]:
        """Kill, change and sample for a time; returns the samples."""
        began_s = time.monotonic()
        samples: list[Sample] = []
        due = {self.kill: KILL_S, self.change: CHANGE_S}
        while (passed_s := time.monotonic() - began_s) < seconds:
            if self.run.state != "running":
                raise SystemExit(f"the run is {self.run.state}: {self.run.events()[-3:]}")
            for deed, every_s in ((self.kill, KILL_S), (self.change, CHANGE_S)):
                if passed_s >= due[deed]:
                    due[deed] += every_s
                    deed()
            if passed_s >= WARM_S:
                new = list(sampled(self.run, others, time.time()))
                samples += new
                with self.log.open("a") as file:
                    file.writelines(json.dumps(sample._asdict()) + "\n" for sample in new)
            time.sleep(SAMPLE_S)
        return samples


def main() -> int:
    """Soak as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--mode", choices=MODES, default="alone")
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--folder", type=Path, default=None)
    wanted = parser.parse_args()
    folder = wanted.folder or ROOT / "runs" / "soak" / wanted.mode
    seed = time.time_ns() % 2**31
    if (folder / "topology.yaml").exists():
        run = actorlearn.open(folder).resume()
    else:
        keys = {**KEYS, **MODES[wanted.mode], "seed": seed}
        run = actorlearn.start(ROOT / "configs" / "catch.yaml", run_dir=folder, **keys)
    supervisor = psutil.Process(read_object(folder / "meta.json")["supervisor_pid"])
    soak = Soak(run, wanted.mode, folder / "samples.jsonl", seed)
    with served(folder.parent) as (address, desk), urllib.request.urlopen(address.replace("/?", "/stream?")) as stream:
        threading.Thread(target=read_all, args=[stream], daemon=True).start()
        try:
            samples = soak.go_on(60 * wanted.minutes, {"supervisor": supervisor, "desk": desk})
        finally:
            state = run.stop()
    print(
        f"{wanted.mode}: seed {seed}, {soak.kills} kills, {soak.changes} changes, {wanted.minutes:g} minutes, {state}"
    )
    found = grown(samples)
    scores = [row["episode_return_mean"] for row in run.metrics() if row.get("episode_return_mean") is not None]
    print(f"score: mean of the last hundred reports {fmean(scores[-100:]):.3f}")
    summary = read_object(folder / "summary.json")
    print({name: value for name, value in summary.items() if "steps" in name})
    return int(bool(found))


def read_all(stream: Any) -> None:
    """Read what the desk sends, as a page does."""
    with suppress(OSError, ValueError, AttributeError):  # http.client has no better word for a closed stream
        while stream.read1(1 << 16):
            pass


if __name__ == "__main__":
    sys.exit(main())
