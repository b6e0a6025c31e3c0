"""The suite ``neighbours``: the training rate while other processes use the same cores, or the cores are limited.

A topology is trained alone and in all conditions of ``BESIDE`` in turn. Rates are taken from reports of two seconds
each, because a mean over a longer time would hide that training stops for a moment. ``compare`` can measure other
programs in the same conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from statistics import median
from typing import Any

from launch.bench import SuiteRequest
from launch.bench.beside import busy, rationed
from launch.bench.interleaved import Spread, interleave
from launch.bench.report import SuiteReport, percent
from launch.bench.running import Running
from launch.errors import FailedError
from launch.machine.cgroups import autogroups

REPORT_S = 2.0
"""Seconds between two reports."""
WARMUP_S = 5.0
QUOTA = 1.5
"""Processor time that the quota allows, in cores."""
OURS = "ours"
"""Name of actorlearn in the table."""
ALONE = "nothing"
"""Condition without other processes."""
RATIONED = f"a quota of {QUOTA:g} cores"
EVALUATED = "its own evaluator"
BESIDE: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    ALONE: nullcontext,
    "1 busy loop, nice 19": partial(busy, 1, 19),
    "2 busy loops, nice 19": partial(busy, 2, 19),
    "1 busy loop, nice 0": partial(busy, 1, 0),
    RATIONED: partial(rationed, QUOTA),
}
"""Name of a condition -> function that returns a context within which the condition holds."""
ALWAYS_PLAYING = ("evaluator.count=1", "evaluator.every_steps=1", "evaluator.episodes=1000")
"""Overrides with which the evaluator plays all the time: its first evaluation takes longer than the measurement."""

Beside = tuple[str, str]
"""Program, and the condition in which it is measured."""


def neighbours(request: SuiteRequest) -> SuiteReport:
    """Measure how much training slows down next to busy processes or an evaluator, and with a quota of 1.5 cores."""
    return compare("neighbours", request, {})


def compare(
    suite: str,
    request: SuiteRequest,
    programs: Mapping[str, Callable[[], Sequence[float]]],
    notes: Sequence[str] = (),
    figures: Mapping[str, Any] | None = None,
) -> SuiteReport:
    """Measure the topology of the request, and other programs, in each condition in turn; return the report.

    ``programs``: name of another program -> function that runs it and returns the steps/s of each of its reports.
    ``notes``, ``figures``: further lines and values for the report.
    """
    beside, impossible = _possible()
    notes = [*impossible, *notes]
    if autogroups():
        notes.append(
            "autogroup is on, so nice has an effect only within a session; loops and programs share one session"
        )
    if request.quick:
        beside = dict(list(beside.items())[:2])
    seen: dict[Beside, list[float]] = {}
    cases: dict[str, Callable[[], float]] = {}
    measures: dict[str, Callable[[], Sequence[float]]] = {OURS: partial(our_rates, request), **programs}
    for name, measure in measures.items():
        for what, context in beside.items():
            cases[_named((name, what))] = partial(_measured, seen, (name, what), context, measure)
    case = (OURS, EVALUATED)
    cases[_named(case)] = partial(_measured, seen, case, nullcontext, partial(our_rates, request, ALWAYS_PLAYING))
    interleave(cases, request.repetitions)
    return SuiteReport(
        suite=suite,
        headings=("program", "next to", "steps/s, median report", "ratio to alone", "worst report", "worst to alone"),
        rows=table(seen),
        bars={_named(case): Spread(tuple(rates)) for case, rates in seen.items()},
        unit="steps/s",
        notes=(
            f"each report covers {REPORT_S:g} s; alone: nothing runs next to the program; ratios are to "
            "its median report alone",
            *notes,
        ),
        figures={"topology": request.file, "overrides": list(request.overrides), **(figures or {})},
    )


def table(seen: Mapping[Beside, Sequence[float]]) -> list[tuple[str, ...]]:
    """Return a row of text for each program and condition: median and lowest rate, also in percent.

    ``seen``: the rates in all reports. 100 percent is the median of the same program in the condition ``ALONE``.
    """
    rows: list[tuple[str, ...]] = []
    for (name, what), rates in sorted(seen.items(), key=lambda item: list(seen).index((item[0][0], ALONE))):
        alone = median(seen[name, ALONE])
        shares = [percent(rate / alone) if alone else "-" for rate in (median(rates), min(rates))]
        rows.append((name, what, f"{median(rates):,.0f}", shares[0], f"{min(rates):,.0f}", shares[1]))
    return rows


def _named(case: Beside) -> str:
    name, what = case
    return f"{name}, alone" if what == ALONE else f"{name}, {what}"


def _possible() -> tuple[dict[str, Callable[[], AbstractContextManager[Any]]], list[str]]:
    """Return the conditions that are possible on this machine, and a note for each of the others."""
    try:
        with rationed(QUOTA):
            return dict(BESIDE), []
    except FailedError as error:
        return {what: made for what, made in BESIDE.items() if what != RATIONED}, [
            f"{RATIONED} is not measured: {error}"
        ]


def _measured(
    seen: dict[Beside, list[float]],
    case: Beside,
    context: Callable[[], AbstractContextManager[Any]],
    measure: Callable[[], Sequence[float]],
) -> float:
    """Measure a program in the condition ``context``; add the rates to ``seen``, and return their median."""
    with context():
        rates = measure()
    seen.setdefault(case, []).extend(rates)
    return median(rates)


def our_rates(request: SuiteRequest, overrides: Sequence[str] = ()) -> Sequence[float]:
    """Run the topology of the request, and return the environment steps/s in each report."""
    keys = (*request.overrides, *overrides)
    with Running(request.topology, keys, report_every_s=REPORT_S) as run:
        return run.read(request.seconds, WARMUP_S).rates
