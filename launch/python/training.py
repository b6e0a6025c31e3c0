"""``train``, ``start``, ``open`` and ``runs``: the functions of ``actorlearn`` that start and find runs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from launch.commands.run import INTERRUPTED, new_folder
from launch.errors import FailedError, RunError
from launch.machine.locks import is_locked
from launch.python import asked, child
from launch.python.asked import Asked, First
from launch.python.following import CHECKPOINT, EVALUATION, REPORT, refuse_callbacks
from launch.python.run import Callback, Run, refuse_unheard
from launch.runs import find


def start(
    env_or_topology: First,
    algorithm: str | None = None,
    *,
    total_steps: int | None = None,
    seed: int | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    **keys: Any,
) -> Run:
    """Start a run in a process of its own, and return it as soon as the run is checked and begins.

    Args:
        env_or_topology: An id of gymnasium (``"LunarLander-v3"``), the path of a topology (it ends in ``.yaml``, or is
            a ``Path``), a topology as a dict, a class of environments, or a function that makes an environment. A class
            or function may be defined in the program itself or in a notebook's cell.
        algorithm: ``algorithm.name``. Default: that of the topology, else a2c.
        total_steps: Environment steps of the run. Default: that of the topology.
        seed: Seed of everything random. Default: that of the topology.
        run_dir: Folder of the run, new or empty. Default: ``runs/NAME-YYYYmmdd-HHMMSS``.
        **keys: Any other key of a topology, as in ``**{"algorithm.horizon": 1024}``.

    The run does not end with this program; ``Run.stop`` or ``actorlearn stop`` ends it.

    Raises:
        ValueError: The request is wrong; the message is that of ``actorlearn run``. Nothing has been started then.
        RuntimeError: The supervisor failed.
        KeyboardInterrupt: Ctrl-C came before the run began. There is no run then, and its folder is removed.
    """
    return _start(_read(env_or_topology, algorithm, {"total_steps": total_steps, "seed": seed}, keys), run_dir)


def _read(first: First, algorithm: str | None, chosen: Mapping[str, Any], keys: Mapping[str, Any]) -> Asked:
    return asked.read(first, algorithm, {**{key: value for key, value in chosen.items() if value is not None}, **keys})


def _start(wanted: Asked, run_dir: str | os.PathLike[str] | None, on_evaluation: Callback | None = None) -> Run:
    try:
        return _begin(wanted, run_dir, on_evaluation)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(INTERRUPTED) from None  # without the frames of the wait for the supervisor


def _begin(wanted: Asked, run_dir: str | os.PathLike[str] | None, on_evaluation: Callback | None) -> Run:
    topology = wanted.check()
    refuse_unheard(on_evaluation, topology.evaluator.count)
    folder = new_folder(topology.name, None if run_dir is None else Path(run_dir), "run_dir=")
    try:
        found, process = child.start(folder, wanted.write(folder), wanted.overrides)
    except BaseException:
        if find.read(folder) is None and not is_locked(folder):
            shutil.rmtree(folder, ignore_errors=True)  # what is there was written for a run that has not begun
        raise
    return Run(found, process, from_start=True)


def train(  # noqa: PLR0913 - one parameter for each word that the caller may use
    env_or_topology: First,
    algorithm: str | None = None,
    *,
    total_steps: int | None = None,
    seed: int | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    progress: bool = True,
    on_report: Callback | None = None,
    on_evaluation: Callback | None = None,
    on_checkpoint: Callback | None = None,
    **keys: Any,
) -> Run:
    """Start a run as ``start`` does, show its progress, and return it when it has ended.

    Ctrl-C, or a notebook's stop button, saves and stops the run; a second one stops it at once. The run is returned in
    both cases. If a callback returns False, the run saves and stops. If a callback raises an exception, the run saves
    and stops, and the exception is raised. ``Run.wait`` describes the callbacks.

    Args:
        env_or_topology: As for ``start``, which describes the arguments up to ``run_dir``.
        algorithm: ``algorithm.name``.
        total_steps: Environment steps of the run.
        seed: Seed of everything random.
        run_dir: Folder of the run.
        progress: Whether to show a progress bar.
        on_report: Function of the run and each report.
        on_evaluation: Function of the run and each result of the evaluator; needs ``evaluator.count: 1``.
        on_checkpoint: Function of the run and each event of a saved checkpoint.
        **keys: Any other key of a topology.

    Raises:
        ValueError: The request is wrong. Nothing has been started then.
        RuntimeError: The run failed.
        KeyboardInterrupt: Ctrl-C came before the run began.
    """
    refuse_callbacks({REPORT: on_report, EVALUATION: on_evaluation, CHECKPOINT: on_checkpoint})
    wanted = _read(env_or_topology, algorithm, {"total_steps": total_steps, "seed": seed}, keys)
    run = _start(wanted, run_dir, on_evaluation)
    try:
        run.wait(progress=progress, on_report=on_report, on_evaluation=on_evaluation, on_checkpoint=on_checkpoint)
    except KeyboardInterrupt:
        _interrupt(run)
    except BaseException as error:
        try:
            _end(run)
        except FailedError as failure:
            error.add_note(str(failure))
        raise
    if run.state in ("failed", "died"):
        summary = find.RunFolder(run.folder, {}).summary()
        raise FailedError(
            f"{run.name} {run.state}: {summary.get('error') or 'the supervisor was killed'}; "
            f"`actorlearn logs {run.name}` shows the output of its processes"
        )
    return run


def open(run: str | os.PathLike[str]) -> Run:
    """Return a run, living or ended, by its folder, its name or the beginning of its name; raises RunError."""
    return Run(find.find(os.fspath(run)))


def runs(folder: str | os.PathLike[str] = find.RUNS) -> list[Run]:
    """Return all runs below a folder, and all your living runs on this machine, oldest first."""
    return [Run(found) for found in find.all_runs(Path(folder))]


def _interrupt(run: Run) -> None:
    print(f"{run.name}: saving and stopping; interrupt again to stop at once", file=sys.stderr)
    try:
        _end(run)
    except KeyboardInterrupt:
        _end(run, now=True)


def _end(run: Run, now: bool = False) -> None:
    with suppress(RunError):  # it has ended
        run.stop(now)
