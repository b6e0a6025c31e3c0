"""The fork server: a process that imports torch once and is then forked for each process of a run.

The imports take more than a second of processor time, a fork takes about ten milliseconds, and forks share the imported
memory. A fork becomes a child of the guardian (``launch/spawning/guardian.py``), as a process that the guardian starts
itself. For that it is the child of a child that ends at once: the guardian is a subreaper, so the kernel makes it the
parent. Each request on the socket is one JSON object with the descriptors of standard output and standard error, and
has one answer. Users' code is imported by forks only.
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
"""Modules that are imported before the first fork; other modules are imported by the forks that need them."""
_REQUEST_BYTES = 1 << 16
_TURN_S = 0.0005


def serve(number: int) -> list[str]:
    """Answer requests on the socket with this descriptor; returns in each fork, with the arguments of its request.

    In the fork server itself this ends the process: when the guardian closes the socket, or before the first request
    if the process cannot be forked safely.
    """
    for module in _MODULES:
        importlib.import_module(module)
    if len(os.listdir("/proc/self/task")) > 1 or not all(_areas()):  # a fork would have only one of the threads
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
            asked = json.loads(request)
            pid = _fork(asked, streams)
            if pid is None:
                sys.argv[1:] = asked["arguments"]
                return sys.argv[1:]
            for stream in streams:
                os.close(stream)
            guardian.send(json.dumps({"pid": pid}).encode())


def _fork(asked: dict[str, Any], streams: Sequence[int]) -> int | None:
    """Fork a grandchild; returns its pid, 0 if that failed, or in the grandchild None."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        between = os.getpid()
        try:
            os.close(reading)
            pid = os.fork()
            if pid == 0:
                os.close(writing)
                _begin(asked, streams, between)
                return None
            os.setpgid(pid, pid)
            os.write(writing, str(pid).encode())
        finally:
            if os.getpid() == between:
                os._exit(0)
    os.close(writing)
    told = os.read(reading, 32)
    os.close(reading)
    os.waitpid(child, 0)
    return int(told or 0)


def _begin(asked: dict[str, Any], streams: Sequence[int], parent: int) -> None:
    """Make a fork look and behave like a process that was started with this command and environment."""
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.update(asked["environment"])
    os.environ.pop(ROOM_VARIABLE, None)
    _show([*PROCESS_COMMAND, *asked["arguments"]], list(asked["environment"]))
    np.random.seed()  # as in a new process; Python's own generator does it by itself
    while os.getppid() == parent:  # until the guardian is the parent
        time.sleep(_TURN_S)


def _areas() -> list[int]:
    """Return begin and end of the arguments, and begin and end of the environment, in memory; 0 if not known."""
    return [int(word) for word in Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:49]]


def _show(command: Sequence[str], first: Sequence[str]) -> None:
    """Replace the command line and the environment of this process in /proc; ``first``: variables to begin with.

    `ps` shows the one, and the guardian finds processes by the other.
    """
    for name, value in os.environb.items():  # what libc has must not be in the memory that is overwritten
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
