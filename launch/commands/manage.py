"""The commands ``ps``, ``stop``, ``attach``, ``detach``, ``save`` and ``clean``.

They send requests to the supervisors of living runs. A signal is sent only to kill a supervisor that does not answer;
it is sent through a pidfd, so that it cannot reach another process that has got the same id since.
"""

from __future__ import annotations

import json as json_format
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from launch.errors import FailedError
from launch.machine.folders import sweep_all
from launch.reports.format import as_whole, metric_value, unlearned
from launch.runs import find
from launch.runs.client import CHANGE_S, ask
from launch.runs.find import RunFolder
from launch.runs.view import RunView, glance

NOW_S = 5.0
"""Seconds after which a supervisor that was asked to stop at once, without saving, is killed."""

WIDE = 10_000
"""Width of the table in letters if the output is not a terminal, so that nothing is wrapped or cut."""
_METRICS = {"steps": "env_steps", "steps/s": "env_steps_per_s", "score": "episode_return_mean"}
"""Heading of a column of ``ps`` -> metric."""
_WORDS = ("run", "status", "in")
"""Columns of ``ps`` that are aligned as text, not as numbers."""
_DROPPED_FIRST = ("in", "processes", "time", "steps/s")
"""Columns that ``ps`` leaves out if the terminal is narrow; ``ps --json`` has all."""


def ps(ended: bool, json: bool) -> int:
    """List the living runs, or with ``ended`` all runs; return the exit status."""
    rows = [_about(glance(run)) for run in (find.all_runs() if ended else find.living())]
    if json:
        print(json_format.dumps({"runs": rows}))
        return 0
    if not rows:
        print("no run is alive" + ("" if ended else "; `actorlearn ps --all` also lists those that have ended"))
        return 0
    console = Console(width=None if os.isatty(1) else WIDE)
    console.print(_table(rows, console))
    return 0


def _table(rows: Sequence[Mapping[str, Any]], console: Console) -> Table:
    """Return a table of runs; columns for which the terminal has no room are left out."""
    folders = [find.short(Path(row["folder"]).parent) for row in rows]
    columns = {
        "run": [row["run"] for row in rows],
        "status": [row["status"] for row in rows],
        "processes": [as_whole(row["processes"]) for row in rows],
        **{heading: [metric_value(row, name) for row in rows] for heading, name in _METRICS.items()},
        "time": [metric_value(row, "time_s") for row in rows],
        "in": folders if set(folders) != {str(find.RUNS)} else [],
    }
    columns = {heading: cells for heading, cells in columns.items() if cells}
    for heading in _DROPPED_FIRST:
        if sum(1 + max(map(len, (name, *cells))) for name, cells in columns.items()) > console.width:
            columns.pop(heading, None)
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for heading in columns:
        table.add_column(heading, justify="left" if heading in _WORDS else "right", no_wrap=True)
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*map(escape, cells))
    return table


def _about(view: RunView) -> dict[str, Any]:
    return {
        "run": view.name,
        "folder": str(view.folder),
        "status": view.status,
        "processes": None if view.processes is None else len(view.processes),
        "supervisor_pid": None if view.has_ended else view.meta.get("supervisor_pid"),
        **{name: view.final(name) for name in _METRICS.values()},
        "time_s": view.elapsed_s,
    }


def stop(word: str, now: bool, timeout_s: float, json: bool) -> int:
    """Stop a run, wait until it has ended, and print its status; return the exit status."""
    run = find.find_living(word)
    began_s = time.monotonic()
    status = end(run, now, timeout_s)
    took_s = time.monotonic() - began_s
    if json:
        print(json_format.dumps({"run": run.name, "status": status, "seconds": round(took_s, 3)}))
    else:
        said = unlearned(run.summary())
        print(f"{run.name}: {status} after {took_s:.1f} s{f', {said}' if said else ''}")
    return 0


def end(run: RunFolder, now: bool, timeout_s: float) -> str:
    """Stop a living run, wait until it has ended, and return its status, or "killed" if it had to be killed.

    ``now``: stop without saving, and kill a run that does not answer. Otherwise FailedError is raised if the run is
    still alive after ``timeout_s``.
    """
    if now:
        return run.status if _stop_now(run) else "killed"
    ask(run, "stop")
    if not _wait(run, timeout_s):
        raise FailedError(
            f"{run.name} is still running {timeout_s:g} s after it was told to stop; "
            f"wait for it with `actorlearn top {run.name}`, or use `actorlearn stop {run.name} --now`"
        )
    return run.status


def _stop_now(run: RunFolder) -> bool:
    """Ask a run to end at once, and kill its supervisor if it does not; return False if it was killed."""
    with suppress(FailedError):  # the run may be ending already; a supervisor that is stuck is killed below
        ask(run, "kill", timeout_s=NOW_S / 2)
    if _wait(run, NOW_S):
        return True
    _kill(run)
    _wait(run, NOW_S)
    sweep_all()  # only memory and sockets are left: the guardian has ended the other processes
    return False


def _kill(run: RunFolder) -> None:
    try:
        handle = os.pidfd_open(int(run.meta["supervisor_pid"]))
    except ProcessLookupError:
        return
    try:
        if run.alive:  # checked after the handle was taken: it is this process, not a later one with its id
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)


def _wait(run: RunFolder, timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while run.alive:
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(0.05)
    return True


def change(word: str, command: str, json: bool, **request: Any) -> int:
    """Send the request ``command`` ("attach", "detach" or "save") to a living run, and print its reply.

    Return the exit status. ``request``: the arguments of the command, fields of `Request`.
    """
    run = find.find_living(word)
    reply = ask(run, command, timeout_s=CHANGE_S, **request)
    if json:
        print(json_format.dumps({"run": run.name, "text": reply.text, **reply.data}))
    else:
        print(f"{run.name}: {reply.text}")
    return 0


def clean(json: bool) -> int:
    """Remove the shared memory and the sockets that dead runs have left; return the exit status."""
    swept, sockets = sweep_all()
    if json:
        print(json_format.dumps({"shared_memory": swept, "sockets": sockets}))
        return 0
    for what, run_ids in (("shared memory", swept), ("sockets", sockets)):
        for run_id in run_ids:
            print(f"removed the {what} of {run_id}")
    if not swept and not sockets:
        print("nothing to remove")
    return 0
