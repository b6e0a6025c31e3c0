"""A visit: the measurements on a machine with a GPU, in parts that can be chosen, interrupted and continued.

First it prints which parts are impossible on the machine, and why. Then it does one part after another. Each part
keeps its measurements at once, writes its own report, and adds a line with its outcome to a file. If a part fails, the
line has the reason, and the next part begins.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.parts import PARTS, VisitPart
from benchmarks.gpu.stay import Stay
from benchmarks.kept import keep_result, read_results
from benchmarks.request import BenchmarkRequest
from launch.bench import report
from launch.bench.gpu import CORES, GpuHost
from launch.bench.interleaved import Spread
from launch.bench.report import SuiteReport
from launch.errors import RunError
from launch.runs.jsonl import read_object

KEPT = "gpu-parts"
"""Name of the file of outcomes, without its ending."""
KIT = Path(__file__).parents[2] / ".gpu-kit" / "kit.json"
"""File with the commit from which the kit was made, for a working tree without its git history."""
DONE, PARTLY, FAILED, LEFT_OUT, NOT_BEGUN = "done", "partly", "failed", "left out", "not begun"


@dataclass(frozen=True)
class PartOutcome:
    """The end of one part."""

    part: str
    device: str
    quick: bool
    state: str
    """The outcome, one of the five names above."""
    minutes: float = 0.0
    reason: str = ""


ALL = "all"
"""Name for all parts."""


def gpu(request: BenchmarkRequest) -> SuiteReport:
    """Measurements on a GPU machine, in parts: names choose parts, all takes all; without a name, lists the parts."""
    chosen = choose(request.parts)
    host = GpuHost.here(request.device)
    if request.parts and request.output is None:
        raise RunError("gpu: measurements are kept as they are made: name their folder, as in -o results-gpu")
    if not request.parts:
        listed = [(part.name, f"{part.minutes:g}", part.says, _foreseen(part, host)) for part in PARTS]
        return _report(host, ("part", "minutes", "what", "on this machine"), listed, {})
    say(f"{host}; {sum(part.minutes for part in chosen):g} minutes at most")
    for part in chosen:
        say(f"{part.name}: {_foreseen(part, host)}")
    found = do(chosen, request, host)
    known = [(part, found[part.name]) for part in PARTS if part.name in found]  # those of earlier calls too
    rows = [(part.name, f"{part.minutes:g}", f"{end.minutes:.1f}", end.state, end.reason) for part, end in known]
    return _report(host, ("part", "minutes", "took", "outcome", "why"), rows, found)


def choose(names: Sequence[str]) -> list[VisitPart]:
    """Return the parts with these names, in order; without names, all. Raises RunError for an unknown name."""
    known = {part.name: part for part in PARTS}
    if unknown := [name for name in names if name not in known and name != ALL]:
        raise RunError(f"--part {unknown[0]}: gpu has no such part; choose one of {', '.join(known)}")
    return [part for part in PARTS if not names or ALL in names or part.name in names]


def do(chosen: Sequence[VisitPart], request: BenchmarkRequest, host: GpuHost) -> Mapping[str, PartOutcome]:
    """Do one part after another, and keep the outcome of each; return the outcomes by name.

    A part that is done in this folder is not repeated; a part that would not end in time is not begun.
    """
    began_s = time.monotonic()
    found = {
        line.part: line
        for line in read_results(request, KEPT, PartOutcome)
        if line.device == host.device and line.quick == request.quick
    }
    for part in chosen:
        left = float("inf") if request.minutes is None else request.minutes - (time.monotonic() - began_s) / 60
        if part.name in found and found[part.name].state == DONE:
            say(f"{part.name}: done already, in {found[part.name].minutes:.1f} minutes")
            continue
        state, reason, minutes = NOT_BEGUN, f"{left:.1f} minutes were left; give the same command again", 0.0
        if why := part.lacks(host):
            state, reason = LEFT_OUT, why
        elif part.minutes <= left:
            say(f"{part.name}: {part.minutes:g} minutes at most")
            part_began_s = time.monotonic()
            state, reason = _do(part, request, host)
            minutes = (time.monotonic() - part_began_s) / 60
        found[part.name] = PartOutcome(part.name, host.device, request.quick, state, minutes, reason)
        keep_result(request, KEPT, found[part.name])
        say(f"{part.name}: {state}{f': {reason}' if reason else ''}")
    return found


def _do(part: VisitPart, request: BenchmarkRequest, host: GpuHost) -> tuple[str, str]:
    """Do one part and write its report; return its outcome and the reason."""
    stay = Stay(request, host, part.name, part.minutes)
    try:
        made = part.function(stay)
        if request.output is not None:
            report.write(made, request.output)
    except Exception as why:  # the machine is here for minutes: whatever one part raises, the next goes on
        return FAILED, str(why) if isinstance(why, RuntimeError | ValueError) else f"{type(why).__name__}: {why}"
    return (PARTLY, "; ".join(stay.shortfalls)) if stay.shortfalls else (DONE, "")


def _foreseen(part: VisitPart, host: GpuHost) -> str:
    """Return the line that says whether a part will be done on a machine."""
    if why := part.lacks(host):
        return f"left out: {why}"
    if part.by_cores and host.cores < CORES:
        return f"{host.cores} of {CORES} cores: cases for more are left out, and processes share what there is"
    return "ready"


def _report(
    host: GpuHost, headings: Sequence[str], rows: Sequence[Sequence[str]], found: Mapping[str, PartOutcome]
) -> SuiteReport:
    smi = shutil.which("nvidia-smi")
    told = subprocess.run([smi], capture_output=True, text=True, timeout=30, check=False).stdout if smi else ""
    return SuiteReport(
        suite="gpu",
        headings=headings,
        rows=rows,
        bars={row[0]: Spread((found[row[0]].minutes if found else float(row[1]),)) for row in rows},
        unit="minutes",
        notes=(str(host), f"{sum(float(row[1]) for row in rows):g} minutes at most"),
        figures={
            **{"gpus": list(host.gpus), "torch": host.torch, "device": host.device},
            **{"nvidia_smi": told.splitlines(), "kit": read_object(KIT) or None},
        },
    )


def say(text: str) -> None:
    """Print a line on standard error and flush it, so that the log of an interrupted command shows how far it came."""
    print(text, file=sys.stderr, flush=True)
