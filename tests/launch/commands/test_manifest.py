"""``actorlearn manifest``: its output has the fields of JobSet v1alpha2, Job v1 and Pod v1."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from launch.topology.defaults import BY_CORES, BY_STEP_TIME
from launch.topology.load import load
from tests.launch.asking import ask
from tests.sizes import ROOT

DEFINITION = "JOBSET_CRD"
"""Environment variable with the path of JobSet's custom resource definition, which is too large (800 kB) to copy."""
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
"""Fields of each object; the name of a required one ends in "!", and a set has all allowed values of a field."""


def faults(value: Any, schema: Any, where: str) -> list[str]:
    """Return one line for each place where a value does not fit its schema."""
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


def read_openapi(schema: dict[str, Any]) -> Any:
    """Return the schema of a custom resource in the form of ``SCHEMAS``."""
    if "enum" in schema:
        return set(schema["enum"])
    if schema.get("type") == "array":
        return [read_openapi(schema["items"])]
    if "properties" in schema:
        must = schema.get("required", [])
        inner = schema["properties"].items()
        return {f"{name}!" if name in must else name: read_openapi(each) for name, each in inner}
    return {"string": str, "integer": int, "boolean": bool}.get(schema.get("type", ""), dict)


def printed(*words: str) -> list[dict[str, Any]]:
    result = ask("manifest", CATCH, *SEVERAL, "--image", "registry/me/actorlearn:1", *words)
    assert result.exit_code == 0, result.output
    assert "&id" not in result.stdout
    return list(yaml.safe_load_all(result.stdout))


WAYS = pytest.mark.parametrize("words", [[], ["--claim", "runs", "--secret", "my-keys", "nodes.count=30"]])


@WAYS
def test_the_manifest_has_all_required_fields_and_no_unknown_ones(words: list[str]) -> None:
    for each in printed(*words):
        assert faults(each, SCHEMAS[each["kind"]], each["kind"]) == []


@WAYS
def test_the_manifest_fits_the_custom_resource_definition_of_jobset(words: list[str]) -> None:
    if DEFINITION not in os.environ:
        pytest.skip(f"{DEFINITION} names no file jobset.x-k8s.io_jobsets.yaml, of kubernetes-sigs/jobset")
    defined = yaml.load(Path(os.environ[DEFINITION]).read_text(), Loader=yaml.CSafeLoader)
    (version,) = (each for each in defined["spec"]["versions"] if each["name"] == "v1alpha2")
    schema = read_openapi(version["schema"]["openAPIV3Schema"])
    schema["kind"], schema["apiVersion"] = {defined["spec"]["names"]["kind"]}, {"jobset.x-k8s.io/v1alpha2"}
    (job_set,) = (each for each in printed(*words) if each["kind"] == "JobSet")
    assert faults(job_set, schema, "JobSet") == []
    job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["imagee"] = "odd"
    assert len(faults(job_set, schema, "JobSet")) == 1


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


def test_the_head_chooses_the_values_that_the_topology_leaves_out(tmp_path: Path) -> None:
    asked, sent = tmp_path / "asked.yaml", tmp_path / "sent.yaml"
    asked.write_text(
        "env: {id: CartPole-v1}\nalgorithm: {name: ppo}\noptimizer: {learning_rate: 4e-3, learning_rate_final: 2.e-3}\n"
    )
    keys = ["mode=gossip", "learners.count=2", "nodes.count=2", "optimizer.learning_rate=1e-3"]
    result = ask("manifest", asked, *keys, "--image", "me")
    assert result.exit_code == 0, result.output
    sent.write_text(next(yaml.safe_load_all(result.stdout))["data"]["topology.yaml"])
    here, there = load(asked, [*keys, "nodes.listen=0.0.0.0:5555"]), load(sent)
    assert there == here
    left = {*BY_CORES, *BY_STEP_TIME, "simulators.envs"}
    assert left.isdisjoint(here.written) and left.isdisjoint(there.written)


def test_pods_mount_the_volumes_that_they_have() -> None:
    for job in printed()[1]["spec"]["replicatedJobs"]:
        pod = job["template"]["spec"]["template"]["spec"]
        mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_names_are_those_that_kubernetes_allows() -> None:
    names = [each["metadata"]["name"] for each in printed("name=A_very_Long_name_" + "x" * 40)]
    assert names[1] == ("a-very-long-name-" + "x" * 40)[:40] and names[0] == f"{names[1]}-topology"
