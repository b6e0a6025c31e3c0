"""The suite ``stragglers``: rates of learners beside one slow learner, in each mode, measured in turn.

A learner is made slow by stopping its trainer most of the time (SIGSTOP, SIGCONT), which no process can see coming.
Learners that do not wait for one another lose at most the slow learner's own part of the rate. In lock-step all of them
become as slow, and the run names the straggler.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from statistics import fmean

from benchmarks.request import BenchmarkRequest
from launch.bench.interleaved import interleave
from launch.bench.report import SuiteReport, percent, rate
from launch.bench.running import Running

SLOWER = 5.0
"""Factor by which the slow learner is slower."""
MODES = ("sync", "async", "gossip")
LEARNERS = 2
SLOW = f"trainer-{LEARNERS - 1}"
WARMUP_S = 4.0


def stragglers(request: BenchmarkRequest) -> SuiteReport:
    """Rates of two learners of which one is 5 times slower, in each mode."""
    named: dict[str, str] = {}
    others: dict[str, list[float]] = {}
    cases = {
        f"{mode}, {how}": partial(_rate, request, mode, how == "one slow", named, others)
        for mode in MODES
        for how in ("even", "one slow")
    }
    spread = interleave(cases, request.repetitions)
    rows = []
    for mode in MODES:
        even, slow = spread[f"{mode}, even"], spread[f"{mode}, one slow"]
        kept = fmean(others[f"{mode}, one slow"]) / fmean(others[f"{mode}, even"])
        share = percent(slow.median / even.median)
        rows.append((mode, rate(even), rate(slow), share, percent(kept), named.get(mode, "-")))
    at_most = percent((LEARNERS - 1 + 1 / SLOWER) / LEARNERS)
    return SuiteReport(
        suite="stragglers",
        headings=("mode", "both even, steps/s", f"{SLOW} {SLOWER:g}x slower", "of even", "the other keeps", "named"),
        rows=rows,
        bars=spread,
        unit="steps/s",
        notes=(f"where nobody waits for the slow one, {at_most} of the even rate is left, and the other keeps 100 %",),
        figures={"topology": request.file},
    )


def _rate(
    request: BenchmarkRequest, mode: str, slow: bool, named: dict[str, str], others: dict[str, list[float]]
) -> float:
    overrides = (*request.overrides, f"mode={mode}", f"learners.count={LEARNERS}")
    with Running(request.topology, overrides) as run, slowed(run.pids()[SLOW]) if slow else nullcontext():
        reading = run.read(request.seconds, WARMUP_S)
        rows = [row["learners"] for row in run.seen[len(run.seen) // 2 :] if "learners" in row]
        kept = [own["env_steps_per_s"] for row in rows for name, own in row.items() if name != SLOW]
        others.setdefault(f"{mode}, {'one slow' if slow else 'even'}", []).append(fmean(kept))
        for event in run.events("warned"):
            if " is slow" in event["cause"]:
                named[mode] = event["cause"].partition(" is slow")[0]
    return reading.steps_per_s


@contextmanager
def slowed(pid: int, slower: float = SLOWER, period_s: float = 0.1) -> Iterator[None]:
    """Stop a process for all but one part in ``slower`` of each period."""
    over = threading.Event()

    def alternate() -> None:
        while not over.is_set():
            for number, seconds in (
                (signal.SIGSTOP, period_s * (1 - 1 / slower)),
                (signal.SIGCONT, period_s / slower),
            ):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
                over.wait(seconds)

    thread = threading.Thread(target=alternate)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
