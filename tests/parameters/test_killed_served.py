"""Learners and parameter servers that get SIGKILL: with a quorum, no change is missed and none is applied twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from actorlearn.parameters.shard_frames import LearnerRow
from tests.parameters.killed_served import CELLS, World
from tests.parameters.witness import Witness, made_of

LEARNERS_POINTS = ("served.clipped", "server_lines.sent", "server_lines.answered", "served.stepped")
"""Before a gradient is sent; sent and not answered; answered, by one server or all; answered and not settled."""
SERVERS_POINTS = ("parameter_server.changed", "parameter_server.kept", "parameter_server.answered")
"""Before a version is in shared memory; in it and not answered; answered, to some learners or all."""


def worlds(quorum: int, nths: tuple[int, ...]) -> list[str]:
    """A world for each failpoint and hit, and two in which several processes die."""
    learners = [f"{quorum},trainer-1:{point}=kill@{nth}" for point in LEARNERS_POINTS for nth in nths]
    servers = [f"{quorum},parameter_server-{nth % 2}:{point}=kill@{nth}" for point in SERVERS_POINTS for nth in nths]
    after = [f"trainer-{n}:{point}=kill@{6 + 8 * n}" for n, point in enumerate(LEARNERS_POINTS)]
    meanwhile = [f"parameter_server-{n}:{point}=kill@{15 + 15 * n}" for n, point in enumerate(SERVERS_POINTS[:2])]
    return [*learners, *servers, ",".join([str(quorum), *after]), ",".join([str(quorum), *after[:2], *meanwhile])]


def judged(folder: Path, wanted: list[str]) -> list[dict[str, int]]:
    """Run worlds, which must be found in order; return the counts of each."""
    command = [sys.executable, "-m", "tests.parameters.killed_served", str(folder), *wanted]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30 + 8 * len(wanted))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.system
@pytest.mark.timeout(300)
@pytest.mark.parametrize("quorum", [3, 4])
def test_wherever_a_learner_or_a_server_is_killed_each_change_is_applied_once_or_dropped(
    tmp_path: Path, quorum: int
) -> None:
    wanted = worlds(quorum, (15,))
    found = judged(tmp_path, wanted)
    assert [world["deaths"] for world in found] == [world.count("=kill@") for world in wanted]
    assert any(world["dropped"] for world in found) == (quorum == 3)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("quorum", [2, 3, 4])
def test_after_a_kill_at_many_moments_each_change_is_applied_once_or_dropped(tmp_path: Path, quorum: int) -> None:
    wanted = worlds(quorum, (1, 2, 4, 7, 12, 20, 33))
    found = judged(tmp_path, wanted)
    assert [world["deaths"] for world in found] == [world.count("=kill@") for world in wanted]


def test_the_judge_finds_changes_that_were_applied_or_lost_without_being_counted(tmp_path: Path) -> None:
    world = World(tmp_path, 3, {})
    (tmp_path / "answers-3").touch()
    versions = torch.zeros(CELLS)
    world.judge_changes(versions, LearnerRow(), 0, 3)
    versions[0] = 1.0
    with pytest.raises(AssertionError, match="0 handled, 1 applied"):
        world.judge_changes(versions, LearnerRow(), 0, 3)
    with pytest.raises(AssertionError, match="2 handled, 1 applied, 0 dropped"):
        world.judge_changes(versions, LearnerRow(handled=1), 0, 3)


def test_a_witness_finds_a_change_that_was_applied_twice() -> None:
    """Two learners of two changes each; the first change of both makes version 1, that of the second also version 2."""
    witness = Witness(4)
    both = torch.tensor([0.5, 0.0, 0.5, 0.0])
    witness.change(both, ())
    (versions, _), _ = witness.state()
    assert made_of(witness.weights, versions, 2) == {1: [0, 1]}
    witness.change(torch.tensor([0.0, 0.5, 0.5, 0.0]), ())
    with pytest.raises(AssertionError):
        made_of(witness.weights, versions, 2)
