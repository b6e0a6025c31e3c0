"""``actorlearn sweep``: trains one topology with many values of keys and many seeds, several runs at a time.

This module makes the sweep's folder and prints the result; ``launch/sweeps/loop.py`` runs the sweep. The same command
continues a sweep that was stopped or killed.
"""

from __future__ import annotations

import json as json_format
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TextIO

from rich.console import Console

from actorlearn import __version__
from actorlearn.files import write_atomically
from launch.commands.compare import WIDE
from launch.commands.desk import REPORT_FILE, report
from launch.commands.run import find_engine
from launch.errors import RunError
from launch.runs.find import META_FILE, RUNS
from launch.sweeps import table
from launch.sweeps.decisions import Listed, Population, Search
from launch.sweeps.file import Sweep, changed, in_words, read
from launch.sweeps.history import FORMAT, Begun, History
from launch.sweeps.loop import Loop
from launch.sweeps.slots import Slots, find_slots, with_simulators
from launch.sweeps.state import STATE_FILE, State
from launch.sweeps.state import read as read_history
from launch.topology.load import plain

TOPOLOGY_FILE = "base.yaml"
"""File in the sweep's folder with the topology from which all its runs start."""


def sweep(
    file: Path,
    folder: Path | None,
    check: bool,
    retry: bool,
    json: bool,
    engine: str | None = None,
    keys: Path | None = None,
) -> int:
    """Run the sweep in ``file`` to its end, or continue it; return the exit status.

    ``folder``: folder of the sweep; None: runs/NAME. ``check``: only print the trials. ``retry``: start failed runs
    again. ``engine``: engine that starts the nodes of the runs. ``keys``: folder of the keys with which nodes join.
    """
    asked = read(file)
    place = folder or RUNS / asked.name
    begun = read_history(place / STATE_FILE).begun
    asked = replace(asked, pins=begun.pins) if begun else with_simulators(asked)
    slots = find_slots(asked, place, find_engine(engine), keys)
    if check:
        return _check(asked, slots, place, json)
    with State(place) as state:
        sweep = _begin(asked, state)
        topology = place / TOPOLOGY_FILE
        write_atomically(topology, sweep.text.encode(errors="surrogateescape"))
        say = partial(_say, stream=sys.stderr if json else sys.stdout)
        say(f"{place}: {_size(sweep)}; at most {slots.at_once} at once: {slots.why}")
        loop = Loop(sweep, state, topology, slots, say)
        if retry:
            loop.retry()
        status = loop.run()
        _show(sweep, sweep.search(), state.history, place, json)
    return status


def _begin(asked: Sweep, state: State) -> Sweep:
    """Record the start of a new sweep, or continue an earlier one; raises RunError if its files have changed since.

    Return the sweep, with the values that depend on the machine as they were recorded.
    """
    begun = state.history.begun
    if begun is None:
        if others := [path.name for path in state.path.parent.iterdir() if path != state.path]:
            raise RunError(f"{state.path.parent}: contains {others[0]} but no sweep; name an empty or new --folder")
        keys = plain(asked.keys)
        state.add(Begun(format=FORMAT, version=__version__, keys=keys, topology=asked.text, pins=dict(asked.pins)))
        return asked
    way_out = f"restore it, or start another sweep with --folder (this sweep is in {state.path.parent})"
    if why := changed(begun.keys, asked.keys):
        raise RunError(f"{asked.path}: {why} since the sweep was started; {way_out}")
    if begun.topology != asked.text:
        raise RunError(f"{asked.path.parent / asked.keys.topology}: has changed since the sweep was started; {way_out}")
    return replace(asked, pins=begun.pins)  # `sweep` has read them without the lock, perhaps before the start


def _check(sweep: Sweep, slots: Slots, place: Path, json: bool) -> int:
    history = read_history(place / STATE_FILE)
    search = sweep.search()
    if json:
        trials = [dict(values) for values in search.trials] if isinstance(search, Listed) else None
        told = {"name": sweep.name, "folder": str(place), "keys": plain(sweep.keys), "trials": trials}
        print(json_format.dumps({**told, "at_once": slots.at_once, "hosts": [*slots.hosts]}))
        return 0
    if isinstance(search, Listed):
        for number, values in enumerate(search.trials):
            print(f"trial {number:>4}  {in_words(values)}")
    print(f"ok {sweep.name}: {_size(sweep)}; at most {slots.at_once} at once: {slots.why}")
    if history.begun:
        ended = _count(len(history.ended), "ended run")
        print(f"{place}: {ended}; `actorlearn sweep {sweep.path}` continues the sweep")
    return 0


def _size(sweep: Sweep) -> str:
    """Return a phrase with the number of trials and runs, or of generations and members."""
    search, seeds = sweep.search(), len(sweep.keys.seeds)
    if isinstance(search, Population):
        return f"{search.generations} generations of {seeds} members"
    trials = len(search.trials) if isinstance(search, Listed) else plain(sweep.keys)["search"]["trials"]
    each = ", each" if trials > 1 else ""
    return f"{_count(trials, 'trial')}{each} with {_count(seeds, 'seed')}: {_count(trials * seeds, 'run')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _show(sweep: Sweep, search: Search, history: History, place: Path, json: bool) -> None:
    found = table.rows(search, history, sweep.sign)
    if json:
        print(json_format.dumps({"folder": str(place), "trials": table.as_json(found)}))
        return
    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False, markup=False)
    console.print(table.table(found, sweep.keys, console.width))
    if isinstance(search, Population) and found:
        for trial in table.lineage(history, found[0].trial):
            print(f"generation {search.generation(trial.number)}: trial {trial.number}  {in_words(trial.values)}")
    runs = [str(path.parent) for path in sorted(place.glob(f"*/{META_FILE}"))]
    if not runs:
        print(f"0 runs in {place}")
        return
    print(f"{_count(len(runs), 'run')} in {place}; to compare: actorlearn compare {place}/{sweep.name}-*/")
    try:
        report(runs, sweep.keys.goal.metric, place / REPORT_FILE)
    except (ValueError, OSError) as error:  # perhaps there is nothing to show
        print(f"{place / REPORT_FILE}: cannot be written: {error}")


def _say(line: str, stream: TextIO) -> None:
    """Print a line and flush it; an error is ignored, so that a sweep goes on when its terminal is closed."""
    with suppress(OSError):
        print(line, file=stream, flush=True)
