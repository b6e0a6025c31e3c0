"""A secondary learner: equal to the primary with equal minibatches, without effect on it, restored with it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from actorlearn.learning.secondary import LearningWithSecondary
from actorlearn.learning.update import Learning
from actorlearn.memory.shared import Segment
from actorlearn.parameters import checkpoint
from actorlearn.parameters.interface import Stopped
from actorlearn.parameters.published import Published, weights_fields
from tests.learning.made import batch as any_batch
from tests.learning.made import due, pass_over
from tests.learning.replayed import Played, replaying, source
from tests.newest import newest_checkpoint

ROLLOUT = 10
"""Steps of a rollout, with which 5 minibatches of 4 are due, or 2.5 of 8."""


def pair(
    folder: Path, batch_size: int, numbers: dict[str, Any] | None = None, **algorithm: Any
) -> tuple[Learning, Learning]:
    """A primary with minibatches of 4, and its secondary."""
    folder.mkdir(exist_ok=True)
    if not (folder / "secondary").exists():
        size = replaying(folder, numbers, **algorithm).weights.numel()
        Segment.create(folder / "secondary", weights_fields(size)).close()
    made = replaying(folder, {"secondary_batch_size": batch_size, **(numbers or {})}, **algorithm)
    assert isinstance(made, LearningWithSecondary)
    return made, made.secondary


def learn(made: Learning, played: Played, rollouts: range) -> list[dict[str, float]]:
    told = []
    for rollout in rollouts:
        batch, steps = played.rollout(rollout), ROLLOUT * rollout
        told.append(pass_over(made, batch, steps, rollout))
    return told


def target_of(learner: Learning) -> torch.Tensor:
    return source(learner).target.weights


@pytest.mark.parametrize("algorithm", [{}, {"double": True, "n_step": 2}])
def test_with_the_same_minibatches_the_secondary_equals_the_primary(tmp_path: Path, algorithm: dict[str, Any]) -> None:
    made, secondary = pair(tmp_path, 4, **algorithm)
    start = made.weights.clone()
    assert torch.equal(start, secondary.weights)
    source(secondary).random = copy.deepcopy(source(made).random)
    *_, told = learn(made, Played(tmp_path, made), range(6))
    assert not torch.equal(made.weights, start)
    assert torch.equal(made.weights, secondary.weights)
    assert torch.equal(target_of(made), target_of(secondary))
    assert (told["loss"], told["minibatches"]) == (told["secondary_loss"], told["secondary_minibatches"])


def test_the_secondary_draws_for_itself_and_does_not_change_the_primary(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    (made, secondary), alone = pair(tmp_path, 4), replaying(tmp_path / "alone")
    learn(made, Played(tmp_path, made), range(5))
    learn(alone, Played(tmp_path / "alone", alone), range(5))
    assert torch.equal(made.weights, alone.weights)
    assert not torch.equal(made.weights, secondary.weights)


def test_both_consume_as_many_transitions_whatever_the_sizes_of_their_minibatches(tmp_path: Path) -> None:
    made, _ = pair(tmp_path, 8)
    told = learn(made, Played(tmp_path, made), range(6))
    assert [numbers["minibatches"] for numbers in told] == [0, 0, 5, 5, 5, 5]
    assert [numbers["secondary_minibatches"] for numbers in told] == [0, 0, 2, 3, 2, 3]


@pytest.mark.parametrize("base", [None, 2])
def test_the_secondarys_epsilon_is_scaled_to_its_own_batch_size(tmp_path: Path, base: int | None) -> None:
    made, secondary = pair(tmp_path, 8, {"base_batch_size": base})
    assert secondary.optimizer_settings.epsilon == made.optimizer_settings.epsilon / 2


def test_only_the_primary_changes_priorities(tmp_path: Path) -> None:
    made, secondary = pair(tmp_path, 4, {"prioritised": True})
    learn(made, Played(tmp_path, made), range(3))
    before = source(made).replay.sampler.arrays()["priority"].copy()
    secondary.learn_from(source(secondary).draw_one(0), 0)
    np.testing.assert_array_equal(source(made).replay.sampler.arrays()["priority"], before)
    for _ in range(10):  # new transitions have the priority of errors of 1 and more
        made.learn_from(source(made).draw_one(0), 0)
    assert not np.array_equal(source(made).replay.sampler.arrays()["priority"], before)


def test_primary_and_secondary_continue_from_a_checkpoint_bit_for_bit(tmp_path: Path) -> None:
    made, secondary = pair(tmp_path / "made", 8, {"save": True})
    learn(made, Played(tmp_path / "made", made), range(4))
    checkpoint.save(tmp_path / "saved", 40, made.tensors(), {"env_steps": 40, "rollouts_learned": 4}, 1, made.save)
    other, other_secondary = pair(tmp_path / "other", 8, {"save": True})
    other.restore(newest_checkpoint(tmp_path / "saved"))
    told = []
    for learner in (made, other):  # from the saved replay alone: new rollouts are not joined to it
        for rollout in (4, 5, 6):
            told.append(pass_over(learner, any_batch(), ROLLOUT * rollout, rollout))
    assert told[:3] == told[3:]
    assert [numbers["secondary_minibatches"] for numbers in told[:3]] == [2, 3, 2]
    assert torch.equal(other.weights, made.weights) and torch.equal(other_secondary.weights, secondary.weights)
    assert torch.equal(target_of(other_secondary), target_of(secondary))


def test_a_broken_off_pass_of_the_secondary_is_finished_without_repeating_the_primarys(tmp_path: Path) -> None:
    made, _ = pair(tmp_path, 4)
    played = Played(tmp_path, made)
    learn(made, played, range(2))
    batch, calls = played.rollout(2), iter(range(100))
    with pytest.raises(Stopped):
        pass_over(made, batch, 20, 2, lambda: next(calls) < 4 + 2)
    assert due(made, batch, 20) == 0
    assert pass_over(made, batch, 20, 2)["secondary_minibatches"] == 2


def test_primary_and_secondary_publish_their_own_weights(tmp_path: Path) -> None:
    made, secondary = pair(tmp_path, 8)
    learn(made, Played(tmp_path, made), range(4))
    primary = Published(Segment.create(tmp_path / "weights-0", weights_fields(made.weights.numel())))
    assert made.publish(primary, 40) == 0
    for published, learner in ((primary, made), (Published(Segment.open(tmp_path / "secondary")), secondary)):
        shown = np.empty(published.size, np.float32)
        assert published.fetch(shown) == (0, 40)
        np.testing.assert_array_equal(shown, learner.weights.numpy())
