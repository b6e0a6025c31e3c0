"""Starts the guardian of a run (``guardian.py``) and its fork server early, while the command still checks the run.

Importing torch takes more than a second of processor time. The fork server (``actorlearn/processes/fork_server.py``)
imports it once, while the command reads and checks the YAML file of the run. The processes of the run are then forks of
the fork server, and need not import it again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

from actorlearn.processes.parent import FORK_SERVER, PROCESS_COMMAND, ROOM, ROOM_VARIABLE
from launch.spawning.environment import fast
from launch.spawning.guardian import START_S, Guardian, GuardianLostError

_IMPORTING_S = 0.005
"""Seconds between two checks whether the fork server has finished its imports."""

_prepared: Guardian | None = None


@contextmanager
def prepared() -> Iterator[None]:
    """Start a guardian with a fork server; both end with the ``with`` block, unless ``take`` is called in it."""
    global _prepared
    with suppress(OSError), ExitStack() as opened:  # processes are then started without a fork server
        guardian = opened.enter_context(closing(Guardian(" ".join(sys.argv[1:]))))
        guardian.prepare([*PROCESS_COMMAND, FORK_SERVER, ROOM], {**fast(1), ROOM_VARIABLE: ROOM})
        opened.pop_all()
        _prepared = guardian
    try:
        yield
    finally:
        _close()


def take() -> Guardian | None:
    """Return the guardian that `prepared` has started, once; the caller closes it. None if there is none."""
    global _prepared
    guardian, _prepared = _prepared, None
    return guardian


def wait_for_imports() -> Guardian | None:
    """Wait until the fork server of `prepared` has imported torch, for at most START_S; return its guardian.

    Return None if there is no guardian, or if it was lost.
    """
    deadline_s = time.monotonic() + START_S
    try:
        while _prepared is not None and _prepared.preparing() and time.monotonic() < deadline_s:
            time.sleep(_IMPORTING_S)
    except GuardianLostError:
        _close()
    return _prepared


def _close() -> None:
    if guardian := take():
        guardian.close()
