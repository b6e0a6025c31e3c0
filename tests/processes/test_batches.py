"""Gathered rollouts: stale steps, counts and running returns, however often a rollout is gathered."""

from __future__ import annotations

from pathlib import Path

import torch

from actorlearn.learning.reward_scale import RewardScale
from actorlearn.memory.account import Account, account_fields
from actorlearn.memory.rollout import Blocks, GroupRollout, Rollouts, make_segment, rollouts_fields
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes.batches import Gatherer
from actorlearn.processes.counts import TrainerCounts
from tests.blocks import block_shape

T, ENVS, ROLLOUT = 3, 2, 5
SHAPE = block_shape(groups=2, horizon=T, envs_per_group=ENVS)


def played(folder: Path) -> list[GroupRollout]:
    """Blocks of two groups: the second acts by weights three versions older, and begins a game in its first step."""
    blocks = Blocks(make_segment(folder / "simulator-0.0", SHAPE))
    for group, version in ((0, 9), (1, 6)):
        for name in blocks.columns:
            blocks.block(name, group, ROLLOUT)[:] = 0
        blocks.block("policy_version", group, ROLLOUT)[:] = version
        blocks.block("reward", group, ROLLOUT)[:] = 1.0 + group
    blocks.block("first", 1, ROLLOUT)[1] = True
    blocks.block("reward", 1, ROLLOUT)[1] = 0.0
    blocks.block("terminated", 1, ROLLOUT)[T] = True
    return [GroupRollout("simulator-0.0", blocks, group) for group in (0, 1)]


def rollouts(folder: Path) -> Rollouts:
    return Rollouts(Segment.create(folder / "rollouts", rollouts_fields()))


def test_stale_steps_are_left_out_and_counted_once_when_the_rollout_is_finished(tmp_path: Path) -> None:
    parts, account = played(tmp_path), Account(Segment.create(tmp_path / "account", account_fields()))
    gatherer, counts = Gatherer(rollouts(tmp_path), "cpu", most_lag=2), TrainerCounts(account, Episodes())
    account.rollouts_learned = ROLLOUT
    twice = [gatherer.gather(ROLLOUT, parts, version=9) for _ in range(2)]
    for gathered in twice:
        assert (gathered.rollout, gathered.steps, gathered.stale) == (ROLLOUT, T * ENVS, (T - 1) * ENVS)
        assert gathered.batch.observation.shape == (T + 1, 2 * ENVS, 2)
        assert gathered.batch.reward.shape == (T, 2 * ENVS)
    assert counts.account.steps.dropped_steps == counts.episodes.finished == 0
    counts.finish_rollout(twice[1])
    assert (account.steps.dropped["stale"], account.rollouts_learned) == ((T - 1) * ENVS, ROLLOUT + 1)
    assert (counts.episodes.finished, counts.episodes.mean()) == (ENVS, 2.0 * (T - 1))


def test_running_returns_that_scale_rewards_advance_only_when_a_rollout_is_learned(tmp_path: Path) -> None:
    parts, scale = played(tmp_path), RewardScale(0.9)
    gatherer = Gatherer(rollouts(tmp_path), "cpu", rewards=scale)
    before = scale.state()
    once, again = (gatherer.gather(ROLLOUT, parts, version=9) for _ in range(2))
    assert torch.equal(once.batch.reward, again.batch.reward) and scale.state() == before
    assert again.returns is not None and set(again.returns.running) == {part.owner for part in parts}
    scale.note_learned(again.returns)
    assert set(scale.state()["returns"]) == {"simulator-0.0/0", "simulator-0.0/1"}
