"""Starts the supervisor of a run in a child process of the user's program, and waits until it has accepted the run.

The child runs the hidden command ``actorlearn supervise``. It has its own session, so Ctrl-C in the program does not
reach it, and it lives on when the program ends. If an error ends the child before the run begins, the child writes the
error to a pipe, and the program raises it.
"""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from launch.errors import FailedError, RunError
from launch.machine.locks import last_line
from launch.python.asked import GIVEN
from launch.runs import find
from launch.runs.find import RunFolder
from launch.topology.overrides import Override
from launch.topology.strict_yaml import ARGUMENT, Origin

LOG = "supervisor.log"
"""File of the supervisor's output, in the folder of logs."""
_LOOK_EVERY_S = 0.02
"""Seconds between two looks whether the supervisor has accepted the run."""
_MOST_BYTES = 64 * 1024
"""Most bytes of an error from the pipe."""

Process = subprocess.Popen[bytes]

_running: list[Process] = []
"""Children that have not ended, kept here because Python warns if the Popen of a living child is collected."""


def start(
    folder: Path, topology: str, overrides: Sequence[Override], resume_at: str | int | None = None
) -> tuple[RunFolder, Process]:
    """Start a run in an existing folder, wait until its supervisor accepts it, and return the run and the supervisor.

    ``topology``: path of the topology. ``resume_at``: the checkpoint from which the run in the folder is continued;
    None: a new run. Raises RunError if the request is wrong, and FailedError if the supervisor fails; no process of the
    run has then been started.
    """
    earlier = find.read(folder) if resume_at is not None else None
    before = earlier.meta.get("run_id") if earlier else None
    reads, writes = os.pipe()
    try:
        words = [str(folder), topology, *(override.text for override in overrides), "--errors", str(writes)]
        process = _spawn(folder, words, writes, resume_at)
    except BaseException:
        os.close(reads)
        raise
    finally:
        os.close(writes)
    _running[:] = [*(child for child in _running if child.poll() is None), process]
    try:
        while process.poll() is None:
            run = find.read(folder)
            # the id too: in a restarted container, an earlier supervisor may have had the same pid
            if run and run.meta.get("supervisor_pid") == process.pid and run.meta.get("run_id") != before:
                return run, process
            time.sleep(_LOOK_EVERY_S)
        run, told = find.read(folder), os.read(reads, _MOST_BYTES)
        if told or run is None or run.meta.get("run_id") == before:  # perhaps because another run uses the folder now
            raise _refusal(told, folder, process.returncode)
        return run, process  # it has ended already
    except BaseException:
        if process.poll() is None:
            process.terminate()
            process.wait()
        raise
    finally:
        os.close(reads)


def _spawn(folder: Path, words: Sequence[str], writes: int, resume_at: str | int | None) -> Process:
    log = folder / "logs" / LOG
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as out:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "actorlearn", "supervise", *words),
                *([] if resume_at is None else ["--resume-at", str(resume_at)]),
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_own_folders())},
            pass_fds=(writes,),
            start_new_session=True,
        )


def _own_folders() -> list[str]:
    """Return the import folders of this program that other programs lack, such as its script's, to pass to the run.

    Folders of the standard library and of installed packages are left out, unless they are on PYTHONPATH: the run has
    these anyway, and if they came before all others, they could hide modules.
    """
    libraries = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    shared = {Path(path).resolve() for path in (*libraries, *site.getsitepackages())}
    given = {os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    folders = dict.fromkeys(os.path.abspath(entry) for entry in sys.path if os.path.isdir(entry or "."))

    def is_shared(folder: str) -> bool:
        path = Path(folder).resolve()
        return not shared.isdisjoint((path, *path.parents))

    return [folder for folder in folders if folder in given or not is_shared(folder)]


def _refusal(told: bytes, folder: Path, status: int) -> Exception:
    try:
        answer = json.loads(told)
    except ValueError:
        said = last_line(folder / "logs" / LOG) or f"exit status {status}"
        return FailedError(f"{folder.name}: the supervisor failed: {said}")
    return RunError(answer["text"]) if answer["wrong"] else FailedError(answer["text"])


def supervise(folder: Path, topology: str, overrides: Sequence[str], errors: int, resume_at: str | int | None) -> int:
    """Run a topology in a folder, or resume the run there from a checkpoint; return the exit status.

    The child process calls this. ``errors``: descriptor of the pipe that takes an error to the user's program.
    """
    from launch.command_group import WRONG, expected_status, message
    from launch.commands import run
    from launch.topology import sources, spaces
    from launch.topology.load import parse

    os.set_inheritable(errors, False)
    given = [Override(text, Origin(ARGUMENT)) for text in overrides]
    try:
        if resume_at is not None:
            return run.resume(str(folder), given, at=resume_at)
        source = ARGUMENT if Path(topology) == folder / GIVEN else topology
        return run.run_in(folder, parse(sources.read(topology), given, source, spaces.ask))
    except Exception as error:
        if status := expected_status(error):
            with suppress(OSError):  # the program reads it only until the run begins
                told = {"wrong": status == WRONG, "text": " ".join(message(error).split())}
                os.write(errors, json.dumps(told).encode())
        raise
    finally:
        os.close(errors)
