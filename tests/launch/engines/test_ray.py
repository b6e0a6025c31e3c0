"""The engine ``ray`` without a cluster: the resources of a node, and a missing package."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.engines.ray import RayEngine, read_resources
from launch.errors import RunError
from launch.topology.schema import NodesSection


def test_a_node_has_one_cpu_unless_the_topology_says_otherwise() -> None:
    assert read_resources([]) == {"CPU": 1.0}
    assert read_resources(["CPU=16", "GPU=0.5", "big=1"]) == {"CPU": 16.0, "GPU": 0.5, "big": 1.0}


@pytest.mark.parametrize("option", ["GPU", "GPU=", "=1", "GPU=-1", "GPU=nan", "GPU=one", "GPU = 1"])
def test_an_option_that_is_no_resource_of_ray_is_refused(option: str) -> None:
    with pytest.raises(RunError, match="not a resource of Ray; write NAME=NUMBER, such as GPU=1"):
        read_resources([option])


def test_without_the_package_ray_its_install_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launch.engines.ray.is_installed", lambda _package: False)
    with pytest.raises(RunError, match="pip install 'actorlearn\\[ray\\]'"):
        RayEngine(tmp_path, NodesSection())
    assert list(tmp_path.iterdir()) == []
