"""The suite ``neighbours``: training rates beside other busy processes, under a quota, and beside an evaluator.

Ours, one plain loop and Stable-Baselines3's A2C on the same work, each alone and with everything that ``BESIDE`` lists,
interleaved. Steps are counted in reports of two seconds: a mean would hide that a program stands still now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from launch.bench.measure.beside import busy, rationed
from launch.bench.measure.interleaved import Spread, interleave
from launch.bench.measure.report import Report, percent
from launch.bench.measure.request import Request
from launch.bench.measure.running import Running
from launch.bench.peers.compare import Peer, answer, environment, packages
from launch.errors import FailedError
from launch.machine.cgroups import autogroups
from launch.machine.cores import Cores
from launch.plan.auto import choose, cpu_flags
from launch.topology.load import Topology, load

REPORT_S = 2.0
"""Length of a report; the peers' scripts count in the same (peers/scripts/windows.py)."""
WARMUP_S = 5.0
QUOTA = 1.5
"""Cores."""
OURS = "ours"
ALONE = "nothing"
RATIONED = f"a quota of {QUOTA:g} cores"
EVALUATED = "its own evaluator"
BESIDE: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    ALONE: nullcontext,
    "1 busy loop, nice 19": partial(busy, 1, 19),
    "2 busy loops, nice 19": partial(busy, 2, 19),
    "1 busy loop, nice 0": partial(busy, 1, 0),
    RATIONED: partial(rationed, QUOTA),
}
"""Name of a neighbour -> the context in which it is there."""
ALWAYS_PLAYING = ("evaluator.count=1", "evaluator.every_steps=1", "evaluator.episodes=1000")
"""Games enough that none of the evaluations is over before the measurement."""
GAME = "ALE/Pong-v5"
"""Game that the peers play."""
NETWORKS = ("nips", "nature")

Case = tuple[str, str]
"""Program, and what is beside it."""


def neighbours(request: Request) -> Report:
    """Training rates beside busy loops, a quota of 1.5 cores and its own evaluator; peers on the same work."""
    cores = Cores.here()
    chosen, _ = choose(load(request.topology, request.overrides), cpu_flags(), cores)
    beside, notes = _possible()
    if autogroups():
        notes.append("autogroup is on: loops and programs are of one session; nice counts for nothing between sessions")
    if request.quick:
        beside = dict(list(beside.items())[:2])
    theirs = peers_of(chosen, cores.allowed)
    pythons, absent = _installed(theirs)
    if not theirs:
        notes.append(f"only ours: the peers play {GAME} by a2c with {' or '.join(NETWORKS)}")
    elif absent:
        notes.append(f"only ours: {absent}")
        theirs = {}
    else:
        notes.append(f"ours and the plain loop learn in {chosen.trainer.precision}, Stable-Baselines3 in fp32")
    programs = {name: partial(their_rates, pythons[peer.environment], peer, request) for name, peer in theirs.items()}
    seen: dict[Case, list[float]] = {}
    cases: dict[str, Callable[[], float]] = {}
    for name, measure in {OURS: partial(our_rates, request), **programs}.items():
        for what, context in beside.items():
            cases[_named((name, what))] = partial(_measured, seen, (name, what), context, measure)
    case = (OURS, EVALUATED)
    cases[_named(case)] = partial(_measured, seen, case, nullcontext, partial(our_rates, request, ALWAYS_PLAYING))
    interleave(cases, request.repetitions)
    return Report(
        suite="neighbours",
        headings=("program", "beside it", "steps/s, median report", "of alone", "worst report", "of alone, worst"),
        rows=table(seen),
        bars={_named(case): Spread(tuple(rates)) for case, rates in seen.items()},
        unit="steps/s",
        notes=(f"reports of {REPORT_S:g} s; of alone: of the median report with nothing beside it", *notes),
        figures={
            "topology": request.file,
            "overrides": list(request.overrides),
            "peers": {name: packages(python) for name, python in pythons.items()},
        },
    )


def peers_of(topology: Topology, cores: int) -> dict[str, Peer]:
    """Return the other programs that do a topology's work, by name; none where they do not play its game."""
    s, network, precision = topology.simulators, topology.model.name, topology.trainer.precision
    if topology.env.id != GAME or network not in NETWORKS or topology.algorithm.name != "a2c":
        return {}
    work = (str(s.environments), str(topology.algorithm.horizon))
    return {
        "plain loop": Peer("loops", "loop_a2c.py", (*work, "ale", network, precision, str(cores)), OURS),
        "Stable-Baselines3": Peer("sb3", "sb3_a2c.py", (*work, "nips" if network == "nips" else "default"), OURS),
    }


def _installed(theirs: Mapping[str, Peer]) -> tuple[dict[str, Path], str]:
    """Pythons of the peers' environments; none where one is not installed, and how to install it."""
    try:
        return {peer.environment: environment(peer.environment) for peer in theirs.values()}, ""
    except FailedError as absent:
        return {}, str(absent)


def table(seen: Mapping[Case, Sequence[float]]) -> list[tuple[str, ...]]:
    """Return a line per case: the median and the worst report, and both as shares of the program's median alone."""
    rows: list[tuple[str, ...]] = []
    for (name, what), rates in sorted(seen.items(), key=lambda item: list(seen).index((item[0][0], ALONE))):
        alone = median(seen[name, ALONE])
        shares = [percent(rate / alone) if alone else "-" for rate in (median(rates), min(rates))]
        rows.append((name, what, f"{median(rates):,.0f}", shares[0], f"{min(rates):,.0f}", shares[1]))
    return rows


def _named(case: Case) -> str:
    name, what = case
    return f"{name}, alone" if what == ALONE else f"{name}, {what}"


def _possible() -> tuple[dict[str, Callable[[], AbstractContextManager[Any]]], list[str]]:
    """Return the neighbours that can be made here, and a note for each that cannot."""
    try:
        with rationed(QUOTA):
            return dict(BESIDE), []
    except FailedError as error:
        return {what: made for what, made in BESIDE.items() if what != RATIONED}, [f"without {RATIONED}: {error}"]


def _measured(
    seen: dict[Case, list[float]],
    case: Case,
    context: Callable[[], AbstractContextManager[Any]],
    measure: Callable[[], Sequence[float]],
) -> float:
    """Add a case's reports to those that were seen; returns their median."""
    with context():
        rates = measure()
    seen.setdefault(case, []).extend(rates)
    return median(rates)


def our_rates(request: Request, overrides: Sequence[str] = ()) -> Sequence[float]:
    """Steps a second of our own run, by report."""
    keys = (*request.overrides, *overrides)
    with Running(request.topology, keys, report_every_s=REPORT_S) as run:
        return run.read(request.seconds, WARMUP_S).rates


def their_rates(python: Path, peer: Peer, request: Request) -> Sequence[float]:
    """Steps a second of a peer's program, by window."""
    rates = [float(rate) for rate in answer(python, peer, request.seconds)["windows"]]
    if not rates:
        raise FailedError(f"{peer.script}: no update ended in time; give it more than --seconds {request.seconds:g}")
    return rates
