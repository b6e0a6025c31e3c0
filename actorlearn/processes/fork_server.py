"""The fork server: a process that imports torch once, and is then forked for each process of a run.

The imports take more than a second of processor time, while a fork takes about ten milliseconds. All forks share the
memory of the imported modules. The fork server itself never imports users' code.

The guardian (``launch/spawning/guardian.py``) sends requests on a socket. A request is one JSON object, with the file
descriptors of standard output and standard error, and is answered with the pid of the new process. The new process must
be a child of the guardian. It is therefore forked by an intermediate child, which ends at once. The kernel then makes
the guardian its parent, because the guardian is a subreaper.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from actorlearn.processes.parent import PROCESS_COMMAND, ROOM_VARIABLE

_MODULES = (
    "actorlearn.processes.trainer",
    "actorlearn.processes.simulator",
    "actorlearn.processes.inference",
    "actorlearn.processes.evaluator",
    "actorlearn.tasks.describe",
)
"""Modules that the fork server imports before the first fork; a fork imports other modules itself."""
_REQUEST_BYTES = 1 << 16
_TURN_S = 0.0005


def serve(number: int) -> list[str]:
    """Serve requests on the socket with descriptor ``number``; returns only in forks, with their arguments.

    The fork server itself ends when the guardian closes the socket. It ends before the first request if it cannot be
    forked safely.
    """
    gc.disable()  # collections take a tenth of the time of these imports, and find nothing
    for module in _MODULES:
        importlib.import_module(module)
    gc.enable()
    if len(os.listdir("/proc/self/task")) > 1 or not all(_areas()):  # a fork has only the thread that forks
        sys.exit()
    gc.collect()
    gc.freeze()  # a collection in a fork would copy the pages of all objects
    with socket.socket(fileno=number) as guardian:
        guardian.set_inheritable(False)
        guardian.send(b"{}")
        while True:
            request, streams, *_ = socket.recv_fds(guardian, _REQUEST_BYTES, 2)
            if not request:
                sys.exit()
            wanted = json.loads(request)
            pid = _fork(wanted, streams)
            if pid is None:
                sys.argv[1:] = wanted["arguments"]
                return sys.argv[1:]
            for stream in streams:
                os.close(stream)
            guardian.send(json.dumps({"pid": pid}).encode())


def _fork(wanted: dict[str, Any], streams: Sequence[int]) -> int | None:
    """Fork a grandchild by way of a child. Returns the grandchild's pid, 0 on failure, or None in the grandchild."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        intermediate = os.getpid()
        try:
            os.close(reading)
            pid = os.fork()
            if pid == 0:
                os.close(writing)
                _begin(wanted, streams, intermediate)
                return None
            os.setpgid(pid, pid)
            os.write(writing, str(pid).encode())
        finally:
            if os.getpid() == intermediate:
                os._exit(0)
    os.close(writing)
    pid_text = os.read(reading, 32)
    os.close(reading)
    os.waitpid(child, 0)
    return int(pid_text or 0)


def _begin(wanted: dict[str, Any], streams: Sequence[int], parent: int) -> None:
    """Give a fork the streams, environment, command line and parent that a newly started process would have."""
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.update(wanted["environment"])
    os.environ.pop(ROOM_VARIABLE, None)
    _show([*PROCESS_COMMAND, *wanted["arguments"]], list(wanted["environment"]))
    np.random.seed()  # as in a new process; Python's own generator is seeded anew after a fork
    while os.getppid() == parent:  # until the guardian is the parent
        time.sleep(_TURN_S)


def _areas() -> list[int]:
    """Return four addresses in memory: begin and end of the command line, begin and end of the environment.

    The kernel shows these two areas in /proc. An address is 0 if it is not known.
    """
    return [int(word) for word in Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:49]]


def _show(command: Sequence[str], first: Sequence[str]) -> None:
    """Replace the command line and the environment that /proc shows for this process.

    `ps` shows the command line, and the guardian finds processes by their environment. The environment may not fit, so
    the variables ``first`` come first.
    """
    for name, value in os.environb.items():  # moves libc's variables out of the memory that is overwritten below
        os.putenv(name, value)
    variables = {**{os.fsencode(name): b"" for name in first}, **os.environb}
    arguments, arguments_end, environment, environment_end = _areas()
    room = arguments_end - arguments
    title = os.fsencode(" ".join(command))[: room - 2] + b"\0"
    ctypes.memmove(arguments, title.ljust(room, b" "), room)  # without a zero at the end, the kernel shows one string
    room, text = environment_end - environment, b""
    for name, value in variables.items():
        entry = name + b"=" + value + b"\0"
        text += entry if len(text) + len(entry) <= room else b""
    ctypes.memmove(environment, text.ljust(room, b"\0"), room)
