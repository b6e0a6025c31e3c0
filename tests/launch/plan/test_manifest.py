"""The manifest of a run, against the fields that JobSet v1alpha2, Job v1 and Pod v1 have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from launch.topology.load import load
from tests.launch.asking import ask
from tests.sizes import ROOT

CATCH = ROOT / "configs" / "catch.yaml"
SEVERAL = ["mode=gossip", "gossip.graph=none", "learners.count=2", "nodes.count=2"]
NAMES = {"name": str}
VOLUME = {
    "name!": str,
    "secret": {"secretName!": str, "defaultMode": int, "items": [{"key!": str, "path!": str}]},
    "configMap": {"name!": str},
    "persistentVolumeClaim": {"claimName!": str},
    "emptyDir": {"medium": {"Memory"}, "sizeLimit": str},
}
TERM = {"labelSelector": {"matchLabels": dict}, "topologyKey!": str}
POD = {
    "restartPolicy!": {"OnFailure", "Never"},  # of a Job's pods
    "containers!": [
        {"name!": str, "image!": str, "command": [str], "volumeMounts": [{"name!": str, "mountPath!": str}]}
    ],
    "volumes": [VOLUME],
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}},
}
JOB = {
    "parallelism": int,
    "completions": int,
    "completionMode": {"Indexed", "NonIndexed"},
    "backoffLimit": int,
    "template!": {"spec!": POD},
}
SCHEMAS: dict[str, Any] = {
    "ConfigMap": {"apiVersion!": {"v1"}, "kind!": str, "metadata!": NAMES, "data": dict},
    "JobSet": {
        "apiVersion!": {"jobset.x-k8s.io/v1alpha2"},
        "kind!": str,
        "metadata!": NAMES,
        "spec!": {
            "network": {"enableDNSHostnames": bool, "subdomain": str, "publishNotReadyAddresses": bool},
            "successPolicy": {"operator!": {"All", "Any"}, "targetReplicatedJobs": [str]},
            "failurePolicy": {"maxRestarts": int},
            "replicatedJobs!": [{"name!": str, "replicas": int, "template!": {"spec!": JOB}}],
        },
    },
}
"""Fields of each object, those that must be there with a "!"; a set has all the values that a field may have."""


def faults(value: Any, schema: Any, where: str) -> list[str]:
    """What is wrong with a value."""
    if isinstance(schema, type):
        return [] if type(value) is schema else [f"{where}: {value!r} is no {schema.__name__}"]
    if isinstance(schema, set):
        return [] if value in schema else [f"{where}: {value!r} is not in {schema}"]
    if isinstance(schema, list):
        return [fault for each in value for fault in faults(each, schema[0], f"{where}[]")]
    fields = {name.removesuffix("!"): (name.endswith("!"), inner) for name, inner in schema.items()}
    found = [f"{where}.{name}: no such field" for name in value.keys() - fields.keys()]
    found += [f"{where}.{name}: is missing" for name, (must, _) in fields.items() if must and name not in value]
    return found + [
        fault
        for name in value.keys() & fields.keys()
        for fault in faults(value[name], fields[name][1], f"{where}.{name}")
    ]


def printed(*words: str) -> list[dict[str, Any]]:
    result = ask("manifest", CATCH, *SEVERAL, "--image", "registry/me/actorlearn:1", *words)
    assert result.exit_code == 0, result.output
    assert "&id" not in result.stdout
    return list(yaml.safe_load_all(result.stdout))


@pytest.mark.parametrize("words", [[], ["--claim", "runs", "--secret", "my-keys", "nodes.count=30"]])
def test_the_manifest_has_the_fields_that_there_are(words: list[str]) -> None:
    for each in printed(*words):
        assert faults(each, SCHEMAS[each["kind"]], each["kind"]) == []


def test_a_head_and_its_nodes_find_each_other_and_their_keys(tmp_path: Path) -> None:
    config, jobs = printed()
    (tmp_path / "t.yaml").write_text(config["data"]["topology.yaml"])
    topology = load(str(tmp_path / "t.yaml"), [])
    assert topology.nodes.listen == "0.0.0.0:5555" and topology.nodes.count == 2
    head, node = (job["template"]["spec"] for job in jobs["spec"]["replicatedJobs"])
    assert (head["completions"], node["completions"]) == (1, 2)
    assert "--join catch-head-0-0.catch:5555" in node["template"]["spec"]["containers"][0]["command"][-1]
    files = {job["template"]["spec"]["volumes"][0]["name"]: job for job in (head, node)}
    assert files.keys() == {"keys"}
    of_head, of_node = (
        [item["path"] for item in job["template"]["spec"]["volumes"][0]["secret"]["items"]] for job in (head, node)
    )
    assert of_head == ["head.key", "nodes/node-0.pub", "nodes/node-1.pub"] and of_node == ["node-0.key", "node-1.key"]


def test_pods_mount_the_volumes_that_they_have() -> None:
    for job in printed()[1]["spec"]["replicatedJobs"]:
        pod = job["template"]["spec"]["template"]["spec"]
        mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_names_are_those_that_kubernetes_allows() -> None:
    names = [each["metadata"]["name"] for each in printed("name=A_very_Long_name_" + "x" * 40)]
    assert names[1] == ("a-very-long-name-" + "x" * 40)[:40] and names[0] == f"{names[1]}-topology"
