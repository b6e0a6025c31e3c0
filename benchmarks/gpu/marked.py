"""The part ``tests`` of the measurements on a GPU machine: runs the tests marked gpu."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.gpu.stay import Stay
from launch.bench.gpu import GpuHost
from launch.bench.interleaved import Spread
from launch.bench.report import SuiteReport
from launch.errors import FailedError
from launch.spawning.guardian import CapturedCommand

MARK = "pytest.mark.gpu"
TESTS = Path(__file__).parents[2] / "tests"
LOG = "gpu-tests.txt"


def no_tests(host: GpuHost) -> str:
    """Return why the tests marked gpu cannot be run; "" if they can."""
    if host.no_device:
        return host.no_device
    missing = [name for name in ("pytest", "pytest_timeout", "hypothesis") if find_spec(name) is None]
    return f"{', '.join(missing)} not installed" if missing else ""


def marked_files(tests: Path = TESTS) -> list[Path]:
    """Return the files with tests that need a GPU; other files import packages that the machine may not have."""
    return [path for path in sorted(tests.rglob("test_*.py")) if MARK in path.read_text()]


def tests(stay: Stay) -> SuiteReport:
    """Run the tests; raises FailedError if pytest does not end in the time of the part."""
    with tempfile.TemporaryDirectory(prefix="actorlearn-bench-") as folder:
        results = Path(folder) / "results.xml"
        words = ["-m", "gpu", "-p", "pytest_timeout", "-p", "no:cacheprovider", f"--junitxml={results}"]
        command = [sys.executable, "-m", "pytest", *words, *map(str, marked_files())]
        try:
            # Plug-ins of whatever else is installed there would warn, and a warning is an error.
            with CapturedCommand(command, {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}) as started:
                done = started.wait(max(1.0, stay.left_s))
        except subprocess.TimeoutExpired:
            raise FailedError("the tests were not over within the part's time") from None
        if stay.request.output is not None:
            (stay.request.output / LOG).write_text(done.stdout + done.stderr)
        if not results.is_file():
            raise FailedError(f"pytest ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")
        return told(results, stay)


def told(results: Path, stay: Stay) -> SuiteReport:
    """Return the report of a file of JUnit XML; failed tests are listed as shortfalls, also if all were skipped."""
    rows, seconds = [], {}
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        name = f"{case.get('classname', '').removeprefix('tests.')}::{case.get('name')}"
        outcome, why = "passed", ""
        for kind, said in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
            if (found := case.find(kind)) is not None:
                outcome, why = said, (found.get("message") or "").strip().partition("\n")[0]
        if outcome == "failed":
            stay.shortfalls.append(f"{name}: {why}")
        rows.append((name, outcome, f"{float(case.get('time') or 0):.1f} s", why))
        seconds[name] = Spread((float(case.get("time") or 0),))
    if not rows:
        raise FailedError(f"no test is marked {MARK}")
    if all(outcome == "skipped" for _, outcome, _, _ in rows):
        stay.shortfalls.append(f"all {len(rows)} were skipped: {rows[0][3]}")
    return SuiteReport(
        suite="gpu-tests",
        headings=("test", "outcome", "took", "why"),
        rows=rows,
        bars=seconds,
        unit="seconds",
        notes=(str(stay.host), *stay.shortfalls),
    )
