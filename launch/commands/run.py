"""``actorlearn run`` and ``resume``: read the topology, make the run folder, and show the progress of the run.

This process becomes the supervisor of the run until it ends; ``launch/runtime/loop.py`` does this work.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from actorlearn.parameters.chosen_checkpoints import NEWEST
from launch.errors import RunError
from launch.runs import find

if TYPE_CHECKING:
    from launch.engines.specs import EngineSpec
    from launch.supervision.events import Console
    from launch.topology.load import Topology
    from launch.topology.overrides import Override

_NAME_WAIT_S = 0.1
"""Seconds between two attempts to make the folder, if another run has taken the name with the present second."""
TRIAL_S = 2.0
"""Seconds after which a line explains why nothing happens: the environment and the network are being tried."""
INTERRUPTED = "interrupted before the run began; nothing was saved"
"""Answer to Ctrl-C before the run is accepted. Afterwards the run saves and ends."""


def start(
    topology: str,
    overrides: Sequence[str],
    run_dir: Path | None,
    engine: str | None = None,
    keys: Path | None = None,
    plain: bool = False,
) -> int:
    """Run a topology in a new folder; return the exit status.

    ``engine``: name of the engine that starts the nodes; ``keys``: folder of the keys with which nodes join.
    """
    with trial() as trial_over:
        from launch.topology.load import load

        loaded, starts = load(topology, overrides), find_engine(engine)
        return run_in(new_folder(loaded.name, run_dir), loaded, starts, keys, plain=plain, trial_over=trial_over)


def resume(
    word: str,
    overrides: Sequence[str | Override],
    engine: str | None = None,
    keys: Path | None = None,
    plain: bool = False,
    at: str | int = NEWEST,
) -> int:
    """Continue the ended run that ``word`` names from a checkpoint, in its folder; return the exit status.

    ``at``: the checkpoint: "newest", "best" or its environment steps.
    """
    with trial() as trial_over:
        from launch.topology.load import load

        run = find_resumable(word, at)
        loaded, starts = load(run.path / find.TOPOLOGY_FILE, overrides), find_engine(engine)
        return run_in(run.path, loaded, starts, keys, resume_at=at, plain=plain, trial_over=trial_over)


@contextmanager
def trial() -> Iterator[Callable[[], None]]:
    """Print a line if the trial of the environment and the network takes longer than ``TRIAL_S`` or is interrupted.

    Yields a function that must be called when the trial is over.
    """
    begun = False

    def tell() -> None:
        with suppress(OSError):
            print("trying the environment and the network before the run begins", flush=True)

    timer = threading.Timer(TRIAL_S, tell)
    timer.daemon = True
    timer.start()

    def over() -> None:
        nonlocal begun
        begun = True
        timer.cancel()
        timer.join()  # so that its line comes before the next one

    try:
        yield over
    except KeyboardInterrupt:
        if not begun:
            with suppress(OSError):
                print(f"actorlearn: {INTERRUPTED}", file=sys.stderr, flush=True)
        raise
    finally:
        over()


def find_resumable(word: str, at: str | int = NEWEST) -> find.RunFolder:
    """Return the run that ``word`` names; raises RunError if it cannot be resumed from the checkpoint ``at``."""
    run = find.find(word)
    if run.alive:
        raise RunError(
            f"{run.name} is alive; `actorlearn top {run.name}` shows it, `actorlearn stop {run.name}` ends it"
        )
    if find.IMPORTED in run.meta:
        raise RunError(
            f"{run.name} was imported from another program and cannot be resumed; start a run with `actorlearn run`"
        )
    run.refuse_missing("resume from", at, None)  # None: overrides may change the mode, which decides whose it must be
    return run


def find_engine(engine: str | None) -> EngineSpec | None:
    """Return the spec of the engine with this name, or None for None; raises RunError if it cannot be imported."""
    from launch.engines.specs import ENGINES

    if engine is None:
        return None
    try:
        spec = ENGINES.spec(engine)
        spec.load()
    except ValueError as error:
        raise RunError(f"--engine: {str(error).removeprefix('engine.name: ')}") from None
    return spec


def new_folder(name: str, run_dir: Path | None, option: str = "--run-dir ") -> Path:
    """Make the folder of a run and return it; raises RunError if there is a folder that is not empty.

    ``name``: name of the run. ``run_dir``: the folder; None: runs/NAME-YYYYmmdd-HHMMSS. If another run has taken this
    name in the same second, a later second is used. ``option``: how the caller writes ``run_dir``, for errors.
    """
    folder = run_dir or find.RUNS / find.with_time(name)
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in str(folder.resolve())):
        raise RunError(
            f"{option}{str(folder)!a}: its path has control characters or bytes that are not UTF-8; name another folder"
        )
    if run_dir is not None and folder.is_dir() and any(folder.iterdir()):
        if find.read(folder) is None:
            raise RunError(f"{option}{folder}: is not empty; name a new folder")
        raise RunError(
            f"{option}{folder}: already contains a run; "
            f"continue it with `actorlearn resume {folder}`, or name a new folder"
        )
    try:
        if run_dir is not None:
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        find.RUNS.mkdir(exist_ok=True)
        while not _made(folder):
            time.sleep(_NAME_WAIT_S)
            folder = find.RUNS / find.with_time(name)
    except OSError as error:
        raise RunError(f"{option}{folder}: cannot be made: {error.strerror}; name another folder") from None
    return folder


def _made(folder: Path) -> bool:
    """Make a folder, and return False if it exists: another run was started in the same second. Raises OSError."""
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


def run_in(
    folder: Path,
    topology: Topology,
    engine: EngineSpec | None = None,
    keys: Path | None = None,
    *,
    resume_at: str | int | None = None,
    plain: bool = False,
    trial_over: Callable[[], None] = lambda: None,
) -> int:
    """Run a topology in an existing folder, and show its progress; return the exit status.

    ``resume_at``: the checkpoint from which the run in the folder is continued; None: a new run. ``trial_over``: called
    before the first line is printed. Nothing is printed before the plan is accepted, so that a refusal is one line.
    """
    screen: Console | None = None

    def show(elapsed_s: float) -> Console | None:
        nonlocal screen
        began_s = time.monotonic() - elapsed_s
        trial_over()
        with suppress(OSError):  # a closed terminal does not stop the run
            print("\n".join(opening(topology, folder, resume_at is not None)), flush=True)
            from launch.display import console
            from launch.runs.view import RunView, with_earlier_scores

            view = RunView(
                folder.absolute().name,
                topology.env.id,
                topology.total_steps,
                stop_at_steps=topology.stop_at_steps,
            )
            if resume_at is not None and (resumed := find.read(folder)):
                view = with_earlier_scores(view, resumed)
            screen = console.make(replace(view, elapsed_s=time.monotonic() - began_s), plain=plain)
        return screen

    try:
        from launch.runtime.loop import run

        return run(topology, folder, resume_at=resume_at, accepted=show, engine=engine, keys=keys)
    finally:
        close_screen(screen)


def opening(topology: Topology, folder: Path, resumed: bool = False) -> list[str]:
    """Return the first lines of a run: what is trained, where its files are, and how to watch it."""
    from launch.topology.load import in_all

    if folder.is_absolute() and folder.is_relative_to(Path.cwd()):
        folder = folder.relative_to(Path.cwd())
    word = folder.name if folder.parent == find.RUNS else str(folder)
    verb = "continue training" if resumed else "train"
    return [
        f"{folder.absolute().name}: {verb} {topology.algorithm.name} on {topology.env.id} to {topology.total_steps:,} "
        f"steps, {in_all(topology)}",
        f"files: {folder}",
        f"watch: `actorlearn top {word}`, or in a browser `actorlearn desk`; Ctrl-C saves and ends the run",
    ]


def close_screen(screen: Console | None) -> None:
    """Restore the terminal.

    If the output cannot be written, as on a closed terminal, it is sent to /dev/null instead. Otherwise the interpreter
    would fail to flush it at exit, and exit with status 120.
    """
    try:
        if screen is not None:
            screen.close()
        sys.stdout.flush()
    except OSError:
        with suppress(OSError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
