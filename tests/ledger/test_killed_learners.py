"""One of several learners dies during an exchange: each row is still learned from once an epoch.

In modes sync and async the final weights count rows. In mode gossip weights are means, so gradients are counted.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actorlearn.processes.counts import Reports
from launch.topology.load import parse
from tests.ledger.oracle import times_used
from tests.ledger.world import BASE, World, topology

EPOCHS = 2
PPO: dict[str, Any] = {"name": "ppo", "epochs": EPOCHS, "minibatches": 3, "normalize_reward": False}
PLACES = {
    "sync": ("barrier.written", "barrier.arrived", "allreduce.adopted", "allreduce.agreed", "allreduce.stepped"),
    "async": ("store.written", "store.committed", "record.written", "record.committed"),
    "gossip": ("shared_counts.claimed", "gossip.posted", "record.written", "update.settled", "trainer.published"),
    "experience": ("experience.made", "experience.posted", "update.learned", "update.settled"),
}
SECTIONS: dict[str, dict[str, Any]] = {"experience": {"mode": "gossip", "gossip": {"graph": "none", "experience": 3}}}
"""Sections of a case that is no mode: learners that share experience and no weights."""


def run(folder: Path, mode: str, learners: int, arms: str) -> World:
    simulators = {"count": learners, "envs": 3}
    steps = 90 * learners
    own = SECTIONS.get(mode, {"mode": mode})
    of = topology(**own, algorithm=PPO, learners={"count": learners}, simulators=simulators, total_steps=steps)
    world = World(folder, of)
    world.victim = f"trainer-{learners - 1}.0"
    assert world.run(arms=arms) == 0, world.summary
    assert not world.errors
    return world


def judge_gossip(world: World, where: str) -> None:
    """Check that no row is in more gradients of a learner than there are epochs, and that all steps are counted."""
    made = Counter((peer.rpartition(".")[0], row) for peer, rows in world.applied for row in rows)
    assert {row: times for row, times in made.items() if times > EPOCHS} == {}, where
    learned = {number: trainer.members.next for number, trainer in world.trainers.items()}
    due = [step for step in world.produced if step.rollout < learned[step.learner]]
    counted = world.summary["steps_used"] + world.summary["steps_dropped"]
    assert counted == len(due), where
    assert world.summary["steps_dropped"] == world.summary["dropped_rolled_back"], where


def judge(world: World, where: str) -> None:
    """Check that each row of the learned rollouts is in the weights once an epoch, and that all are counted."""
    used = times_used(world)
    learned = {number: trainer.members.next for number, trainer in world.trainers.items()}
    due = {step.row for step in world.produced if step.rollout < learned[step.learner]}
    assert {row: times for row, times in used.items() if times != EPOCHS} == {}, where
    assert used.keys() == due, where
    assert world.summary["steps_used"] == len(used), where
    assert world.summary["steps_dropped"] == 0, where


def kills(folder: Path, mode: str, learners: int, every: int) -> int:
    """Kill the last learner at every ``every``-th hit of each place; return the number of kills."""
    whole = run(folder / "whole", mode, learners, "")
    judged = judge_gossip if mode in ("gossip", "experience") else judge
    judged(whole, "nobody was killed")
    learner_of = {step.row: f"trainer-{step.learner}" for step in whole.produced}
    foreign = [row for peer, rows in whole.applied for row in rows if learner_of[row] != peer.rpartition(".")[0]]
    assert bool(foreign) == (mode == "experience")
    tried = 0
    for place in PLACES[mode]:
        hits = whole.arms.hits[place]
        assert hits, f"no learner reaches {place}"
        for nth in range(1 + len(place) % every, hits // 2, every):  # early, so that it rejoins the others
            world = run(folder / f"{place}-{nth}", mode, learners, f"{place}=raise@{nth}")
            assert world.summary["deaths"] == 1
            judged(world, f"{place}@{nth}")
            tried += 1
    return tried


@pytest.mark.parametrize(
    ("mode", "learners", "every"),
    [
        pytest.param("sync", 2, 7, marks=pytest.mark.nightly),
        pytest.param("sync", 3, 11, marks=pytest.mark.nightly),
        ("async", 2, 17),
        pytest.param("gossip", 2, 7, marks=pytest.mark.nightly),
        ("experience", 2, 1),
    ],
)
def test_wherever_a_learner_dies_each_row_is_learned_from_once_an_epoch(
    tmp_path: Path, mode: str, learners: int, every: int
) -> None:
    assert kills(tmp_path, mode, learners, every) >= 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "learners"), [("sync", 2), ("sync", 3), ("async", 3), ("gossip", 3), ("experience", 3)]
)
def test_at_every_place_a_learner_dies_each_row_is_learned_from_once_an_epoch(
    tmp_path: Path, mode: str, learners: int
) -> None:
    print(mode, learners, kills(tmp_path, mode, learners, 1))


def test_no_rate_is_negative_after_local_steps_are_lost_with_their_learner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reports, "due", True)  # after each update
    sections = {
        "mode": "async",
        "algorithm": {**PPO, "horizon": 3},
        "learners": {"count": 2, "local_steps": 100},
        "optimizer": {"name": "adam"},
        "simulators": {"count": 2, "envs": 3},
        "total_steps": 400,
    }
    world = World(tmp_path, parse(json.dumps({**BASE, **sections})))
    world.victim = "trainer-1.0"
    assert world.run(arms="trainer.published=raise@9") == 0, world.summary
    assert world.summary["deaths"] == 1 and world.summary["dropped_rolled_back"]
    assert [row["env_steps_per_s"] for row in world.rows if (row.get("env_steps_per_s") or 0.0) < 0.0] == []
