"""``actorlearn manifest``: prints a manifest with which Kubernetes runs a topology on several machines.

The manifest has a JobSet with the pods of the head and the nodes, and a ConfigMap with the keys that the topology sets.
The head chooses the other values, because some of them depend on its machine. The fields are those of
``jobset.x-k8s.io/v1alpha2`` (kubernetes-sigs/jobset) and of Jobs (``batch/v1``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from launch.topology.load import Topology, as_text, load, written_tree

PORT = 5555
LISTEN = f"0.0.0.0:{PORT}"
"""Address at which the head listens: all addresses of its pod, because these are not known in advance."""
_RUNS, _TOPOLOGY, _SECRET, _OWN = "/runs", "/etc/actorlearn", "/secret", "/tmp/keys"
"""Folders in a container: runs, the topology, the mounted secret, and the copy of the keys for actorlearn."""
_LONGEST_NAME = 40
"""Maximum length of the JobSet's name. Names of pods have a suffix, and have at most 63 characters in Kubernetes."""


def show(topology: str, overrides: Sequence[str], image: str, secret: str, claim: str | None) -> int:
    """Print the manifest for a topology as YAML; return the exit status. ``manifest`` describes the other arguments."""
    loaded = load(topology, [*overrides, f"nodes.listen={LISTEN}"])
    objects = manifest(loaded, image=image, secret=secret, claim=claim)
    print(yaml.dump_all(objects, Dumper=_Readable, sort_keys=False, width=1000), end="")
    return 0


class _Readable(yaml.SafeDumper):
    """Writes texts of several lines in YAML's literal style, with ``|``."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return dumper.represent_scalar("tag:yaml.org,2002:str", lines, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)


def manifest(topology: Topology, *, image: str, secret: str, claim: str | None) -> list[dict[str, Any]]:
    """Return the Kubernetes objects of a run.

    ``image``: container image in which actorlearn is installed. ``secret``: name of the Secret with the files that
    `actorlearn keys new` makes. ``claim``: name of the PersistentVolumeClaim for the run's folder; None: the folder is
    in the head's pod, and lost with it.
    """
    name = re.sub(r"[^a-z0-9]+", "-", topology.name.lower()).strip("-")[:_LONGEST_NAME].strip("-") or "run"
    nodes = [f"node-{number}" for number in range(topology.nodes.count)]
    mounts = {"keys": _SECRET, "memory": "/dev/shm"}
    run, keys = f"{_RUNS}/{name}", f"umask 077; mkdir -p {_OWN}; "
    head = _pod(
        image=image,
        mounts={**mounts, "topology": _TOPOLOGY, "runs": _RUNS},
        script=f"{keys}cp -rL {_SECRET}/head.key {_SECRET}/nodes {_OWN}; "
        f"if [ -e {run}/meta.json ]; then exec actorlearn resume {run} --keys {_OWN}; fi; "
        f"exec actorlearn run {_TOPOLOGY}/topology.yaml --keys {_OWN} --run-dir {run}",
        volumes=[
            _keys(secret, {"head.key": "head.key", **{f"{node}.pub": f"nodes/{node}.pub" for node in nodes}}),
            _memory(),
            {"name": "topology", "configMap": {"name": f"{name}-topology"}},
            {"name": "runs", **({"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}})},
        ],
    )
    node = _pod(
        image=image,
        mounts=mounts,
        script=f'{keys}cp "{_SECRET}/node-$JOB_COMPLETION_INDEX.key" {_OWN}/key; '
        f"exec actorlearn node --join {name}-head-0-0.{name}:{PORT} --key {_OWN}/key",
        volumes=[_keys(secret, {f"{node}.key": f"{node}.key" for node in nodes}), _memory()],
    )
    node["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_apart(name)]}}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{name}-topology"},
            "data": {"topology.yaml": as_text(written_tree(topology))},
        },
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": name},
            "spec": {
                "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
                "successPolicy": {"operator": "All", "targetReplicatedJobs": ["head"]},
                "failurePolicy": {"maxRestarts": 0},
                "replicatedJobs": [_job("head", 1, 6, head), _job("node", topology.nodes.count, 1000, node)],
            },
        },
    ]


def _job(name: str, pods: int, failures: int, pod: dict[str, Any]) -> dict[str, Any]:
    counts = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "backoffLimit": failures}
    return {"name": name, "replicas": 1, "template": {"spec": {**counts, "template": {"spec": pod}}}}


def _pod(*, image: str, script: str, mounts: dict[str, str], volumes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    container = {
        "name": "actorlearn",
        "image": image,
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in mounts.items()],
    }
    return {"restartPolicy": "OnFailure", "containers": [container], "volumes": list(volumes)}


def _memory() -> dict[str, Any]:
    """Return the volume for shared memory, because by default a container has only 64 MiB."""
    return {"name": "memory", "emptyDir": {"medium": "Memory"}}


def _keys(secret: str, files: dict[str, str]) -> dict[str, Any]:
    items = [{"key": key, "path": path} for key, path in files.items()]
    return {"name": "keys", "secret": {"secretName": secret, "defaultMode": 0o400, "items": items}}


def _apart(name: str) -> dict[str, Any]:
    """Return the Kubernetes rule that puts each node on a separate machine."""
    labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": "node"}
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
