"""``actorlearn doctor``: checks this machine for problems that would hinder a run, and gives remedies.

It checks limits, memory, /dev/shm, the scheduler, library versions and plug-ins, and changes nothing. Child processes
import torch and change their own scheduling class.
"""

from __future__ import annotations

import json as json_format
import os
import platform
import re
import resource
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table
from rich.text import Text

from actorlearn.algorithms.settings import ALGORITHMS
from actorlearn.envs.specs import ENVIRONMENTS
from actorlearn.imports import own_extra
from actorlearn.memory.progress import ROWS as MOST_PROCESSES
from actorlearn.memory.shared import SHM_ROOT
from actorlearn.metrics.energy import Energy
from actorlearn.metrics.specs import WRITERS
from actorlearn.models.specs import MODELS
from actorlearn.optim.specs import OPTIMIZERS
from actorlearn.parameters.modes import MODES
from actorlearn.registry import PlugIns
from actorlearn.wire import MINIMUM_LIBZMQ
from actorlearn.worker.roles import ROLES
from launch.engines.specs import ENGINES
from launch.machine.cgroups import autogroups
from launch.machine.cores import Cores
from launch.machine.folders import longest_root
from launch.machine.gpus import TORCH_AND_GPUS
from launch.plan.memory_order import disorder
from launch.reports.format import as_bytes
from launch.spawning.answers import NoAnswerError, ask

OK, WARN, STOP = "ok", "warn", "stop"
"""Verdicts; STOP: a run could not start."""
REGISTRIES: tuple[PlugIns[Any], ...] = (
    *(ALGORITHMS, MODELS, OPTIMIZERS, ENVIRONMENTS),
    *(WRITERS, MODES, ROLES, ENGINES),
)
_COLOURS = {OK: "green", WARN: "yellow", STOP: "bold red"}

