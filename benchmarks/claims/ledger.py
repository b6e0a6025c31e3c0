"""The ledger: committed files with the last measurement of each claim.

An entry is ``NAME.json`` (the command, and the suite's report with machine and commit), ``NAME.csv`` (learning curves,
if there are any), ``NAME.png`` and the page ``NAME.md``. Comparisons and the verdict follow from the report; they
are not in the JSON: ``python -m benchmarks pages`` computes them for all entries and writes pages and tables.
"""

from __future__ import annotations

import csv
import io
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from actorlearn.files import write_atomically
from benchmarks.claims import CLAIMS
from benchmarks.claims.claim import Claim, Comparison, SuiteResult
from benchmarks.registry import MEASURING
from benchmarks.request import BenchmarkRequest, shipped
from launch.bench.report import SuiteReport, draw
from launch.bench.seed_table import draw as draw_seeds
from launch.commands.bench import make_folder
from launch.errors import FailedError, RunError
from launch.topology import sources, strict_yaml
from launch.topology.defaults import resolve, section
from launch.topology.overrides import apply, expand

LEDGER = Path(__file__).parents[1] / "results" / "ledger"
"""Folder of the committed entries."""
KEPT = "runs"
"""Folder in which suites keep single runs, so that a longer measurement can use them; it is not committed."""


class LedgerEntry(msgspec.Struct, frozen=True):
    """The last measurement of a claim."""

    claim: str
    command: str
    date: str
    """The day of the measurement, such as 2026-11-23."""
    repetitions: int
    seconds: float
    keys: tuple[str, ...]
    report: dict[str, Any]
    """The suite's report, with machine, versions and commit."""

    @property
    def found(self) -> SuiteResult:
        """The report in the form that comparisons read."""
        return SuiteResult(self.report)

    @property
    def comparisons(self) -> Sequence[Comparison]:
        """The comparisons of the measurement with the paper."""
        return CLAIMS[self.claim].comparisons(self.found)

    @property
    def verdict(self) -> str:
        """The verdict on the claim."""
        return CLAIMS[self.claim].verdict(self.found)

    @property
    def reason(self) -> str:
        """Why the verdict is not *reproduced*; "" if it is."""
        return CLAIMS[self.claim].reason(self.found)

    @property
    def hours(self) -> float:
        """Hours of the measurement; for old entries, which lack them, an upper bound."""
        if "hours" in self.report:
            return float(self.report["hours"])
        if "steps_per_s" in self.report:
            rates = [rate for spread in self.report["steps_per_s"].values() for rate in spread["values"]]
            return float(sum(self.report["steps"] / rate for rate in rates)) / 3600
        return self.seconds * sum(len(spread["values"]) for spread in self.report["bars"].values()) / 3600


def claim_of(name: str) -> Claim:
    """Return the claim with this name; raises RunError if there is none."""
    if name not in CLAIMS:
        raise RunError(f"{name!r} is no claim: choose one of {', '.join(CLAIMS)}")
    return CLAIMS[name]


def request_of(
    claim: Claim,
    quick: bool,
    output: Path | None = None,
    overrides: Sequence[str] = (),
    repetitions: int | None = None,
) -> BenchmarkRequest:
    """Return the request for the claim's suite; ``repetitions`` replaces the claim's number of repetitions.

    Raises RunError if the claim cannot judge the scores of the environment.
    """
    suite, extent = MEASURING[claim.suite], claim.quick if quick else claim.whole
    topology = claim.topology or suite.topology
    request = BenchmarkRequest(
        topology=shipped(topology or "pong.yaml"),
        overrides=(*(suite.keys if topology == suite.topology else ()), *extent.keys, *overrides),
        repetitions=repetitions or extent.repetitions,
        seconds=extent.seconds,
        output=output,
    )
    env = _env(request)
    if claim.envs is not None and env not in claim.envs:
        raise RunError(
            f"env.id={env!r}: {claim.name} cannot judge the scores of this game: choose one of {', '.join(claim.envs)}"
        )
    return replace(request, score=claim.score[env]) if claim.score else request


def _env(request: BenchmarkRequest) -> str:
    """Return the id of the environment that a request asks for."""
    return str(section(_given(request), "env").get("id"))


def _gpus(claim: Claim, request: BenchmarkRequest) -> int:
    """Return the number of GPUs that a measurement uses: all trainers share a device, and so do all inference servers.

    A machine may have more.
    """
    given = _given(request)
    devices = {given[section]["device"] for section in claim.computing if given[section].get("count") != 0}
    return len({"cuda:0" if device == "cuda" else device for device in devices} - {"cpu"})


