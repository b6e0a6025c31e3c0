"""Rollouts shared by learners: each message is taken once and whole, without waiting, and gathered like own rows."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from actorlearn.failpoints import Killed, armed
from actorlearn.learning.reward_scale import RewardScale
from actorlearn.memory.rollout import Rollouts, rollouts_fields
from actorlearn.memory.shared import Segment
from actorlearn.processes.batches import Gatherer
from tests.parameters.posting_experience import ENVS, GROUPS, T, experience, fill, parts
from tests.sizes import ROOT

STEPS = T * GROUPS * ENVS


def test_the_newest_rollout_is_taken_once_and_one_from_before_the_start_never(tmp_path: Path) -> None:
    one, played = experience(tmp_path, 1, 2), parts(tmp_path / "blocks")
    fill(played, 7)
    one.post(0, played, version=9)
    other = experience(tmp_path, 0, 2)
    assert other.take() == []  # an earlier incarnation may have taken it
    for number in (8, 9):
        fill(played, number)
        one.post(0, played, version=number + 2)
    (rows,) = other.take()
    assert (rows["reward"] == 9).all() and rows["observation"].shape == (T + 1, GROUPS * ENVS, 64)
    assert other.take() == one.take() == []
    assert other.metrics() == {"foreign_steps": STEPS, "foreign_lag_mean": 2.0, "foreign_messages_refused": 0}
    assert other.metrics() == {"foreign_steps": 0, "foreign_messages_refused": 0}


def test_a_learner_takes_the_rollouts_of_its_in_peers_without_waiting(tmp_path: Path) -> None:
    ring = [experience(tmp_path, learner, 3, graph="ring") for learner in range(3)]
    assert [own.take() for own in ring] == [[], [], []]
    played = parts(tmp_path / "blocks")
    for number, own in enumerate(ring[:2]):
        fill(played, number)
        own.post(0, played, version=0)
    assert [[float(rows["reward"][0, 0]) for rows in own.take()] for own in ring] == [[], [0.0], [1.0]]


def test_a_message_with_room_for_few_environments_has_other_ones_each_time(tmp_path: Path) -> None:
    one, other = (experience(tmp_path, learner, 2, environments=4) for learner in (1, 0))
    played, seen = parts(tmp_path / "blocks"), set()
    fill(played, 0)
    assert other.take() == []
    for rollout in range(20):
        for part in played:
            for name in ("observation", "reward", "action", "log_prob"):
                shape = part.blocks.block(name, part.group, 0).shape
                own = np.arange(ENVS).reshape(1, ENVS, *[1] * (len(shape) - 2)) + part.group * ENVS
                part.blocks.block(name, part.group, 0)[:] = own
        one.post(rollout, played, version=0)
        (rows,) = other.take()
        assert rows["action"].shape == (T + 1, 4)
        for name in ("reward", "log_prob"):
            assert np.array_equal(rows[name], rows["action"])
        seen |= {int(environment) for environment in rows["action"][0]}
        assert len(set(rows["action"][0].tolist())) == 4
    assert len(seen) > ENVS


def test_a_message_with_numbers_that_are_not_finite_is_refused(tmp_path: Path) -> None:
    one, other, played = experience(tmp_path, 1, 2), experience(tmp_path, 0, 2), parts(tmp_path / "blocks")
    other.take()
    fill(played, 1)
    played[1].blocks.block("log_prob", 1, 0)[2, 3] = np.nan
    one.post(0, played, version=1)
    assert other.take() == []
    assert other.metrics() == {"foreign_steps": 0, "foreign_messages_refused": 1}


def test_rows_of_other_learners_are_gathered_as_their_own_learner_gathers_them(tmp_path: Path) -> None:
    one, other = experience(tmp_path, 1, 2), experience(tmp_path, 0, 2)
    rollouts = Rollouts(Segment.create(tmp_path / "rollouts", rollouts_fields()))
    mine, theirs = parts(tmp_path / "mine"), parts(tmp_path / "theirs")
    other.take()
    for number, played in enumerate((mine, theirs)):
        fill(played, number + 2)
        played[0].blocks.block("first", 0, 0)[2, 1] = True
    one.post(0, theirs, version=5)
    scale = RewardScale(0.9)
    columns = ["log_prob", "state"]
    gatherer = Gatherer(rollouts, "cpu", columns, rewards=scale)
    own, whole = (
        gatherer.gather(0, mine, version=3),
        Gatherer(rollouts, "cpu", columns).gather(0, theirs, version=3),
    )
    both = gatherer.share(own, other.take()).shared
    assert both is not None
    assert own.returns is not None and own.steps == STEPS - 1, "steps of others are not counted"
    half = torch.arange(GROUPS * ENVS)
    for part, expected in ((half, own.batch), (half + GROUPS * ENVS, whole.batch)):
        found = both.environments(part)
        for name in ("observation", "action", "terminated", "truncated", "life_lost", "first", "valid"):
            assert torch.equal(getattr(found, name), getattr(expected, name)), name
        assert all(torch.equal(found.columns[name], expected.columns[name]) for name in columns)
    assert torch.equal(both.reward[:, GROUPS * ENVS :], whole.batch.reward / own.returns.deviation)


def test_rows_of_other_learners_that_are_too_old_are_not_learned_from(tmp_path: Path) -> None:
    one, other = experience(tmp_path, 1, 2), experience(tmp_path, 0, 2)
    rollouts = Rollouts(Segment.create(tmp_path / "rollouts", rollouts_fields()))
    mine, theirs = parts(tmp_path / "mine"), parts(tmp_path / "theirs")
    other.take()
    fill(mine, 5)
    fill(theirs, 0)
    theirs[1].blocks.block("policy_version", 1, 0)[:] = [0, 1, 2, 3, 4, 5]  # of the weights that chose each action
    one.post(0, theirs, version=5)
    gatherer = Gatherer(rollouts, "cpu", ["log_prob", "state"], most_lag=2)
    both = gatherer.share(gatherer.gather(0, mine, version=5), other.take()).shared
    assert both is not None
    mine_valid, stale, mixed = both.valid.split([GROUPS * ENVS, ENVS, ENVS], dim=1)
    assert mine_valid.all() and not stale.any(), "the first group acted with weights of version 0"
    assert mixed.all(dim=1).tolist() == mixed.any(dim=1).tolist() == [False, False, False, True, True]


@pytest.mark.parametrize("place", ["experience.made", "experience.posted"])
def test_a_death_while_posting_leaves_the_old_or_the_new_message(tmp_path: Path, place: str) -> None:
    one, other, played = experience(tmp_path, 1, 2), experience(tmp_path, 0, 2), parts(tmp_path / "blocks")
    other.take()
    for number in (1, 2):
        fill(played, number)
        with armed(f"{place}=raise@2" if number == 1 else ""):
            one.post(0, played, version=number)
            if number == 1:
                fill(played, 5)
                with pytest.raises(Killed):
                    one.post(0, played, version=5)
        (rows,) = other.take()
        expected = number if number == 2 or place == "experience.made" else 5
        assert (rows["reward"] == expected).all()
        one = experience(tmp_path, 1, 2)  # its next incarnation


@contextmanager
def posting(folder: Path, learner: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that posts until it is killed at the end."""
    command = [sys.executable, "-m", "tests.parameters.posting_experience", str(folder), str(learner)]
    writer = subprocess.Popen(command, cwd=ROOT)
    try:
        yield writer
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()


@pytest.mark.timeout(120)
def test_no_rollout_is_torn_while_learners_post_are_killed_and_come_back(tmp_path: Path) -> None:
    reader = experience(tmp_path, 0, 3)
    for _ in range(3):
        with posting(tmp_path, 1), posting(tmp_path, 2) as second:
            taken, deadline_s = 0, time.monotonic() + 30
            while taken < 20 and time.monotonic() < deadline_s:
                if taken == 10:
                    second.send_signal(signal.SIGSTOP)  # perhaps in the middle of a message; the other goes on
                for rows in reader.take():
                    taken += 1
                    number = int(rows["reward"][0, 0])
                    for name in ("reward", "observation", "action", "log_prob", "state"):
                        assert (rows[name] == number).all(), name
            assert taken >= 20
            second.send_signal(signal.SIGCONT)
    reader.close()
