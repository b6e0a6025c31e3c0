"""``actorlearn run`` and ``resume``: run a topology in this process until the run ends.

Reads topologies; makes the run folder. ``launch/runtime/loop.py`` does the work.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from actorlearn.parameters.chosen_checkpoints import NEWEST
from launch.errors import RunError
from launch.runs import find

if TYPE_CHECKING:
    from launch.engines.specs import EngineSpec
    from launch.supervision.events import Console
    from launch.topology.load import Topology

TOPOLOGY = "topology.yaml"
"""File of the resolved topology in the folder of a run."""
_NAME_WAIT_S = 0.1
"""Seconds between two looks at the time, while the name of a new folder is taken."""
TRIAL_S = 2.0
"""Seconds without output after which a line says that the environment and the network are being tried."""


def start(
    topology: str,
    overrides: Sequence[str],
    run_dir: Path | None,
    engine: str | None = None,
    keys: Path | None = None,
    plain: bool = False,
) -> int:
    """Run a topology in a new folder; return the exit status."""
    from launch.topology.load import load

    with slow_trial_told() as trial_over:
        loaded, starts = load(topology, overrides), find_engine(engine)
        return run_in(new_folder(loaded.name, run_dir), loaded, starts, keys, plain=plain, trial_over=trial_over)


def resume(
    word: str,
    overrides: Sequence[str],
    engine: str | None = None,
    keys: Path | None = None,
    plain: bool = False,
    at: str | int = NEWEST,
) -> int:
    """Continue a run that has ended; return the exit status."""
    from launch.topology.load import load_saved

    run = find_resumable(word, at)
    with slow_trial_told() as trial_over:
        loaded, starts = load_saved(run.path / TOPOLOGY, overrides), find_engine(engine)
        return run_in(run.path, loaded, starts, keys, resume_at=at, plain=plain, trial_over=trial_over)


@contextmanager
def slow_trial_told() -> Iterator[Callable[[], None]]:
    """Print a line if the trial of the environment takes longer than TRIAL_S; yields a function to call at its end."""

    def tell() -> None:
        with suppress(OSError):
            print("trying the environment and the network before the run begins", flush=True)

    timer = threading.Timer(TRIAL_S, tell)
    timer.daemon = True
    timer.start()

    def over() -> None:
        timer.cancel()
        timer.join()  # so that its line comes before the next one

    try:
        yield over
    finally:
        over()


def find_resumable(word: str, at: str | int = NEWEST) -> find.RunFolder:
    """Return a run that has ended and can be resumed from this checkpoint; raises RunError."""
    run = find.find(word)
    if run.alive:
        raise RunError(
            f"{run.name} is alive; `actorlearn top {run.name}` shows it, `actorlearn stop {run.name}` ends it"
        )
    if find.IMPORTED in run.meta:
        raise RunError(
            f"{run.name} was imported from another program and cannot be resumed; start a run with `actorlearn run`"
        )
    if not run.checkpoints():
        raise RunError(f"{run.name} has no checkpoint to resume from; start it again with `actorlearn run`")
    run.refuse_missing(at)
    return run


def find_engine(engine: str | None) -> EngineSpec | None:
    """Return the spec of an engine that can be imported, None without an engine; raises RunError."""
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
    """Make the run folder; raises RunError unless it is new or empty, because two runs never share a folder.

    Without ``run_dir`` its name has the time, and a name that another run has taken is followed by that of a later
    second. ``option``: how the caller writes ``run_dir``, for errors.
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
    """Run a topology in a folder that has been made, and show it; return the exit status.

    Nothing is shown before the topology is accepted, so that a refusal is one line. ``resume_at``: the checkpoint from
    which the run in the folder is continued; None: a new run. ``trial_over`` is called before the first line.
    """
    screen: Console | None = None

    def show() -> Console | None:
        nonlocal screen
        trial_over()
        with suppress(OSError):  # a closed terminal does not stop the run
            print("\n".join(opening(topology, folder, resume_at is not None)), flush=True)
            from launch.display import console
            from launch.runs.view import RunView

            view = RunView(folder.absolute().name, topology.env.id, topology.total_steps)
            screen = console.make(view, plain=plain)
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
    """Restore the terminal. Output that cannot be written is dropped; else the interpreter would exit with 120."""
    try:
        if screen is not None:
            screen.close()
        sys.stdout.flush()
    except OSError:
        with suppress(OSError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
