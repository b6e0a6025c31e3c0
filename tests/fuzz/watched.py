"""Things that no reader of foreign bytes may do: run code, start a process, write, remove, connect, take much.

Watched by the interpreter's own audit events (PEP 578), so that a door is seen whoever opens it, C code included.
"""

from __future__ import annotations

import codecs
import os
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

RUNS_CODE = {"pickle.find_class", "marshal.loads", "exec", "import", "code.__new__", "ctypes.dlopen"}
STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.kill"}
CHANGES = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
MOVES = {"shutil.rmtree", "shutil.move", "shutil.copyfile", "shutil.copytree", "tempfile.mkstemp", "tempfile.mkdtemp"}
CONNECTS = {"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "urllib.Request"}
FORBIDDEN = RUNS_CODE | STARTS | CHANGES | MOVES | CONNECTS
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
SPARE_BYTES = 1 << 20

_watched: int | None = None
_off = False
_writable = ""
_seen: list[str] = []


class Forbidden(BaseException):
    """Something a reader must not do. No Exception, so that nobody who is watched can keep it to himself."""


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched != threading.get_ident():
        return
    if event == "open":
        path, _, flags = arguments
        wrong = isinstance(flags, int) and bool(flags & WRITES) and not (_writable and str(path).startswith(_writable))
    elif event == "compile":  # numpy reads a header by ast.literal_eval, which compiles to a tree and runs nothing
        wrong = arguments[1] != "<unknown>"
    else:
        wrong = event in FORBIDDEN
    if wrong:
        _seen.append(f"{event} {arguments!r:.200}")
        raise Forbidden(_seen[-1])


for _name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "idna"):
    codecs.lookup(_name)  # imports it: json takes bytes in any of these
sys.addaudithook(_hook)  # for good: there is no way to take one away


@contextmanager
def watched(writable: str = "") -> Iterator[None]:
    """Fail when this thread does anything forbidden in the block, though somebody has caught what was raised.

    Files whose path begins with ``writable`` may be opened for writing. Modules must have been imported before.
    """
    global _watched, _writable
    _seen.clear()
    _writable = writable
    _watched = None if _off else threading.get_ident()
    try:
        yield
    finally:
        _watched = None
    if _seen:
        raise Forbidden("; ".join(_seen))


@contextmanager
def unwatched() -> Iterator[None]:
    """Let what is watched do anything: a first time, in which modules are imported and types are looked at."""
    global _off
    _off = True
    try:
        yield
    finally:
        _off = False


def calls(read: Callable[[], object]) -> int:
    """Number of function calls, those in C included, that reading takes: time that no other process can change."""
    count = 0

    def seen(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        read()
    finally:
        sys.setprofile(None)
    return count


def peak_bytes(read: Callable[[], object]) -> int:
    """The most that reading has allocated at one time."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        read()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
