"""``actorlearn desk`` serves runs to a browser as they change; ``actorlearn report`` writes them to one HTML file."""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from actorlearn.files import write_atomically
from launch.desk.report import page
from launch.desk.stream import Overview
from launch.desk.watched import WatchedRuns
from launch.errors import RunError
from launch.runs.find import describe_found, find_all, output_of

_PACKAGES = ("starlette", "uvicorn")
_TOKEN_BYTES = 24
REPORT_FILE = "report.html"
"""Name of a report in the folder of its run or sweep."""
_M_ARENA_MAX = -8
"""Parameter of mallopt(3)."""


def desk(folder: Path, port: int, changes: bool) -> int:
    """Print the desk's address, and serve its pages until Ctrl-C; return the exit status.

    ``folder``: folder of runs. ``changes``: whether pages may change runs.
    """
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        raise RunError(f"desk needs {' and '.join(missing)}: pip install 'actorlearn[desk]'")
    from launch.desk.server import HOST, listen, serve

    _share_one_heap()
    runs = WatchedRuns(folder)
    Overview(runs).changed()  # reads in advance what the first page requests
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    with listen(port) as listening:
        print(f"http://{HOST}:{listening.getsockname()[1]}/?token={token}", flush=True)
        serve(runs, listening, token, changes)
    return 0


def _share_one_heap() -> None:
    """Make all threads allocate from one heap, because glibc's heaps for each thread keep freed memory.

    With a heap for each thread, the memory of a desk grew by 6 MB in an hour.
    """
    with suppress(AttributeError, OSError):  # another C library has no mallopt
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def report(words: Sequence[str], column: str, output: Path | None) -> int:
    """Write one HTML file about the runs that ``words`` name; return the exit status. Raises OSError.

    ``column``: metric of the curves. ``output``: the file; None: the default of `actorlearn report`.
    """
    found, left_out = find_all(words)
    runs = list({run.path: run for run in found}.values())
    for line in filter(None, [describe_found(words, runs), left_out]):
        print(line)
    output = output or output_of(runs, REPORT_FILE)
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(output, page(runs, column).encode())
    print(f"wrote {output}")
    return 0
