"""Environments of other packages in whole runs, by the shipped topologies: a few updates of each that is installed."""

from __future__ import annotations

import pytest

from tests.system.conftest import Start
from tests.system.launched import finished

pytestmark = [pytest.mark.system, pytest.mark.nightly, pytest.mark.timeout(240)]

SMALL = ["simulators.count=1", "simulators.envs=4", "algorithm.horizon=64", "algorithm.epochs=1"]
FAMILIES = {
    "minatar-breakout": "minatar",
    "minatar-space-invaders": "minatar",
    "minigrid": "minigrid",
    "minigrid-doorkey": "minigrid",
    "nethack": "nle",
    "vizdoom-basic": "vizdoom",
}
"""Topology -> the package it needs."""


@pytest.mark.parametrize("topology", FAMILIES)
def test_a_topology_of_another_package_plays_and_learns(launched: Start, topology: str) -> None:
    package = FAMILIES[topology]
    pytest.importorskip(package, reason=f"pip install 'actorlearn[{package}]'")
    run = launched(topology, *SMALL, "algorithm.minibatches=2", "total_steps=3_000")
    summary = finished(run)
    assert summary["updates"] >= 10 and summary["deaths"] == 0 and summary["complaints"] == 0
    assert run.events("died") == [] and run.leftovers() == []
