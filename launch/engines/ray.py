"""The engine ``ray``: each node is run by a Ray actor on a separate machine of a Ray cluster. Ray restarts lost actors.

A separate process, the driver, uses Ray, because Ray adds threads and signal handlers. It reads the nodes from its
standard input, and ends when that is closed. Ray sends each key to its machine as an argument of an actor. The key is
therefore in the memory of Ray's processes, and it is encrypted in transit only if Ray's connections are (RAY_USE_TLS).
``nodes.options`` are the resources of a node, such as ``CPU=8`` or ``GPU=1``.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from actorlearn.imports import is_installed
from launch.engines.shells import FOLDER, SCRIPT
from launch.engines.specs import EngineSpec, NodeCommand
from launch.errors import RunError
from launch.topology.schema import NodesSection

RAY = EngineSpec(name="ray", made_by="launch.engines.ray:RayEngine")
_DRIVER = "from actorlearn.__main__ import import_launch as i; i(); from launch.engines.ray import drive; drive()"
_RESOURCE = re.compile(r"(?P<name>[^\s=]+)=(?P<amount>\d+(\.\d+)?)")
_TURN_S, _LEAVE_S, _END_S = 1.0, 3, 25
"""Seconds between two checks of the actors; longest waits for nodes to end by themselves, and after a request."""


class RayEngine:
    """Starts nodes in the Ray cluster that RAY_ADDRESS names, by default the cluster of this machine."""

    def __init__(self, run_dir: Path, nodes: NodesSection) -> None:
        """Raises RunError if Ray is not installed; starts no node yet."""
        if not is_installed("ray"):
            raise RunError("--engine ray: ray is not installed; install it with: pip install 'actorlearn[ray]'")
        self._log, self._resources = run_dir / FOLDER / "ray.log", read_resources(nodes.options)
        self._driver: subprocess.Popen[bytes] | None = None
        self._waited_for: set[str] = set()
        """Names of the nodes that may still join, or join again."""
        self._heard = b""
        """Output of the driver that has no end of line yet."""

    def start(self, nodes: Sequence[NodeCommand]) -> None:
        """Start the nodes, through the driver; raises OSError."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        request = {
            "resources": self._resources,
            "nodes": [{"name": node.name, "key": node.key.read_text(), "words": node.words} for node in nodes],
        }
        with self._log.open("ab") as log:
            pipe, command = subprocess.PIPE, [sys.executable, "-c", _DRIVER]
            self._driver = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, start_new_session=True)
        assert self._driver.stdin is not None and self._driver.stdout is not None
        os.set_blocking(self._driver.stdout.fileno(), False)
        self._waited_for = {node.name for node in nodes}
        with suppress(BrokenPipeError):  # the driver has ended; `gone` reports it
            self._driver.stdin.write(json.dumps(request).encode() + b"\n")
            self._driver.stdin.flush()

    def gone(self) -> Mapping[str, str]:
        """Return name -> reason for nodes that have ended for good since the last call."""
        if self._driver is None or not self._waited_for:
            return {}
        status, gone = self._driver.poll(), dict(self._read_ends())
        if status is not None:
            why = f"the process that connects to Ray has ended with exit status {status} ({FOLDER}/ray.log)"
            gone = dict.fromkeys(self._waited_for, why) | gone
        self._waited_for -= gone.keys()
        return gone

    def close(self) -> None:
        """End all nodes."""
        if self._driver is None:
            return
        try:
            self._driver.communicate(timeout=2 * _END_S)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self._driver.kill()  # Ray then ends the driver's actors
            self._driver.communicate()
        self._driver = None

    def _read_ends(self) -> Iterator[tuple[str, str]]:
        assert self._driver is not None and self._driver.stdout is not None
        self._heard += self._driver.stdout.read() or b""
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            name, why = json.loads(line)
            yield name, why


def read_resources(options: Sequence[str]) -> dict[str, float]:
    """Return Ray's name of each resource of a node -> its amount, from words such as GPU=1; raises RunError."""
    found = {"CPU": 1.0}
    for option in options:
        read = _RESOURCE.fullmatch(option)
        if read is None:
            raise RunError(f"nodes.options: {option!a:.100}: not a resource of Ray; write NAME=NUMBER, such as GPU=1")
        found[read["name"]] = float(read["amount"])
    return found


class NodeActor:
    """A Ray actor that runs a node; the node ends when the actor's process ends."""

    def __init__(self, key: str, words: Sequence[str]) -> None:
        """Start the node with the GPUs that Ray has assigned; ``words``: its command."""
        import ray

        gpus = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(gpus)}
        environment.pop("OMP_NUM_THREADS", None)  # set by Ray; the topology sets the threads of a node's processes
        command = ["sh", "-c", SCRIPT, "actorlearn", *words]
        self._shell = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True)
        assert self._shell.stdin is not None
        self._shell.stdin.write(key.encode() + b"\n")
        self._shell.stdin.flush()

    def status(self) -> int | None:
        """Return the node's exit status; None while it lives."""
        return self._shell.poll()

    def stop(self) -> None:
        """Wait until the node has ended; after _LEAVE_S, end it."""
        assert self._shell.stdin is not None
        with suppress(subprocess.TimeoutExpired):
            self._shell.wait(_LEAVE_S)
        self._shell.stdin.close()
        self._shell.wait()


def drive() -> None:
    """Start an actor for each node that standard input lists; write a line for each that ends, until it is closed."""
    import ray
    from ray import cloudpickle
    from ray.util.placement_group import placement_group

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that actors need not import this file
    tell = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keep Ray's warnings out of the answers
    request = json.loads(sys.stdin.buffer.readline())
    ray.init(address="auto", log_to_driver=False)
    resources = request["resources"]
    group = placement_group([resources] * len(request["nodes"]), strategy="STRICT_SPREAD")
    actors = {
        node["name"]: ray.remote(NodeActor)
        .options(
            num_cpus=resources["CPU"],
            num_gpus=resources.get("GPU", 0),
            resources={name: amount for name, amount in resources.items() if name not in ("CPU", "GPU")},
            max_restarts=-1,
            placement_group=group,
            placement_group_bundle_index=number,
        )
        .remote(node["key"], node["words"])
        for number, node in enumerate(request["nodes"])
    }
    _watch(dict(actors), tell)
    with suppress(ray.exceptions.RayError):
        ray.get([actor.stop.remote() for actor in actors.values()], timeout=_END_S)
    ray.util.remove_placement_group(group)
    ray.shutdown()


def _watch(actors: dict[str, Any], tell: TextIO) -> None:
    """Write a line for each node that has ended, until standard input is closed."""
    import ray

    asked = {name: actor.status.remote() for name, actor in actors.items()}
    while not select.select([sys.stdin], [], [], _TURN_S)[0]:
        for name, question in list(asked.items()):
            if not ray.wait([question], timeout=0)[0]:
                continue
            why = _answer(question)
            if why is None:
                asked[name] = actors[name].status.remote()
            else:
                del asked[name]
                tell.write(json.dumps([name, why]) + "\n")


def _answer(question: Any) -> str | None:
    """Return why a node has ended for good; None if it has not. ``question``: reference to `NodeActor.status`."""
    import ray

    try:
        status = ray.get(question)
    except ray.exceptions.ActorDiedError as error:
        return f"Ray does not restart it: {' '.join(str(error).split()):.300}"
    except ray.exceptions.RayError:
        return None  # its machine is lost, and Ray starts it on another one
    return None if status is None else f"it has ended with exit status {status}; its output is in Ray's logs"
