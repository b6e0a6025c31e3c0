"""A visit to a machine with a GPU, in parts that can be chosen, broken off and gone on with.

Before anything starts it says which parts the machine cannot do and why. Then part by part: each keeps its measurements
as they are made, writes a report of its own, and leaves an outcome as a line; one that fails leaves its reason, and the
next goes on.
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
"""File that says which commit a kit was made from, for a working tree that came without its history."""
DONE, PARTLY, FAILED, LEFT_OUT, NOT_BEGUN = "done", "partly", "failed", "left out", "not begun"


@dataclass(frozen=True)
class PartOutcome:
    """The end of one part."""

    part: str
    device: str
    quick: bool
    state: str
    """One of the five above."""
    minutes: float = 0.0
    reason: str = ""


ALL = "all"
"""Name for all parts."""


def gpu(request: BenchmarkRequest) -> SuiteReport:
    """Do the parts that are named, ALL for all of them; with none the parts are listed."""
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
    """Return parts by name, in the order of the plan; all for none; raises RunError for a name that is none."""
    known = {part.name: part for part in PARTS}
    if unknown := [name for name in names if name not in known and name != ALL]:
        raise RunError(f"--part {unknown[0]}: gpu has no such part; choose one of {', '.join(known)}")
    return [part for part in PARTS if not names or ALL in names or part.name in names]


def do(chosen: Sequence[VisitPart], request: BenchmarkRequest, host: GpuHost) -> Mapping[str, PartOutcome]:
    """Do one part after the other, and keep the outcome of each; returns them by name.

    A part that is done in this folder is not done again; one that would not be over in time is not begun.
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
        state, reason, minutes = NOT_BEGUN, f"{left:.1f} minutes were left: the same command again goes on", 0.0
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
    """Do one part and write its report; returns state and reason."""
    stay = Stay(request, host, part.name, part.minutes)
    try:
        made = part.function(stay)
        if request.output is not None:
            report.write(made, request.output)
    except Exception as why:  # the machine is here for minutes: whatever one part raises, the next goes on
        return FAILED, str(why) if isinstance(why, RuntimeError | ValueError) else f"{type(why).__name__}: {why}"
    return (PARTLY, "; ".join(stay.shortfalls)) if stay.shortfalls else (DONE, "")


def _foreseen(part: VisitPart, host: GpuHost) -> str:
    """Say whether a part will be done on a machine."""
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
    """Tell what goes on, on standard error at once: a log of a command that was cut off ends with where it was."""
    print(text, file=sys.stderr, flush=True)
