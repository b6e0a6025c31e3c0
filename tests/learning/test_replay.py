"""Learning from a replay: which minibatches are due, their targets and priorities, and what a restart keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from actorlearn import failpoints
from actorlearn.address import Shm
from actorlearn.learning.minibatches import Minibatch
from actorlearn.learning.update import Learning
from actorlearn.memory.shared import Segment
from actorlearn.parameters import checkpoint
from actorlearn.parameters.allreduce import Sync
from actorlearn.parameters.barrier import barrier_fields, rows_fields
from actorlearn.parameters.consumed import Position
from actorlearn.parameters.interface import Stopped
from actorlearn.parameters.settings import SyncExchangeSettings
from actorlearn.replay.rings import Rings
from tests.learning.made import batch as any_batch
from tests.learning.made import due, pass_over
from tests.learning.replayed import ENVS, HORIZON, Played, replaying, source
from tests.newest import newest_checkpoint

NOWHERE = Minibatch(any_batch())
"""Drawn from no replay."""


def only_counting(made: Learning, did: Callable[[], object] = lambda: None) -> None:
    """Let minibatches be counted without drawing or learning; ``did`` is called for each."""

    def learn_from(minibatch: Minibatch, env_steps: int, computed: object = None) -> bool:
        did()
        source(made).note_learned(minibatch, True, {"priority": torch.zeros(1, 4)})
        return True

    source(made).draw_one = lambda env_steps: NOWHERE  # type: ignore[method-assign]
    made.learn_from = learn_from  # type: ignore[method-assign]


def test_the_optimizers_epsilon_is_scaled_to_the_batch_size(tmp_path: Path) -> None:
    plain = replaying(tmp_path, {"batch_size": 8})
    made = replaying(tmp_path, {"batch_size": 8, "base_batch_size": 2})
    assert made.learning_rates(0) == plain.learning_rates(0)  # rate_scaling is none
    assert made.optimizer_settings.epsilon == plain.optimizer_settings.epsilon / 4
    assert plain.optimizer_settings.epsilon == plain.settings.optimizer.epsilon


@given(
    rollouts=st.lists(st.integers(1, 30), max_size=40),
    ratio=st.sampled_from([0.3, 1.0, 8.0]),
    learners=st.sampled_from([1, 2]),
)
def test_as_many_minibatches_are_learned_as_the_steps_allow_and_none_is_lost(
    tmp_path_factory: pytest.TempPathFactory, rollouts: list[int], ratio: float, learners: int
) -> None:
    made = replaying(tmp_path_factory.mktemp("due"), {"ratio": ratio})
    if learners > 1:
        made.minibatches.together = learners  # as when they have joined
    only_counting(made)
    env_steps = done = 0
    for steps in [0, *rollouts]:
        env_steps += steps
        done += due(made, any_batch(), env_steps)
        pass_over(made, any_batch(), env_steps, 0)
        allowed = (env_steps - 10 * learners) * ratio / (4 * learners)
        assert max(allowed - 1, 0) <= done + 1e-9
        assert done <= max(allowed, 0) + 1e-9


def test_no_minibatch_is_due_without_an_epoch(tmp_path: Path) -> None:
    made = replaying(tmp_path, epochs=0)
    assert [due(made, any_batch(), steps) for steps in (0, 1000)] == [0, 0]


def test_the_target_network_is_renewed_at_whole_periods_of_steps(tmp_path: Path) -> None:
    made = replaying(tmp_path)
    played = Played(tmp_path, made)
    renewed: list[tuple[int, int]] = []
    rollout = done = 0

    def learn() -> None:
        nonlocal done
        if torch.equal(source(made).target.weights, made.weights):
            renewed.append((rollout, done))
        made.weights.add_(1.0)
        done += 1

    only_counting(made, learn)
    for rollout in range(9):
        batch, done = played.rollout(rollout), 0
        pass_over(made, batch, 10 * rollout, rollout)
    # 5 minibatches a rollout of 10 steps, from rollout 2 on: 20 steps are over at rollouts 2, 4, 6 and 8.
    assert renewed == [(2, 0), (4, 0), (6, 0), (8, 0)]


def test_a_pass_that_is_broken_off_is_finished_later_and_nothing_is_lost_or_done_twice(tmp_path: Path) -> None:
    made = replaying(tmp_path)
    done = 0

    def learn() -> None:
        nonlocal done
        done += 1

    only_counting(made, learn)
    for steps in (0, 20):
        pass_over(made, any_batch(), steps, steps // 10)
    assert (due(made, any_batch(), 40), done) == (10, 5)
    with pytest.raises(Stopped):
        pass_over(made, any_batch(), 40, 4, lambda: done < 8)
    assert (due(made, any_batch(), 40), done) == (7, 8)
    pass_over(made, any_batch(), 40, 4)
    assert (due(made, any_batch(), 40), done) == (0, 15)


def test_a_target_network_is_not_renewed_again_when_a_pass_is_continued(tmp_path: Path) -> None:
    made = replaying(tmp_path, target_every_steps=5)  # two periods to a rollout of 10
    periods: list[int] = []
    only_counting(made, lambda: periods.append(source(made).target.period))
    for steps in (0, 20):
        due(made, any_batch(), steps)
    pass_over(made, any_batch(), 20, 2)
    periods.clear()
    due(made, any_batch(), 40)
    with pytest.raises(Stopped):
        pass_over(made, any_batch(), 40, 4, lambda: len(periods) < 8)
    pass_over(made, any_batch(), 40, 4)
    assert periods == [8] * 5 + [9] * 5


class Local:
    """A learner in mode sync that exchanges weights after every four optimizer steps; 10 are due with each rollout."""

    def __init__(self, folder: Path, numbers: dict[str, Any], algorithm: dict[str, Any]) -> None:
        folder.mkdir()
        made = self.made = replaying(folder, {"ratio": 4.0, "prioritised": True} | numbers, **algorithm)
        self._played, made.minibatches.together = Played(folder, made), 1
        segments = {"gradients": rows_fields(1, made.weights.numel()), "learners": barrier_fields(1)}
        gradients, learners = (
            Shm(str(Segment.create(folder / name, fields).path)) for name, fields in segments.items()
        )
        settings = SyncExchangeSettings(learners=1, local_steps=4, rendezvous=learners, gradients=gradients)
        made.peers.exchange = Sync(settings, made.peers.learner)
        made.exchange.join(0, 0)

    def learn(self, rollout: int, seen: list[int], most: int = 1000) -> str:
        """Learn from a rollout until ``seen`` has ``most`` minibatches; return the outcome."""
        draw_one = source(self.made).draw_one

        def drawn(env_steps: int) -> Minibatch:
            minibatch = draw_one(env_steps)
            assert minibatch.sample is not None
            seen.append(hash(minibatch.sample.cell.tobytes()))
            return minibatch

        with mock.patch.object(source(self.made), "draw_one", drawn):
            self.made.going_on = lambda: len(seen) < most
            steps = 10 * rollout
            return self.made.update(self._played.rollout(rollout), Position(rollout, steps), steps).outcome

    def state(self, folder: Path) -> dict[str, Any]:
        """All that a checkpoint has."""
        folder.mkdir()
        tensors = {name: tensor.tolist() for name, tensor in self.made.tensors().items()}
        sampler = source(self.made).replay.sampler
        arrays = {name: array.tolist() for name, array in sampler.arrays().items()}
        return {**tensors, **arrays, **sampler.state(), **self.made.save(folder)}


@pytest.mark.parametrize("stop", range(1, 10))
@pytest.mark.parametrize(
    ("numbers", "algorithm"),
    [({}, {"target_every_steps": 3}), ({"prioritised": False}, {"target_every_steps": 20})],
    ids=["prioritised", "uniform"],
)
def test_local_steps_that_were_undone_are_taken_again_with_the_same_minibatches(
    tmp_path: Path, numbers: dict[str, Any], algorithm: dict[str, Any], stop: int
) -> None:
    unbroken, broken = (Local(tmp_path / name, numbers, algorithm) for name in ("unbroken", "broken"))
    rollouts, expected = range(4), list[int]()
    for rollout in rollouts:
        assert unbroken.learn(rollout, expected) == "learned"
    for rollout in rollouts[:-1]:
        assert broken.learn(rollout, []) == "learned"
    seen = list[int]()
    assert broken.learn(3, seen, stop) == "stopped" and seen == expected[-10:][:stop]
    exchanged, again = stop - stop % 4, list[int]()
    assert broken.made.consumed.done(0, 3) == exchanged
    assert broken.learn(3, again) == "learned" and again == expected[-10:][exchanged:]
    assert broken.state(tmp_path / "of broken") == unbroken.state(tmp_path / "of unbroken")
    for learner in (unbroken, broken):
        learner.made.exchange.close()


def test_rollouts_without_a_minibatch_do_not_end_a_series_of_skipped_updates(tmp_path: Path) -> None:
    made = replaying(tmp_path, {"ratio": 0.2})  # a minibatch every other rollout
    played = Played(tmp_path, made)
    made.weights.fill_(torch.nan)
    skipped = []
    for rollout in range(8):
        steps = 10 * (rollout + 1)
        batch = played.rollout(rollout)
        none_due = due(made, batch, steps) == 0
        pass_over(made, batch, steps, rollout)
        skipped.append(made.skipped)
        assert made.finite == none_due
    assert skipped[-1] > 2 and skipped == sorted(skipped)


def test_learners_that_join_have_the_same_minibatches_due(tmp_path: Path) -> None:
    """Without other processes: the test hands over the counts (see tests/parameters/test_allreduce.py)."""
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.mkdir()
    one, new = (replaying(path) for path in paths)
    for made in (one, new):
        made.minibatches.together = 2
        only_counting(made)
    for steps in (0, 20, 40):  # one has gone on by itself, while the other was started again
        pass_over(one, any_batch(), steps, 0)
    said = np.array([made.minibatches.counts() for made in (one, new)])
    for made in (one, new):
        made.minibatches.adopt(said, 0)
        assert made.minibatches.shared_tensors[0] is source(made).target.weights
    counts = [[due(made, any_batch(), steps) for steps in (60, 80, 100)] for made in (one, new)]
    assert counts[0] == counts[1] and counts[0][-1] > 0
    assert source(one).replay.begun == source(new).replay.begun == 60  # one of them had nothing to learn from yet


def test_minibatches_that_were_due_before_learners_joined_are_due_after_it(tmp_path: Path) -> None:
    made = replaying(tmp_path)
    only_counting(made)
    for steps in (0, 20):
        pass_over(made, any_batch(), steps, 0)
    before = due(made, any_batch(), 40)
    assert made.peers.join(20, 2, Position(2, 20))
    made.minibatches.adopt(np.array([made.minibatches.counts()]), 0)
    assert due(made, any_batch(), 40) == before > 0


@pytest.mark.parametrize("starts", [10, 100])
@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0)])
def test_a_learner_resumed_in_or_out_of_step_learns_only_from_steps_since_then(
    tmp_path: Path, before: int, after: int, starts: int
) -> None:
    """In mode sync it counts the steps of all learners, in the other modes its own; of all are twice as many here."""
    numbers = {"save": True, "learning_starts_steps": starts}
    made = replaying(tmp_path, numbers)
    made.minibatches.together = before
    played = Played(tmp_path, made)
    only_counting(made)
    for rollout in range(3):  # the replay begins at step 1000 of this learner, as after a resume without a saved one
        batch = played.rollout(rollout)
        used = 1000 + 10 * rollout
        made.pass_over(batch, 2 * used, Position(rollout, used), made.due(batch, 2 * used, Position(rollout, used)))
    checkpoint.save(tmp_path / "saved", 2060, made.tensors(), {"env_steps": 2060, "rollouts_learned": 3}, 1, made.save)
    (tmp_path / "resumed").mkdir()
    resumed = replaying(tmp_path / "resumed", numbers)
    resumed.restore(newest_checkpoint(tmp_path / "saved"))
    resumed.minibatches.together = after
    only_counting(resumed)
    due_with = []
    for rollout in range(3, 16):
        position = Position(rollout, 1000 + 10 * rollout)
        due_with.append(resumed.due(batch, 2 * position.used, position))
        resumed.pass_over(batch, 2 * position.used, position, due_with[-1])
    none_due = 1 if starts == 10 else 11  # 30 stored steps are not enough if learning starts after 100
    assert due_with == [0] * none_due + [5] * (13 - none_due)


@pytest.mark.parametrize("double", [False, True])
def test_the_targets_of_a_minibatch_are_made_from_the_target_network(tmp_path: Path, double: bool) -> None:
    made = replaying(tmp_path, double=double, n_step=2, discount=0.5)
    Played(tmp_path, made).rollout(0)
    target_network = source(made).target.network
    with torch.no_grad():
        target_network.weights.mul_(-1.5)
    batch, sample = source(made).draw_one(0)[:2]
    assert sample
    following = torch.from_numpy(sample.observation[1])
    with torch.no_grad():
        target, own = (network.module(following)["q"] for network in (target_network, made.network))
    chosen = (own if double else target).argmax(-1, keepdim=True)
    expected = torch.from_numpy(sample.reward[0]) + 0.25 * target.gather(-1, chosen)[:, 0]
    torch.testing.assert_close(batch.columns["target"][0], expected)
    assert torch.equal(batch.observation, torch.from_numpy(sample.observation[:1]))


def test_a_loss_needs_no_priorities_without_a_prioritised_replay(tmp_path: Path) -> None:
    for prioritised in (False, True):
        folder = tmp_path / str(prioritised)
        folder.mkdir()
        made = replaying(folder, {"prioritised": prioritised})
        Played(folder, made).rollout(0)
        minibatch = source(made).draw_one(0)
        source(made).note_learned(minibatch._replace(sample=None), True, {})
        if not prioritised:
            source(made).note_learned(minibatch, True, {})
            continue
        with pytest.raises(ValueError, match='metric "priority", which the loss of .dqn. does not return'):
            source(made).note_learned(minibatch, True, {})


def test_priorities_are_the_errors_of_the_drawn_transitions(tmp_path: Path) -> None:
    made = replaying(tmp_path, {"prioritised": True, "alpha": 1.0, "beta": 1.0})
    Played(tmp_path, made).rollout(0)
    batch, sample = source(made).draw_one(0)[:2]
    assert sample and batch.columns["weight"].tolist() == [[1.0] * 4]  # no transition has an error yet
    with torch.no_grad():
        said = made.network.module(batch.observation[0])["q"].gather(-1, batch.action[0][:, None])[:, 0]
    made.learn_from(Minibatch(batch, sample), 0)
    error = (said - batch.columns["target"][0]).abs().clamp(max=1.0)
    priorities = source(made).replay.sampler.arrays()["priority"]
    np.testing.assert_allclose(priorities[sample.cell], error.numpy(), rtol=1e-5)


def test_the_priorities_of_a_killed_learner_are_kept_and_their_sums_made_again(tmp_path: Path) -> None:
    made = replaying(tmp_path, {"prioritised": True})
    played = Played(tmp_path, made)
    for rollout in range(3):
        played.rollout(rollout)
    sample, given = source(made).replay.sample(8, source(made).random), np.linspace(0.5, 4.0, 8)
    source(made).replay.update(sample, given)
    before = source(made).replay.sampler.arrays()["priority"].copy()
    tree = Segment.open(tmp_path / "replay")["tree"]
    tree[:2] = 99.0  # it was killed while it wrote sums
    again = source(replaying(tmp_path, {"prioritised": True})).replay
    assert again.sampler.arrays()["priority"].tolist() == before.tolist()
    assert len(set(before[before > 0.0])) > 2
    assert tree[1] == pytest.approx(before.sum())
    assert again.sampler.state()["largest"] == 4.0  # the priority of new transitions


def test_a_restarted_learner_draws_what_was_stored_and_stores_no_rollout_twice(tmp_path: Path) -> None:
    made = replaying(tmp_path)
    played = Played(tmp_path, made)
    for rollout in range(3):
        played.rollout(rollout)
    again = replaying(tmp_path)
    assert len(source(again).replay.drawable()) == len(source(made).replay.drawable()) == 3 * HORIZON * ENVS
    Played(tmp_path, again).take(2)  # it was killed while it learned from this rollout
    assert len(source(again).replay.drawable()) == len(source(made).replay.drawable())
    rewards = [
        set(source(learner).replay.sample(1000, source(learner).random).reward[0].tolist()) for learner in (again, made)
    ]
    assert rewards[0] == rewards[1]


def test_after_a_kill_at_any_failpoint_a_rollout_is_stored_once_and_joined_to_the_last(tmp_path: Path) -> None:
    def folder(name: object) -> Path:
        made = tmp_path / str(name)
        made.mkdir()
        return made

    whole = replaying(folder("whole"))
    played = Played(tmp_path / "whole", whole)
    played.rollout(0), played.rollout(1)
    with failpoints.armed() as arms:
        played.rollout(2)
    played.rollout(3)
    points = [f"{name}=raise@{nth}" for name, hits in arms.hits.items() for nth in range(1, hits + 1)]
    assert len(points) > 10
    for number, point in enumerate(points):
        here = folder(number)
        before = Played(here, replaying(here))
        before.rollout(0), before.rollout(1)
        with failpoints.armed(point), pytest.raises(failpoints.Killed):
            before.rollout(2)
        again = replaying(here)
        after = Played(here, again)
        after.take(2), after.rollout(3)
        drawn = [
            sorted(source(learner).replay.sample(2000, source(learner).random).reward[0].tolist())
            for learner in (again, whole)
        ]
        assert set(drawn[0]) == set(drawn[1]), point
        assert len(source(again).replay.drawable()) == len(source(whole).replay.drawable()) == (4 * HORIZON) * ENVS


def test_steps_that_find_no_room_in_the_replay_are_dropped_also_after_a_restart(tmp_path: Path) -> None:
    made = replaying(tmp_path)
    played = Played(tmp_path, made)
    with mock.patch.object(Rings, "place", lambda *_: None):  # all rings are taken
        assert played.rollout(0).steps == 0
        assert played.counts.account.steps.dropped["no_room"] == 0  # the rollout may be gathered again
        again = Played(tmp_path, replaying(tmp_path))
        gathered = again.take(0)
        assert gathered.steps == 0
    again.counts.finish_rollout(gathered)
    assert again.counts.account.steps.dropped["no_room"] == HORIZON * ENVS


def test_a_checkpoint_holds_the_target_network_the_counts_and_the_replay_if_asked(tmp_path: Path) -> None:
    made = replaying(tmp_path, {"save": True})
    played = Played(tmp_path, made)
    for rollout in range(3):
        batch = played.rollout(rollout)
        pass_over(made, batch, 10 * rollout, rollout)
    checkpoint.save(tmp_path / "saved", 30, made.tensors(), {"env_steps": 30, "rollouts_learned": 3}, 1, made.save)
    (tmp_path / "other").mkdir()
    other = replaying(tmp_path / "other", {"save": True})
    other.restore(newest_checkpoint(tmp_path / "saved"))
    assert torch.equal(other.weights, made.weights)
    assert torch.equal(source(other).target.weights, source(made).target.weights)
    assert not torch.equal(other.weights, source(other).target.weights)
    assert [each.tensors()["replay.counters"].tolist() for each in (made, other)] == [[20, 0, 1, -1]] * 2
    assert len(source(other).replay.drawable()) == len(source(made).replay.drawable())
    for learner in (made, other):
        assert due(learner, batch, 30) == 5
    assert pass_over(made, batch, 30, 3) == pass_over(other, batch, 30, 3)
    assert torch.equal(other.weights, made.weights)
