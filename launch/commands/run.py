"""Starts what runs in this process until it is done: a new run, a resumed one, a benchmark.

Reads topologies; makes the run folder. The work itself is ``launch/runtime/loop.py`` and ``launch/bench``.
"""

from __future__ import annotations

import json as json_format
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launch.errors import FailedError, RunError
from launch.runs import find

if TYPE_CHECKING:
    from launch.supervision.events import Console
    from launch.topology.load import Topology


def start(topology: str, overrides: Sequence[str], run_dir: Path | None) -> int:
    """Run a topology in a new folder; returns the exit status."""
    from launch.topology.load import load

    loaded = load(topology, overrides)
    return _run(loaded, new_folder(loaded.name, run_dir), resume=False)


def resume(word: str, overrides: Sequence[str]) -> int:
    """Go on with a run that has ended; returns the exit status."""
    from launch.topology.load import load

    run = find.find(word)
    if run.alive:
        raise RunError(
            f"{run.name} is alive; `actorlearn top {run.name}` shows it, `actorlearn stop {run.name}` ends it"
        )
    checkpoints = run.path / "checkpoints"
    if not checkpoints.is_dir() or not any(checkpoints.iterdir()):
        raise RunError(f"{run.name} has no checkpoint to resume from; start it again with `actorlearn run`")
    return _run(load(run.path / "topology.yaml", overrides), run.path, resume=True)


def new_folder(name: str, run_dir: Path | None) -> Path:
    """Where the run's files go; the folder must be new or empty, because a run is never mixed with another."""
    folder = run_dir or find.RUNS / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    if folder.is_dir() and any(folder.iterdir()):
        if find.read(folder) is None:
            raise RunError(f"--run-dir {folder}: is not empty; name a new folder")
        raise RunError(
            f"--run-dir {folder}: holds a run already; "
            f"go on with it with `actorlearn resume {folder}`, or name a new folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"--run-dir {folder}: cannot be made: {error.strerror}; name another folder") from None
    return folder


def _run(topology: Topology, folder: Path, resume: bool) -> int:
    from launch.display import console
    from launch.runtime.loop import run

    screen = None
    try:
        with suppress(OSError):  # nobody can see it: the run goes on all the same
            screen = console.make(folder.absolute().name, topology.env.id, topology.total_steps)
        return run(topology, folder, resume=resume, console=screen)
    finally:
        _close(screen)


def _close(screen: Console | None) -> None:
    """Give the terminal back. What cannot be written any more is let go, or the interpreter would exit with 120."""
    try:
        if screen is not None:
            screen.close()
        sys.stdout.flush()
    except OSError:
        with suppress(OSError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def bench(suite: str | None, wanted: Mapping[str, Any], output: Path | None, json: bool) -> int:
    """Run a benchmark suite, or list them; returns the exit status. ``wanted`` are the fields of a Request."""
    from launch.bench import OF_RUNS, SUITES
    from launch.bench.measure import report
    from launch.bench.measure.errors import BenchError
    from launch.bench.measure.request import Request

    if suite is None:
        for name, function in SUITES.items():
            print(f"{name:<14} {(function.__doc__ or '').strip().partition(chr(10))[0]}")
        return 0
    if suite not in SUITES:
        raise RunError(f"{suite!r} is no suite: choose one of {', '.join(SUITES)}")
    try:
        topology, overrides = wanted["topology"], wanted["overrides"]
        if suite in OF_RUNS:
            words = tuple(word for word in (topology, *overrides) if word is not None)
            request = Request(**{**wanted, "topology": "", "overrides": (), "runs": words})
        else:
            topology, overrides = _to_measure(suite, topology, overrides)
            request = Request(**{**wanted, "topology": topology, "overrides": overrides})
        if output is not None:
            _make(output)
        end_in_order()
        found = SUITES[suite](request)
    except BenchError as error:
        raise FailedError(f"{suite}: {error}") from None
    if json:
        print(json_format.dumps(found.as_json()))
    else:
        report.show(found)
    if output is not None:
        try:
            report.write(found, output)
        except OSError as error:
            raise FailedError(f"-o {output}: not written: {error}; what was found stands above") from None
    return 0


def _to_measure(suite: str, topology: str | None, overrides: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Topology and overrides of a suite; what is wrong with them is said before anything is measured."""
    from launch.bench import OWN_TOPOLOGY, USUAL
    from launch.bench.measure.request import shipped
    from launch.topology.load import expand, load

    if topology is not None and "=" in topology and not Path(topology).exists():
        overrides, topology = (topology, *overrides), None
    if suite in OWN_TOPOLOGY and topology is not None:
        raise RunError(f"{suite} has topologies of its own: leave {topology!r} out")
    topology, overrides = topology or shipped(USUAL.get(suite, "pong.yaml")), tuple(expand(overrides))
    load(topology, overrides)
    return topology, overrides


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"-o {folder}: {error.strerror}; name a folder that is there or can be made") from None


def end_in_order() -> None:
    """Let SIGTERM and SIGHUP end this process as Ctrl-C does, so that what it has started is ended too."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
