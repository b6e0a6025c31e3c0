"""Checks that readers of foreign bytes run no code, start no process, write, remove and connect nothing, and are cheap.

Actions are seen by the interpreter's audit events (PEP 578), also those of C code.
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
    """A reader did what it must not do. It is no Exception, so that ``except Exception`` in a reader cannot hide it."""


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
sys.addaudithook(_hook)  # an audit hook cannot be removed


@contextmanager
def watched(writable: str = "") -> Iterator[None]:
    """Fail if this thread does anything forbidden in the block, even if the exception was caught.

    Files whose path begins with ``writable`` may be opened for writing. Modules must be imported before the block.
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
    """Allow everything in the block: for a first call, which imports modules and evaluates types."""
    global _off
    _off = True
    try:
        yield
    finally:
        _off = False


def calls(read: Callable[[], object]) -> int:
    """Return the number of function calls of a read, with those in C; unlike time it does not depend on load."""
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
    """Return the largest number of bytes that a read has allocated at one time."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        read()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
