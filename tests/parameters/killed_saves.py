"""Kills saves of checkpoints: `python -m tests.parameters.killed_saves <scenario> <how> <folder>`.

Each save runs in a forked child, which is killed one step later than the one before, until a save completes. A step
is a file operation of Python with `operations`, and a system call, also of safetensors, with `strace`. Prints JSON:
the number of kills, in all and by kind of step, after how many the old or the new checkpoint was found, and the first
error, or null.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from actorlearn import files
from actorlearn.parameters import checkpoint, checkpoint_folders

OPERATIONS = "any"
SYSTEM_CALLS = (
    *("openat", "write", "pwrite64", "ftruncate", "fsync", "fdatasync", "close", "fchmod", "chmod"),
    *("rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir"),
)
EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir"}
PR_SET_PTRACER, ANYBODY = 0x59616D61, ctypes.c_ulong(-1)
SCENARIOS = {"next": (30, [20, 30]), "again": (20, [10, 20]), "again-without-exchange": (20, [10, 20])}
"""Steps of the save, and the checkpoints there are after it; before it there are those at 10 and at 20."""


def save(directory: Path, env_steps: int, number: int) -> None:
    def more(folder: Path) -> dict[str, Any]:
        (folder / "frame.npy").write_bytes(bytes([number]) * 3000)
        return {"replay": number}

    tensors = {"weights.a": torch.full((100,), float(number)), "optimizer.m": torch.arange(4.0)}
    checkpoint.save(directory, env_steps, tensors, {"updates": number}, keep=2, more=more)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def by_operations(_any: str, step: int, work: Callable[[], None]) -> bool:
    """Do the work in a child that is killed before its n-th operation; return whether it was killed."""
    pid = os.fork()
    if not pid:
        left = step

        def count(event: str, _arguments: object) -> None:
            nonlocal left
            if event not in EVENTS:
                return
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        for name in ("exchange", "flush"):
            before = getattr(files, name)
            for module in (files, checkpoint, checkpoint_folders):
                if hasattr(module, name):
                    setattr(module, name, lambda *paths, did=before: (count("os.rename", ()), did(*paths))[1])
        sys.addaudithook(count)
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0


def by_strace(call: str, step: int, work: Callable[[], None]) -> bool:
    """Do the work in a child that is killed on entering a system call the n-th time; return whether it was killed."""
    ready, go = os.pipe()
    pid = os.fork()
    if not pid:
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANYBODY, 0, 0, 0)
        os.read(ready, 1)
        work()
        os._exit(0)
    inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={step}"]
    command = ["strace", "-f", "-o", os.devnull, *inject, "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        said = tracer.stderr.readline()
        if "attached" not in said:
            os.kill(pid, signal.SIGKILL)
            sys.exit(f"the child cannot be traced: {said}")
        os.write(go, b"x")
        died = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0
    os.close(ready)
    os.close(go)
    return died


def judge(directory: Path, allowed: dict[str, dict[str, bytes]]) -> str:
    """Return which of the allowed checkpoints the newest one is."""
    found = contents(checkpoint_folders.newest(directory).path)
    return next(name for name, content in allowed.items() if content == found)


def main(scenario: str, how: str, folder: Path) -> dict[str, Any]:
    env_steps, after = SCENARIOS[scenario]
    if scenario == "again-without-exchange":
        files.libc = object()
    kinds, kill = {"operations": ((OPERATIONS,), by_operations), "strace": (SYSTEM_CALLS, by_strace)}[how]
    template, place = folder / "template", folder / "checkpoints"
    for steps in (10, 20):
        save(template, steps, steps)
    save(folder / "reference", env_steps, 99)
    new = {"new": contents(folder / "reference" / f"{env_steps:012d}")}
    either = {"old": contents(template / "000000000020"), **new}
    counts: dict[str, Any] = {"killed": 0, "old": 0, "new": 0, "by": {}, "wrong": None}
    for kind in kinds:
        counts["by"][kind] = 0
        died = True
        while died:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(template, place)
            died = kill(kind, counts["by"][kind] + 1, lambda: save(place, env_steps, 99))
            counts["killed"] += died
            counts["by"][kind] += died
            try:
                found = judge(place, either if died else new)
                counts[found] += died
                save(place, env_steps, 99)  # by the next process, which removes what the other left
                assert judge(place, new) == "new"
                assert [int(path.name) for path in sorted(place.iterdir())] == after
            except Exception as error:
                there = sorted(str(path.relative_to(place)) for path in place.rglob("*"))
                counts["wrong"] = f"{kind} {counts['by'][kind]}: {type(error).__name__} {error}; there are {there}"
                return counts
    return counts


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
