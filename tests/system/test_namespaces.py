"""Runs over four nodes in network namespaces: they learn, and what a fault costs is what it should."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from actorlearn.parameters.checkpoint import load
from tests.system.agents import Agents, node_of
from tests.system.conftest import Command, Start
from tests.system.launched import Launched
from tests.system.namespaces import Namespaces, namespaces
from tests.system.ways import CATCH, LEARNS

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(900)]

NODES = ["n1", "n2", "n3", "n4"]
TRAINERS = [f"trainer-{learner}" for learner in range(4)]
MODES = {"sync": ["mode=sync"], "gossip": ["mode=gossip", "gossip.graph=ring", "gossip.max_staleness=4"]}
"""Mode -> words of a topology."""
FOUR = ["learners.count=4", "simulators.count=1", "inference.count=0", "trainer.threads=1", "simulators.pin=false"]


@pytest.fixture
def network() -> Iterator[Namespaces]:
    with namespaces(*NODES) as made:
        yield made


@pytest.fixture
def agents(environment: dict[str, str], tmp_path: Path, command: Command, network: Namespaces) -> Iterator[Agents]:
    with Agents(tmp_path, environment, command, NODES, network) as made:
        yield made


def everywhere(run: Launched) -> None:
    """Every learner is on a node of its own, and has rows."""
    assert {node_of(run, trainer) for trainer in TRAINERS} == set(NODES)
    assert run.rows()[-1]["learners"].keys() == set(TRAINERS)


@pytest.mark.parametrize("mode", MODES)
def test_catch_is_learned_on_four_nodes(launched: Start, network: Namespaces, agents: Agents, mode: str) -> None:
    agents.start(*NODES)
    words = [*CATCH, *LEARNS["a2c"], *MODES[mode], *FOUR, *agents.options, "nodes.lease_s=20"]
    run = launched("catch", *words, by=network.enter("head"))
    run.wait_for_score(0.5)  # who moves at random has -0.6
    everywhere(run)
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    assert agents.end() == [0] * 4 and run.leftovers() == []
    assert run.events("died") == run.events("lost") == []


@pytest.mark.parametrize("mode", MODES)
def test_pong_is_played_on_four_nodes(launched: Start, network: Namespaces, agents: Agents, mode: str) -> None:
    agents.start(*NODES)
    words = [*MODES[mode], *FOUR, "total_steps=6000", "simulators.envs=4", *agents.options, "nodes.lease_s=20"]
    run = launched("pong", *words, by=network.enter("head"))
    assert run.end(600) == 0, run.screen()
    everywhere(run)
    assert agents.end() == [0] * 4 and run.leftovers() == []
    assert run.events("died") == run.events("lost") == []
    if mode == "sync":
        saved = [load(Path(run.events("saved", trainer)[-1]["path"])).section("weights") for trainer in TRAINERS]
        assert all(torch.equal(saved[0][name], other[name]) for other in saved[1:] for name in saved[0])
