"""The suite ``desk``: how fast the desk draws a page of many long runs and shows a new report, and what it costs.

Needs the browser chromium, and the package playwright, which controls it. The runs are folders like those of real runs,
written for the suite. The cost of watching one run is measured with a real run, whose environments only wait.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from benchmarks.request import BenchmarkRequest, shipped
from launch.bench.interleaved import Spread, progress_bar
from launch.bench.report import SuiteReport
from launch.bench.running import Running
from launch.errors import FailedError
from launch.runs import find

RUNS = 20
REPORTS = 10_000
SEEDS = 5
"""Runs of a group."""
EVERY_S = 2.0
"""Seconds between two reports of a run."""
UPDATE_EVERY_S = 0.25
FLAGS = ("--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-first-run")
"""Options of chromium, with which it can run as root in a container and makes no requests of its own."""
_PATIENCE_MS = 60_000
_WAITING = (
    *("env.id=benchmarks.environments:Waiting", "simulators.envs=1", "algorithm.horizon=5"),
    'env.kwargs={"step_s": 0.02, "slow": "/", "slower": 1.0}',
)


def desk(request: BenchmarkRequest) -> SuiteReport:
    """The desk's page of 20 runs of 10,000 reports: first picture, updates, memory, and a core's share of one run."""
    if find_spec("playwright") is None or shutil.which("chromium") is None:
        raise FailedError("desk needs a browser: install chromium, and pip install playwright")
    with tempfile.TemporaryDirectory(prefix="actorlearn-bench-") as folder, browser() as opened:
        runs = [make_run(Path(folder) / "runs", number) for number in range(RUNS)]
        firsts: list[float] = []
        with progress_bar() as progress:
            task = progress.add_task("first picture", total=request.repetitions)
            for _ in range(request.repetitions - 1):
                with served(Path(folder) / "runs") as (address, _process):
                    firsts.append(_first(opened, address))
                progress.advance(task)
        with served(Path(folder) / "runs") as (address, process):
            page = opened.new_page()
            firsts.append(_drawn(page, address))
            before = process.memory_info().rss
            updates = _updates(page, runs, request.seconds)
            after = process.memory_info().rss
            page.close()
        share = _share_of_a_core(opened, request.seconds)
    return _report(firsts, updates, (before, after), share, request.seconds)


@contextmanager
def browser() -> Iterator[Any]:
    """Yield chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Yield the address of a desk of a folder's runs, just started, and its process."""
    command = [sys.executable, "-m", "actorlearn", "desk", "--runs", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip() if process.stdout else ""
            if not address:
                raise FailedError("the desk did not start; `actorlearn desk` says why")
            yield address, psutil.Process(process.pid)
        finally:
            process.terminate()


def make_run(folder: Path, number: int, reports: int = REPORTS) -> Path:
    """Write the folder of a run that seems alive as long as this process is; return the folder."""
    path = folder / f"made-{number:02}"
    path.mkdir(parents=True)
    group, seed = divmod(number, SEEDS)
    (path / "topology.yaml").write_text(
        f"name: made\nseed: {seed}\ntotal_steps: 100_000_000\nenv: {{id: ALE/Pong-v5}}\n"
        f"algorithm: {{name: a2c, horizon: {5 * (group + 1)}}}\nreport: {{every_s: {EVERY_S}}}\n"
    )
    me = {"supervisor_pid": os.getpid(), "supervisor_started": find.start_time(os.getpid())}
    (path / "meta.json").write_text(json.dumps({"run_id": path.name, "version": "made", **me}))
    (path / "events.jsonl").touch()
    with (path / "metrics.jsonl").open("w") as file:
        file.writelines(_line(number, report) for report in range(reports))
    return path


def _line(number: int, report: int) -> str:
    """Return a line with one report, with the names and the size of a real one."""
    drawn = random.Random(f"{number}.{report}")
    score = 20 * math.tanh((report - 3000) / (1500 + 100 * number)) + drawn.gauss(0, 0.4)
    steps = 2000 * (report + 1)
    row = {
        "time": f"2026-01-01T{report // 3600:02}:{report // 60 % 60:02}:{report % 60:02}.000+00:00",
        "time_s": EVERY_S * report,
        "env_steps": steps,
        "frames": 4 * steps,
        "updates": steps // 160,
        "env_steps_per_s": 1000 + drawn.gauss(0, 30),
        "episodes": steps // 900,
        "episode_return_mean": score,
        **{f"made_{metric}": drawn.random() for metric in range(50)},
    }
    return json.dumps(row) + "\n"


def _first(opened: Any, address: str) -> float:
    page = opened.new_page()
    try:
        return _drawn(page, address)
    finally:
        page.close()


def _drawn(page: Any, address: str) -> float:
    """Open a page; return the milliseconds until the first picture was drawn."""
    page.goto(address)
    page.wait_for_selector("html[data-drawn]", state="attached", timeout=_PATIENCE_MS)
    return float(page.evaluate("Number(document.documentElement.dataset.drawn)"))


def _updates(page: Any, runs: list[Path], seconds: float) -> list[float]:
    """Write reports, one run after the other; return the milliseconds until each was drawn."""
    page.evaluate(
        """() => {
          window.times = [];
          const page = document.documentElement;
          const watch = () => window.times.push(performance.timeOrigin + Number(page.dataset.drawn));
          new MutationObserver(watch).observe(page, { attributeFilter: ["data-drawn"] });
        }"""
    )
    found, number, until_s = [], 0, time.monotonic() + seconds
    while time.monotonic() < until_s:
        run, report = number % len(runs), REPORTS + number // len(runs)
        with (runs[run] / "metrics.jsonl").open("a") as file:
            file.write(_line(run, report))
        written_ms = 1000 * time.time()
        found.append(_next_drawn(page, written_ms) - written_ms)
        number += 1
        time.sleep(UPDATE_EVERY_S * random.uniform(0.8, 1.2))
    return found


def _next_drawn(page: Any, after_ms: float) -> float:
    """Return the time at which the page is drawn next, in milliseconds since 1970."""
    deadline_s = time.monotonic() + _PATIENCE_MS / 1000
    while time.monotonic() < deadline_s:
        drawn = [at for at in page.evaluate("window.times.splice(0)") if at > after_ms]
        if drawn:
            return float(drawn[0])
        time.sleep(0.01)
    raise FailedError(f"a report was not drawn within {_PATIENCE_MS / 1000:g} s")


def _share_of_a_core(opened: Any, seconds: float) -> float:
    """Return the share of a core that the desk uses while a page shows one living run in full."""
    with (
        Running(shipped("catch.yaml"), _WAITING, report_every_s=EVERY_S) as run,
        served(run.run_dir.parent) as served_by,
    ):
        address, process = served_by
        page = opened.new_page()
        _drawn(page, address)
        page.keyboard.press("j")
        page.wait_for_selector("#part-graph svg", timeout=_PATIENCE_MS)
        before, began_s = process.cpu_times(), time.monotonic()
        page.wait_for_timeout(1000 * seconds)
        after = process.cpu_times()
        page.close()
        return float((after.user + after.system - before.user - before.system) / (time.monotonic() - began_s))


def _report(
    firsts: list[float], updates: list[float], memory: tuple[int, int], share: float, seconds: float
) -> SuiteReport:
    slowest = statistics.quantiles(updates, n=20)[-1] if len(updates) > 1 else updates[0]
    before, after = (value / 1e6 for value in memory)
    rows = [
        ("first picture, ms", f"{statistics.median(firsts):,.0f}", f"{max(firsts):,.0f}", "1,000"),
        ("update, ms", f"{statistics.median(updates):,.0f}", f"{slowest:,.0f} (95 of 100)", "100"),
        ("memory of the server, MB", f"{before:,.1f}", f"{after:,.1f} (at the end)", "80"),
        ("core's share of one living run, %", f"{100 * share:.2f}", "", "2"),
    ]
    return SuiteReport(
        suite="desk",
        headings=("what", "median", "worst", "asked for"),
        rows=rows,
        bars={"first picture": Spread(tuple(firsts)), "update": Spread(tuple(updates))},
        unit="ms",
        notes=(
            f"{RUNS} living runs of {REPORTS:,} reports in groups of {SEEDS} seeds; {len(updates)} updates in "
            f"{seconds:,.0f} s, during which the server's memory grew by {after - before:,.1f} MB",
        ),
        figures={"bytes": list(memory), "share_of_a_core": share},
    )