def _given(request: BenchmarkRequest) -> dict[str, Any]:
    """Return the topology with the overrides as plain values, unchecked: a suite may set other keys beside them."""
    values, _ = strict_yaml.read_mapping(sources.read(request.topology), request.topology)
    for override in expand(request.overrides):
        apply(override, values, {})
    return resolve(values)


def reproduce(
    claim: Claim,
    quick: bool,
    output: Path | None,
    overrides: Sequence[str] = (),
    repetitions: int | None = None,
) -> tuple[LedgerEntry, SuiteReport]:
    """Measure a claim with its suite, and return the entry; ``output``: folder in which single runs are kept.

    The first seed is drawn from the clock, unless the overrides have one. Each repetition has the next seed. The
    command of the entry contains it. Raises RunError if the claim cannot judge the scores of the environment.
    """
    kept = output / KEPT if output is not None else None
    request = request_of(claim, quick, kept, overrides, repetitions)
    if kept is not None:
        make_folder(kept)
    if not any(override.startswith("seed=") for override in overrides):
        seed = f"seed={_first_seed(claim, kept)}"
        overrides, request = (*overrides, seed), replace(request, overrides=(*request.overrides, seed))
    began = monotonic()
    report = MEASURING[claim.suite].load()(request)
    said: dict[str, Any] = json.loads(json.dumps(report.as_json()))
    said |= {"env": _env(request), "gpus": _gpus(claim, request), "hours": (monotonic() - began) / 3600}
    entry = LedgerEntry(
        claim=claim.name,
        command=" ".join(
            [
                "python -m benchmarks reproduce",
                claim.name,
                *map(shlex.quote, overrides),
                *(["--quick"] if quick else []),
                *([f"--repetitions {repetitions}"] if repetitions else []),
            ]
        ),
        date=datetime.now(UTC).date().isoformat(),
        repetitions=request.repetitions,
        seconds=request.seconds,
        keys=request.overrides,
        report=said,
    )
    return entry, report


def _first_seed(claim: Claim, kept: Path | None) -> int:
    """Return the seed that an earlier command drew for this folder, so that its runs can be used; else draw one."""
    file = kept / f"{claim.name}.seed" if kept is not None else None
    if file is not None and file.is_file():
        return int(file.read_text())
    seed = draw_seeds(1)[0]
    if file is not None:
        write_atomically(file, f"{seed}\n".encode())
    return seed


def as_json(entry: LedgerEntry) -> dict[str, Any]:
    """Return an entry with its comparisons and verdict as plain values."""
    comparisons = [
        {
            **{"what": one.what, "paper": one.paper, "here": one.said, "holds": one.outcome, "number": one.number},
            **{name: None if math.isinf(value) else value for name, value in asdict(one.here).items()},
        }
        for one in entry.comparisons
    ]
    judged: dict[str, Any] = {"verdict": entry.verdict, "reason": entry.reason, "comparisons": comparisons}
    return {**msgspec.to_builtins(entry), **judged}


def judged(claim: Claim, entry: LedgerEntry) -> SuiteReport:
    """Return the comparisons of an entry as a table for the terminal."""
    return SuiteReport(
        suite=f"{claim.name}: {entry.verdict}",
        headings=("", "in the paper", "here", "holds"),
        rows=[(one.what, one.paper, one.said, one.outcome) for one in entry.comparisons],
        notes=(
            *([entry.reason] if entry.reason else []),
            f"{claim.paper}, {claim.part}: {claim.says}",
            f"In place of the paper's: {claim.differs}",
        ),
    )


def write(entry: LedgerEntry, report: SuiteReport, folder: Path) -> None:
    """Write an entry's JSON, its curves and its picture; raises FailedError."""
    try:
        text = json.dumps(msgspec.to_builtins(entry), indent=1)
        write_atomically(folder / f"{entry.claim}.json", f"{text}\n".encode())
        if report.curves:
            write_atomically(folder / f"{entry.claim}.csv", _csv(report).encode())
        if report.curves or report.bars or report.picture:
            draw(report, folder / f"{entry.claim}.png")
    except OSError as error:
        raise FailedError(f"-o {folder}: cannot be written: {error}; the results are printed above") from None


def _csv(report: SuiteReport) -> str:
    """Return the points of all learning curves as CSV, one on each line."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("run", "env_steps", "minutes", "score"))
    for curve in report.curves:
        lines.writerows(
            (curve.label, f"{steps:.0f}", f"{minutes:.4g}", f"{score:.4g}") for steps, minutes, score in curve.points
        )
    return text.getvalue()


def read(folder: Path = LEDGER) -> Mapping[str, LedgerEntry]:
    """Return the entries of a folder, in the order of the claims."""
    return {
        name: msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=LedgerEntry)
        for name in CLAIMS
        if (folder / f"{name}.json").is_file()
    }
