"""Slots of a sweep: how many runs it may have at once, and which GPU or hosts each of them uses.

Without an engine, or with one whose nodes are on this machine, the number of runs follows from the cores, the memory
and the GPUs. With ``nodes.hosts``, the hosts are divided among the runs: each run gets one host for each of its nodes,
and a host that is listed twice may have two runs at once. Other engines use a cluster with its own queue, so the sweep
file must give the number of runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from actorlearn.address import Tcp
from actorlearn.memory.shared import free_bytes
from launch.engines.specs import EngineSpec
from launch.errors import RunError
from launch.machine.cores import Cores, usable_cores
from launch.machine.gpus import visible_gpus
from launch.nodes.started import open_engine
from launch.plan.nodes import need_of
from launch.plan.pace import COUNT, ENVS, more_simulators
from launch.plan.planning import plan
from launch.plan.probe import describe
from launch.runtime.loop import choose_listen_address
from launch.sweeps.file import Sweep
from launch.sweeps.history import Started
from launch.topology.load import Topology
from launch.topology.schema import NodesSection

PROCESS_BYTES = 256 << 20
"""Bytes of memory assumed for a process, besides shared memory: a process that has imported torch takes 200 MB."""
_DECISIVE = frozenset({"simulators", "learners", "env"})
"""Sections on which the number of simulators of a slow environment depends."""
_GIB = 1 << 30


class Slot(NamedTuple):
    """The GPU and the hosts of one run."""

    gpu: str = ""
    """The only GPU that the run sees; empty: it sees the GPUs that the sweep sees."""
    hosts: tuple[str, ...] = ()
    """The value of ``nodes.hosts`` for the run; empty: the sweep assigns no hosts."""


@dataclass(frozen=True)
class Slots:
    """The number of runs that a sweep may have at once, and the GPUs and hosts that are divided among them."""

    at_once: int
    why: str
    """The reason for this number of runs, for messages."""
    gpus: Sequence[str] = ()
    """GPUs, one of which each run sees; empty: all runs see all GPUs."""
    hosts: Sequence[str] = ()
    """Hosts that are divided among the runs; a host may be listed several times. Empty: none are assigned."""
    hosts_each: int = 1
    """Number of hosts of each run: one for each of its nodes."""
    words: Sequence[str] = ()
    """Options ``--engine`` and ``--keys`` for `actorlearn run` and `resume`."""

    def free(self, living: Sequence[Started], left_out: Collection[str] = ()) -> Slot | None:
        """Return the slot for one more run besides the living ones; None if there is no room for it.

        The slot has the GPU and the hosts with the fewest runs; a host listed n times may have n times as many runs.
        ``living``: the last start of each living run. ``left_out``: hosts that no further run may use.
        """
        if len(living) >= self.at_once:
            return None
        shown = [started.gpu for started in living]
        gpu = min(self.gpus, key=shown.count, default="")
        offered = Counter(host for host in self.hosts if host not in left_out)
        taken = Counter(host for started in living for host in started.hosts)
        hosts: list[str] = []
        # Most runs at once on a host, for each time that it is listed.
        most_of_one = math.ceil(self.at_once * self.hosts_each / len(self.hosts)) if self.hosts else 0
        for _ in range(self.hosts_each if self.hosts else 0):
            with_room = [host for host in offered if taken[host] < most_of_one * offered[host]]
            if not with_room:
                return None
            hosts.append(min(with_room, key=lambda host: taken[host] / offered[host]))
            taken[hosts[-1]] += 1
        return Slot(gpu, tuple(hosts))


def find_slots(sweep: Sweep, folder: Path, engine: EngineSpec | None, keys: Path | None) -> Slots:
    """Return the slots of a sweep, on this machine or on the hosts that its topology names.

    ``folder``: folder of the sweep. ``keys``: folder of the keys with which nodes join. Raises RunError if the engine
    cannot start the nodes of the runs, or if the topology has nodes and there is no engine.
    """
    nodes, wanted = sweep.base.nodes, sweep.keys.at_once
    if engine is None:
        if nodes.several:
            raise RunError(
                f"{sweep.path}: its topology has nodes (nodes.count, nodes.listen), which a sweep starts only by an "
                "engine; name one with --engine, or remove these keys"
            )
        return _slots_here(sweep)
    _check_engine(nodes, folder, engine, keys)
    words = ["--engine", engine.name, *(("--keys", str(keys)) if keys else ())]
    if nodes.hosts and not engine.here:
        slots = _slots_of_hosts(nodes, wanted, words)
    elif engine.here:
        slots = replace(_slots_here(sweep), words=words)
    elif wanted is None:
        raise RunError(
            f"{sweep.path}: at_once is null, but this machine cannot find out how many runs fit on the cluster of "
            f"--engine {engine.name}; write the number of runs to start or queue at once, or nodes.hosts"
        )
    else:
        slots = Slots(wanted, "set by at_once", words=words)
    if slots.at_once > 1 and nodes.listen and (address := Tcp.read(nodes.listen)).port:
        raise RunError(
            f"nodes.listen: {address}: the heads of {slots.at_once} runs at once need different ports; write "
            f"{Tcp(address.host, 0)}, with which each takes a free port, or at_once: 1"
        )
    return slots


def _check_engine(nodes: NodesSection, folder: Path, engine: EngineSpec, keys: Path | None) -> None:
    """Raise RunError if the engine cannot start the nodes of one run; start nothing."""
    if nodes.hosts and len(nodes.hosts) < nodes.count:
        raise RunError(
            f"nodes.hosts: {len(nodes.hosts)} hosts are fewer than nodes.count, {nodes.count}; name at least "
            f"{nodes.count} hosts"
        )
    choose_listen_address(nodes, keyed=True)
    one = msgspec.structs.replace(nodes, hosts=nodes.hosts[: nodes.count])
    open_engine(engine, folder, one, keys)


def _slots_of_hosts(nodes: NodesSection, wanted: int | None, words: Sequence[str]) -> Slots:
    """Return the slots on the hosts in ``nodes.hosts``.

    Their number is limited by the hosts, and by this machine's memory, because the heads of all runs are here.
    ``wanted``: the key ``at_once`` of the sweep file.
    """
    if wanted is not None:
        at_once, why = wanted, "set by at_once"
    else:
        runs = len(nodes.hosts) // nodes.count
        at_once, why = heads_at_once(here())
        if runs <= at_once:
            at_once, why = runs, f"{len(nodes.hosts)} hosts in nodes.hosts, of which a run takes {nodes.count}"
    return Slots(at_once, why, hosts=nodes.hosts, hosts_each=nodes.count, words=words)


def _slots_here(sweep: Sweep) -> Slots:
    wanted, gpus = sweep.keys.at_once, visible_gpus()
    if wanted is not None and not gpus:
        return Slots(wanted, "set by at_once")
    taken = taken_by(sweep.topology({}))
    one_each = taken.gpus == 1 and "cuda" in (sweep.base.trainer.device, sweep.base.inference.device)
    count, why = (wanted, "set by at_once") if wanted is not None else count_at_once(taken, here())
    return Slots(count, why, gpus if one_each else ())


def with_simulators(sweep: Sweep) -> Sweep:
    """Return the sweep with the number of simulators that a single run would have here, if its environment is slow.

    If trials differ in a key on which this number depends, the sweep is unchanged: all have the default number of
    simulators for an environment that is not slow or, if they differ in ``learners``, each has that of a single run.
    """
    base, varied = sweep.base, {key.partition(".")[0] for key in sweep.keys.vary}
    if {COUNT, ENVS} & base.written or varied & _DECISIVE:
        return sweep
    chosen = {choice.key: choice.value for choice in more_simulators(base, describe(base), Cores.here())}
    return replace(sweep, pins={**sweep.pins, COUNT: chosen[COUNT]} if COUNT in chosen else sweep.pins)


@dataclass(frozen=True)
class Room:
    """The cores, memory and GPUs that a machine offers to runs, or that a run needs."""

    cores: float
    memory_bytes: int
    shm_bytes: int
    gpus: int


def here() -> Room:
    """Return this machine's memory that is free now, and all cores and GPUs that this process may use."""
    memory = psutil.virtual_memory().available
    return Room(cores=usable_cores(), memory_bytes=memory, shm_bytes=free_bytes(), gpus=len(visible_gpus()))


