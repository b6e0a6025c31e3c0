"""Network namespaces that stand in for machines, with their own addresses, and links whose rate is limited.

The head has a namespace with a bridge; a veth pair joins the namespace of each node to it. For links with a latency, a
switch in this process joins them instead (``delayed_switch.py``). Links can be cut. The machine's own network is not
changed. Processes, memory and disks are shared. Needs root, iproute2 and nsenter. ``linked`` runs a topology on
such machines.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from actorlearn.wire.keys import make_keys
from benchmarks.delayed_switch import DelayedSwitch
from launch.bench.running import Running
from launch.engines.shells import ShellEngine, shell
from launch.engines.specs import NodeCommand
from launch.errors import FailedError, RunError
from launch.topology.schema import NodesSection

NEEDED = ("ip", "tc", "nsenter")
BUFFERS = "burst 256kb latency 100ms"
"""Bytes that a link forwards at once after a pause, and the longest wait in its queue, as arguments of tc-tbf(8)."""
HEAD = "head"
"""Name of the machine of the head."""
PORT = 5555
_ENGINE = f"{__name__}:LinkedNodes"


class LinkBytes(NamedTuple):
    """Bytes that the link of a node has carried, including the headers of Ethernet, IP and TCP."""

    out: int
    into: int


class Namespaces:
    """The namespaces of a head and of its nodes."""

    head = "10.77.0.100"

    def __init__(self, nodes: Sequence[str]) -> None:
        """Make no namespace yet."""
        self._word = f"al{secrets.token_hex(3)}"
        self.nodes = nodes
        self.names = [HEAD, *nodes]
        """Names of all machines."""
        self._switch: DelayedSwitch | None = None

    def make_delayed(self, delay_s: float) -> None:
        """Make the namespaces, with links whose latency is ``delay_s``. Raises CalledProcessError and OSError."""
        self._switch = DelayedSwitch(delay_s)
        for number, name in enumerate(self.names):
            own, port = self.namespace(name), f"{self._word}-{number}"
            _call("ip", "netns", "add", own)
            self._switch.add_port(port)
            _call("ip", "link", "set", port, "netns", own)
            self._in(name, "ip", "link", "set", "lo", "up")
            self._in(name, "ip", "link", "set", port, "name", "net")
            self._in(name, *f"ip address add 10.77.0.{number or 100}/24 dev net".split())
            self._in(name, "ip", "link", "set", "net", "up")
        self._switch.start()

    def make(self, rate: str, buffers: str = BUFFERS) -> None:
        """Make the namespaces; each link carries at most ``rate`` in each direction. Raises CalledProcessError."""
        for name in self.names:
            _call("ip", "netns", "add", self.namespace(name))
            self._in(name, "ip", "link", "set", "lo", "up")
        self._in(HEAD, "ip", "link", "add", "bridge", "type", "bridge")
        self._in(HEAD, "ip", "address", "add", f"{self.head}/24", "dev", "bridge")
        self._in(HEAD, "ip", "link", "set", "bridge", "up")
        for number, name in enumerate(self.nodes, 1):
            far = self.namespace(name)
            self._in(HEAD, *f"ip link add to-{name} type veth peer name net netns {far}".split())
            self._in(HEAD, *f"ip link set to-{name} master bridge up".split())
            self._in(name, *f"ip address add 10.77.0.{number}/24 dev net".split())
            self._in(name, "ip", "link", "set", "net", "up")
            for where, link in ((HEAD, f"to-{name}"), (name, "net")):
                self._in(where, *f"tc qdisc add dev {link} root tbf rate {rate} {buffers}".split())

    def namespace(self, name: str) -> str:
        """Return the name of a machine's namespace."""
        return f"{self._word}-{name}"

    def enter(self, name: str) -> list[str]:
        """Return the words to put before a command, so that it runs on a machine; the process id does not change."""
        return enter(self.namespace(name))

    def cut(self, name: str) -> None:
        """Cut the link of a node: packets are lost without an error."""
        self._in(HEAD, "ip", "link", "set", f"to-{name}", "down")

    def mend(self, name: str) -> None:
        """Restore the link of a node."""
        self._in(HEAD, "ip", "link", "set", f"to-{name}", "up")

    def carried(self) -> dict[str, LinkBytes]:
        """Return what the link of each node has carried so far, as the limit of its rate counts it.

        The counters of interfaces are smaller: they count a large segment once, before it is divided into packets.
        """
        return {name: LinkBytes(self._passed(name, "net"), self._passed(HEAD, f"to-{name}")) for name in self.nodes}

    def _passed(self, name: str, link: str) -> int:
        (limit,) = json.loads(self._in(name, "tc", "-json", "-statistics", "qdisc", "show", "dev", link))
        return int(limit["bytes"])

    def pids(self, name: str) -> list[int]:
        """Return the ids of the processes of a machine."""
        return [int(pid) for pid in _call("ip", "netns", "pids", self.namespace(name)).split()]

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to all processes of a machine."""
        for pid in self.pids(name):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def close(self) -> None:
        """End the processes in the namespaces, and remove the namespaces."""
        for name in self.names:
            with suppress(subprocess.CalledProcessError):
                self.signal(name, signal.SIGKILL)
                _call("ip", "netns", "delete", self.namespace(name))
        if self._switch is not None:
            self._switch.close()

    def _in(self, name: str, *words: str) -> str:
        return _call(*self.enter(name), *words)


@contextmanager
def namespaces(
    nodes: Sequence[str], rate: str, buffers: str = BUFFERS, delay_s: float | None = None
) -> Iterator[Namespaces]:
    """Make namespaces that exist within ``with``; raises FailedError if they cannot be made.

    ``delay_s``: latency of links in each direction; links with a latency have no limit of their rate.
    """
    if missing := [word for word in NEEDED if shutil.which(word) is None]:
        raise FailedError(f"{', '.join(missing)}: not installed; install iproute2 and util-linux")
    if os.geteuid():
        raise FailedError("only root makes network namespaces; run it as root")
    made = Namespaces(nodes)
    try:
        try:
            if delay_s is None:
                made.make(rate, buffers)
            else:
                made.make_delayed(delay_s)
        except subprocess.CalledProcessError as error:
            why = f"{' '.join(error.cmd)}: {error.stderr.strip()}"
            raise FailedError(f"no network namespaces can be made here: {why}") from None
        except OSError as error:
            raise FailedError(f"no network namespaces can be made here: {error}") from None
        yield made
    finally:
        made.close()


def enter(namespace: str) -> list[str]:
    """Return the words to put before a command, so that it runs in a namespace."""
    return ["nsenter", f"--net=/run/netns/{namespace}"]


def own_namespace() -> str:
    """Return the name of the namespace in which this process is; "" if it has no name."""
    return _call("ip", "netns", "identify").strip()


def _call(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


class LinkedNodes(ShellEngine):
    """The engine that starts nodes in namespaces: those that belong to the namespace of the head."""

    def __init__(self, run_dir: Path, nodes: NodesSection) -> None:
        """Start nothing yet; raises RunError if the head is in no such namespace."""
        word, _, name = own_namespace().rpartition("-")
        if name != HEAD:
            raise RunError(f"--engine {_ENGINE}: a benchmark runs it in namespaces of its own; choose another engine")
        self._word = word
        super().__init__(run_dir, nodes)

    def command(self, number: int, node: NodeCommand) -> list[str]:
        """Return the command that starts the shell of a node in the namespace with the node's name."""
        return [*enter(f"{self._word}-{node.name}"), *shell(node)]


@contextmanager
def linked(topology: str, overrides: Sequence[str], network: Namespaces) -> Iterator[Running]:
    """Run a topology on all machines of a network; its nodes have the machines' names."""
    with tempfile.TemporaryDirectory(prefix="actorlearn-bench-") as folder:
        keys = Path(folder) / "keys"
        make_keys(keys, network.nodes)
        nodes = (f"nodes.count={len(network.nodes)}", f"nodes.listen={network.head}:{PORT}")
        by = network.enter(HEAD)
        with Running(topology, (*overrides, *nodes), engine=_ENGINE, keys=keys, by=by) as run:
            yield run
