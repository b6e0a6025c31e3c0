"""Slots of a sweep: how many runs are alive at once, and which GPU or which hosts each of them has for itself.

Without an engine, and with one whose nodes are on this machine, that is as many as have room here. With
``nodes.hosts`` the hosts are dealt out: each run has as many as it has nodes, and a host that is named twice has two
runs at once. Other engines have a cluster with a queue of its own, and the sweep file says how many runs are in it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from actorlearn.address import Tcp
from launch.engines.specs import EngineSpec
from launch.errors import RunError
from launch.machine.gpus import visible_gpus
from launch.runtime.loop import choose_engine, choose_listen_address
from launch.sweeps.file import Sweep
from launch.sweeps.history import Started
from launch.sweeps.room import count_at_once, heads_at_once, here, taken_by
from launch.topology.schema import NodesSection


class Slot(NamedTuple):
    """GPU and hosts that one run has for itself."""

    gpu: str = ""
    """GPU that it alone is shown; empty: it sees what the sweep sees."""
    hosts: tuple[str, ...] = ()
    """Its ``nodes.hosts``; empty: it is not told where its nodes are."""


@dataclass(frozen=True)
class Slots:
    """As many runs as are alive at once, and what they share."""

    at_once: int
    why: str
    """The reason of that number, for people."""
    gpus: Sequence[str] = ()
    """GPUs of which each run is shown one; none: all see all."""
    hosts: Sequence[str] = ()
    """Hosts that are dealt to runs, each as often as it may have runs; none: there is nothing to deal."""
    hosts_each: int = 1
    """Hosts of each run, where there are any: one for each of its nodes."""
    words: Sequence[str] = ()
    """Options of ``actorlearn run`` and ``resume`` by which nodes are started."""

    def free(self, living: Sequence[Started], left_out: Collection[str] = ()) -> Slot | None:
        """Return what one more run beside the living ones has; None where there is no slot for it.

        ``left_out``: hosts that are given to no further run. Of the others those come first that have the smallest
        share of the runs that they may have, and of equal ones the first.
        """
        if len(living) >= self.at_once:
            return None
        shown = [started.gpu for started in living]
        gpu = min(self.gpus, key=shown.count, default="")
        offered = Counter(host for host in self.hosts if host not in left_out)
        taken = Counter(host for started in living for host in started.hosts)
        hosts: list[str] = []
        for _ in range(self.hosts_each if self.hosts else 0):
            with_room = [host for host in offered if taken[host] < self._most_of_one * offered[host]]
            if not with_room:
                return None
            hosts.append(min(with_room, key=lambda host: taken[host] / offered[host]))
            taken[hosts[-1]] += 1
        return Slot(gpu, tuple(hosts))

    @property
    def _most_of_one(self) -> int:
        """Runs that a host may have at once for each time that it is named."""
        return math.ceil(self.at_once * self.hosts_each / len(self.hosts))


def find_slots(sweep: Sweep, folder: Path, engine: EngineSpec | None, keys: Path | None) -> Slots:
    """Return the slots of a sweep on this machine now, or on the hosts of its topology.

    Raises RunError for an engine that cannot start the nodes of its runs, and where nobody would start them.
    """
    nodes, wanted = sweep.base.nodes, sweep.keys.at_once
    if engine is None:
        if nodes.several:
            raise RunError(
                f"{sweep.path}: its topology has nodes (nodes.count, nodes.listen), and nobody starts those of so many "
                "runs; name an --engine that does, or leave them out"
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
            f"{sweep.path}: at_once: null, and this machine cannot know how many runs the cluster of --engine "
            f"{engine.name} has room for; write how many are started or queued at once, or nodes.hosts"
        )
    else:
        slots = Slots(wanted, "the file says so", words=words)
    if slots.at_once > 1 and nodes.listen and (address := Tcp.read(nodes.listen)).port:
        raise RunError(
            f"nodes.listen: {address}: {slots.at_once} runs at once, each with a head that listens at a port of its "
            f"own; write {Tcp(address.host, 0)}, with which each takes a free one, or at_once: 1"
        )
    return slots


def _check_engine(nodes: NodesSection, folder: Path, engine: EngineSpec, keys: Path | None) -> None:
    """Refuse an engine that cannot start the nodes of one run, as that run would; starts nothing."""
    if nodes.hosts and len(nodes.hosts) < nodes.count:
        raise RunError(
            f"nodes.hosts: {len(nodes.hosts)} hosts, and a run has nodes.count = {nodes.count} nodes; name as many at "
            "least"
        )
    choose_listen_address(nodes, keys)
    one = msgspec.structs.replace(nodes, hosts=nodes.hosts[: nodes.count])
    choose_engine(engine, folder, one, keys)


def _slots_of_hosts(nodes: NodesSection, wanted: int | None, words: Sequence[str]) -> Slots:
    """Return slots on hosts: as many runs as these suffice for, and as have room here with their heads."""
    if wanted is not None:
        at_once, why = wanted, "the file says so"
    else:
        runs = len(nodes.hosts) // nodes.count
        at_once, why = heads_at_once(here())
        if runs <= at_once:
            at_once, why = runs, f"{len(nodes.hosts)} in nodes.hosts, of which a run takes {nodes.count}"
    return Slots(at_once, why, hosts=nodes.hosts, hosts_each=nodes.count, words=words)


def _slots_here(sweep: Sweep) -> Slots:
    """Return slots on this machine."""
    wanted, gpus = sweep.keys.at_once, visible_gpus()
    if wanted is not None and not gpus:
        return Slots(wanted, "the file says so")
    taken = taken_by(sweep.base)
    one_each = taken.gpus == 1 and "cuda" in (sweep.base.trainer.device, sweep.base.inference.device)
    count, why = (wanted, "the file says so") if wanted is not None else count_at_once(taken, here())
    return Slots(count, why, gpus if one_each else ())