_EEVDF, _SLICES = (6, 6), (6, 12)  # first Linux version with each
_FILES_A_PROCESS = 8  # the supervisor's log, pidfd and pipes for each child, with a margin
_SMALL_SHM = 256 * 1024**2  # PAAC on Atari needs 60 to 130 MiB; docker gives 64 MiB by default
_TIMEOUT_S = 60.0
_UNWRAPPED = 10_000
"""Columns of the table if the output is not a terminal: more than any line needs."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    what: str
    """What was checked."""
    found: str
    """What was found."""
    verdict: str = OK
    way_out: str = ""
    """What to do, if the verdict is not OK."""


def doctor(json: bool) -> int:
    """Print the findings; return 1 if one of them would stop a run."""
    findings = examine()
    stops = any(finding.verdict == STOP for finding in findings)
    if json:
        print(json_format.dumps({"ok": not stops, "findings": [asdict(finding) for finding in findings]}))
        return int(stops)
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("", "what", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        verdict = Text(finding.verdict, style=_COLOURS[finding.verdict])
        table.add_row(verdict, finding.what, Text(finding.found), Text(finding.way_out))
    console = Console(width=None if sys.stdout.isatty() else _UNWRAPPED)
    with console.capture() as printed:
        console.print(table)
    print("\n".join(line.rstrip() for line in printed.get().splitlines()))
    return int(stops)


def examine() -> list[Finding]:
    """Return the findings of all checks."""
    return [
        Finding("python", f"{platform.python_version()} ({sys.executable})"),
        _platform(),
        _cores(),
        *_scheduler(),
        _memory(),
        _shared_memory(),
        _sockets(),
        _limit("open files", resource.RLIMIT_NOFILE, 64 + _FILES_A_PROCESS * MOST_PROCESSES, "ulimit -n"),
        _limit("processes", resource.RLIMIT_NPROC, 4 * MOST_PROCESSES, "ulimit -u"),
        _libzmq(),
        *_torch(),
        Finding("energy", Energy().said()),  # if it cannot be read, rows have no frames_per_kj, which is no error
        *_needed(),
        *(finding for registry in REGISTRIES for finding in _registry(registry)),
    ]


def _registry(registry: PlugIns[Any]) -> list[Finding]:
    """Return a finding that lists the entries of a registry by package, and one for each that cannot be loaded."""
    sources: dict[str, list[str]] = {}
    broken = []
    for entry in registry.entries():
        try:
            entry.load()
        except ValueError as error:
            way_out = f"repair or uninstall {entry.distribution}; other plug-ins are not affected"
            broken.append(Finding(f"{registry.kind} {entry.name}", str(error), WARN, way_out))
        else:
            sources.setdefault(entry.distribution, []).append(entry.name)
    said = "; ".join(f"{', '.join(names)} (of {source})" for source, names in sources.items())
    return [Finding(registry.group, said or "none"), *broken]


def _platform() -> Finding:
    found = f"{platform.system()} {platform.release()}, {platform.machine()}"
    if platform.system() != "Linux":
        return Finding("platform", found, STOP, "actorlearn needs Linux: pidfd, /dev/shm, parent-death signals")
    if wrong := disorder():
        return Finding("platform", found, STOP, f"{wrong}; runs start only with supervision.any_memory_order: true")
    return Finding("platform", found)


def _cores() -> Finding:
    cores = Cores.here()
    found = f"{cores.allowed} of {os.cpu_count() or 1} allowed"
    if quota := cores.quota:
        found += f"; cgroup v{quota.version} limits CPU time to {quota.cores:g} cores ({quota.file})"
    if cores.usable < 2:
        return Finding("cores", found, WARN, "simulators, inference and trainer take turns; allow two or more cores")
    if cores.rationed:
        way_out = (
            f"all processes pause when the quota of {cores.usable:g} cores is used up; raise it, or allow fewer CPUs"
        )
        return Finding("cores", found, WARN, way_out)
    return Finding("cores", found)


def _scheduler() -> list[Finding]:
    """Return findings on the kernel features that keep a run fast while other programs use the same cores."""
    release = platform.release()
    version = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    try:
        sliced, batch, idle = _ask(_ASK_SCHEDULER)
    except NoAnswerError as error:
        return [Finding("scheduler", f"cannot be queried: {error}", WARN, "training may be slow next to busy programs")]
    known = "EEVDF" if version >= _EEVDF else "before EEVDF"
    found = f"{known}, time slices can{'' if sliced else 'not'} be set"
    scheduler = Finding("scheduler", found)
    if version >= _EEVDF and not sliced:
        why = (
            f"Linux {release} has no time slices to set"
            if version < _SLICES
            else "the call is refused, perhaps by a sandbox"
        )
        way_out = (
            f"{why}, so a process that wakes up next to a busy one may wait for milliseconds; time slices "
            "need Linux 6.12"
        )
        scheduler = Finding("scheduler", found, WARN, way_out)
    classes = Finding("classes", "batch and idle permitted")
    if not (batch and idle):
        refused = " and ".join(name for name, given in (("batch", batch), ("idle", idle)) if not given)
        classes = Finding("classes", f"{refused} refused", WARN, "an evaluator gets as much CPU time as a trainer")
    grouped = {True: "on: nice applies within a session, and sessions share the cores evenly", False: "off"}
    return [scheduler, classes, _nice(), Finding("autogroup", "none" if (on := autogroups()) is None else grouped[on])]


def _nice() -> Finding:
    nice, (limit, _) = os.nice(0), resource.getrlimit(resource.RLIMIT_NICE)
    lowest = -20 if os.geteuid() == 0 or limit == resource.RLIM_INFINITY else max(-20, 20 - limit)
    found = f"{nice}; may be lowered to {min(nice, lowest)}"
    if nice > 0:
        return Finding(
            "nice", found, WARN, "a run started here yields to other programs; start it from a shell with nice 0"
        )
    return Finding("nice", found)


def _memory() -> Finding:
    memory = psutil.virtual_memory()
    found = f"{as_bytes(memory.available)} of {as_bytes(memory.total)} available"
    if memory.available < 2 * 1024**3:
        return Finding("memory", found, WARN, "torch takes 200 to 400 MiB in each inference server and trainer")
    return Finding("memory", found)


def _shared_memory() -> Finding:
    if not SHM_ROOT.is_dir() or not os.access(SHM_ROOT, os.W_OK | os.X_OK):
        return Finding(str(SHM_ROOT), "cannot be written", STOP, f"mount a tmpfs at {SHM_ROOT} with mode 1777")
    status = os.statvfs(SHM_ROOT)
    free, total = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    found = f"{as_bytes(free)} of {as_bytes(total)} free"
    way_out = (
        f"free some space or enlarge {SHM_ROOT} (docker: --shm-size=1g); `actorlearn check` prints what a run needs"
    )
    if free < 1024**2:
        return Finding(str(SHM_ROOT), found, STOP, way_out)
    return Finding(str(SHM_ROOT), found, *((WARN, way_out) if free < _SMALL_SHM else ()))


def _sockets() -> Finding:
    named = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(named or "/tmp")
    found = str(root) if named else "/tmp (XDG_RUNTIME_DIR is not set)"
    way_out = "set XDG_RUNTIME_DIR to a folder of yours with mode 0700, with a short path"
    if not root.is_dir() or not os.access(root, os.W_OK | os.X_OK):
        return Finding("sockets in", f"{found}: cannot be written", STOP, way_out)
    if named and (root.stat().st_uid != os.getuid() or stat.S_IMODE(root.stat().st_mode) & 0o077):
        return Finding("sockets in", f"{found}: accessible to other users", WARN, way_out)
    if len(os.fsencode(root)) > longest_root():
        return Finding("sockets in", f"/tmp (XDG_RUNTIME_DIR is longer than {longest_root()} bytes)", WARN, way_out)
    return Finding("sockets in", found)


def _limit(what: str, kind: int, needed: int, command: str) -> Finding:
    soft, hard = resource.getrlimit(kind)
    found = "unlimited" if soft == resource.RLIM_INFINITY else f"{soft:,}"
    if soft != resource.RLIM_INFINITY and soft < needed:
        more = (
            ""
            if hard == resource.RLIM_INFINITY or hard >= needed
            else f" (the hard limit is {hard:,}; root can raise it)"
        )
        verdict = STOP if soft < needed // 16 else WARN
        return Finding(what, found, verdict, f"{command} {needed}: enough for {MOST_PROCESSES} processes{more}")
    return Finding(what, found)


def _libzmq() -> Finding:
    try:
        libzmq, pyzmq = _ask(_ASK_ZMQ)
    except NoAnswerError as error:
        return Finding("libzmq", f"cannot be imported: {error}", STOP, "pip install pyzmq")
    found = f"{'.'.join(map(str, libzmq))} (pyzmq {pyzmq})"
    if tuple(libzmq) < MINIMUM_LIBZMQ:
        return Finding("libzmq", found, STOP, "older versions can be crashed remotely: pip install -U pyzmq")
    return Finding("libzmq", found)


_ASK_SCHEDULER = (
    "import json; from actorlearn.worker.scheduling import set_policy, set_slice; "
    "print(json.dumps([set_slice(300_000), set_policy('batch'), set_policy('idle')]))"
)
_ASK_ZMQ = "import json, zmq; print(json.dumps([zmq.zmq_version_info(), zmq.__version__]))"


def _ask(code: str) -> Any:
    """Run Python code in a new interpreter, and return the JSON that it prints; raises NoAnswerError.

    A broken library cannot crash this process then, and a changed scheduling class ends with the interpreter.
    """
    try:
        return ask([sys.executable, "-c", code], _TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise NoAnswerError(f"no answer in {_TIMEOUT_S:g} s") from None


def _torch() -> list[Finding]:
    try:
        version, devices = _ask(TORCH_AND_GPUS)
    except NoAnswerError as error:
        return [Finding("torch", f"cannot be imported: {error}", STOP, "pip install torch; with a GPU, try nvidia-smi")]
    gpu = Finding("gpu", ", ".join(devices) or "none")
    if not devices and shutil.which("nvidia-smi"):
        way_out = (
            "torch sees no GPU, but nvidia-smi exists: install a CUDA build of torch, or check CUDA_VISIBLE_DEVICES"
        )
        gpu = Finding("gpu", "none", WARN, way_out)
    return [Finding("torch", version), gpu]


def _needed() -> Iterator[Finding]:
    """Yield a finding for each package that an environment needs: its version, or how to install it."""
    for name, spec in {name: each for each in ENVIRONMENTS.specs() for name in each.needs}.items():
        try:
            yield Finding(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            install = own_extra(name)
            optional = "[" in install  # an extra
            way_out = f"{spec.prefix}… environments need it: {install.strip('`')}"
            yield Finding(name, "not installed", OK if optional else WARN, way_out)