def taken_by(topology: Topology) -> Room:
    """Return the cores, memory and GPUs that a run takes.

    A child process makes the environment and the network once, to learn their sizes.
    """
    description = describe(topology)
    made, learners = plan(topology, description), topology.learners.count
    need = need_of(made.topology, description)
    agents = topology.nodes.count if topology.nodes.several else 0
    return Room(
        cores=need.cores * learners,
        memory_bytes=made.bytes_total + PROCESS_BYTES * (1 + agents + len(made.processes)),
        shm_bytes=made.bytes_total,
        gpus=need.gpus * learners,
    )


def count_at_once(run: Room, machine: Room) -> tuple[int, str]:
    """Return how many runs fit on a machine at once, at least one, and the resource that limits the number, as text."""
    bounds = {
        f"{machine.cores:g} cores, of which a run takes {run.cores:g}": machine.cores / run.cores,
        f"{machine.memory_bytes / _GIB:.1f} GiB of memory, of which a run takes about {run.memory_bytes / _GIB:.1f}": (
            machine.memory_bytes / run.memory_bytes
        ),
        f"{machine.shm_bytes / _GIB:.1f} GiB of shared memory, of which a run takes {run.shm_bytes / _GIB:.2f}": (
            machine.shm_bytes / run.shm_bytes
        ),
    }
    if run.gpus:
        bounds[f"{machine.gpus} GPUs, of which a run takes {run.gpus}"] = machine.gpus / run.gpus
    why = min(bounds, key=bounds.__getitem__)
    return max(1, int(bounds[why])), why


def heads_at_once(machine: Room) -> tuple[int, str]:
    """Return how many heads of runs fit in this machine's memory, at least one, and the reason in words.

    The other processes of such runs are on other machines.
    """
    why = (
        f"{machine.memory_bytes / _GIB:.1f} GiB of memory here, of which a run's head takes {PROCESS_BYTES / _GIB:.2f}"
    )
    return max(1, machine.memory_bytes // PROCESS_BYTES), why
