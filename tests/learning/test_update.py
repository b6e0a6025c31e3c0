"""Learning from one batch: passes, minibatches, target_kl, prepared batches, and skipped steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from actorlearn.algorithms import ppo
from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.ratios import ratio_metrics
from actorlearn.learning.make import make
from actorlearn.learning.minibatches import Gathered, Minibatch
from actorlearn.learning.update import Learning
from actorlearn.parameters import checkpoint
from actorlearn.parameters.consumed import Position
from actorlearn.parameters.interface import Stepped, Stopped
from actorlearn.processes.batches import beside
from tests.algorithms import stateful
from tests.learning.made import ENVIRONMENTS, HORIZON, batch, learning, pass_over, trainer_settings

FIELDS = [name for name in Batch.__slots__ if name != "columns"]


def learned_from(
    made: Learning, monkeypatch: pytest.MonkeyPatch, going_on: Callable[[], bool] = lambda: True
) -> list[Batch]:
    """Learn from one rollout; return the minibatch of each optimizer step."""
    parts: list[Batch] = []
    learn = made.learn_from
    monkeypatch.setattr(made, "learn_from", lambda part, *given: parts.append(part.batch) or learn(part, *given))
    pass_over(made, made.minibatches.prepare(batch()), 0, 7, going_on)
    made.exchange.settle()
    return parts


def test_a_pass_asks_between_optimizer_steps_whether_it_goes_on_and_is_broken_off_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, asked = learning(epochs=2, minibatches=3), itertools.count(1)
    assert len(learned_from(made, monkeypatch, lambda: next(asked) > 0)) == 6
    assert next(asked) == 6  # asked five times, between six steps

    asked = itertools.count(1)
    with pytest.raises(Stopped):
        learned_from(made, monkeypatch, lambda: next(asked) < 4)
    assert next(asked) == 5


def test_an_epoch_learns_from_every_environment_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = learned_from(learning(epochs=2, minibatches=3), monkeypatch)
    assert [part.action.shape[1] for part in parts] == [3, 3, 2, 3, 3, 2]
    whole = batch()
    for epoch in (parts[:3], parts[3:]):
        together = torch.cat([part.columns["extra"] for part in epoch], 1)
        assert sorted(together[0].tolist()) == whole.columns["extra"][0].tolist()
        for part in epoch:
            chosen = part.columns["extra"][0]
            torch.testing.assert_close(part.observation, whole.observation[:, chosen])
            torch.testing.assert_close(part.reward, whole.reward[:, chosen])


def test_minibatches_depend_on_seed_and_rollout_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (learned_from(learning(minibatches=4), monkeypatch) for _ in range(2))
    for one, again in zip(first, second, strict=True):
        torch.testing.assert_close(one.reward, again.reward)
    other = learning(minibatches=4)
    orders = []
    for rollout in (7, 8):
        parts: list[Batch] = []
        monkeypatch.setattr(other, "learn_from", lambda part, *_, parts=parts: not parts.append(part.batch))
        other.learn(batch(), 0, rollout)
        orders.append([tuple(part.columns["extra"][0].tolist()) for part in parts])
    assert orders[0] != orders[1]


def test_without_an_epoch_nothing_is_learned() -> None:
    made = learning(epochs=0)
    before = made.sha256()
    assert made.learn(batch(), 0, 0) == {}
    assert made.sha256() == before


def test_one_minibatch_is_the_batch_itself() -> None:
    whole, parts = learning(), learning(minibatches=1, epochs=1)
    whole.learn_from(Minibatch(batch()), 0)
    parts.learn(batch(), 0, 0)
    assert whole.sha256() == parts.sha256()


def test_a_minibatch_that_is_not_finite_is_skipped_counted_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    made = learning(minibatches=4, reward_clip=None)
    good, bad = batch(), batch()
    bad.reward[0, 3] = float("inf")
    for expected in (1, 2):
        before = made.sha256()
        numbers = made.learn(bad, 0, 0)
        assert not np.isfinite(numbers["loss"])
        assert made.skipped == expected
        assert made.sha256() != before, "the other three minibatches were learned from"
    assert np.isfinite(made.learn(good, 0, 0)["loss"])
    assert made.skipped == 0


def test_there_are_no_more_minibatches_than_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(learned_from(learning(minibatches=100), monkeypatch)) == ENVIRONMENTS


LIMIT = 1e-4
"""A target_kl that ends an update of `clipped` early."""


def clipped(target_kl: float | None) -> tuple[Learning, Batch]:
    """A learner of PPO with eight optimizer steps in each update, and a batch of its own first policy."""
    made, whole = (
        learning(name="ppo", epochs=4, minibatches=2, reward_clip=None, normalize_advantage=True, target_kl=target_kl),
        batch(),
    )
    with torch.no_grad():
        outputs = made.network.module(whole.observation[:-1].flatten(0, 1))
    logits, value = (outputs[name].unflatten(0, whole.valid.shape) for name in ("logits", "value"))
    log_prob = logits.log_softmax(-1).gather(-1, whole.action[..., None]).squeeze(-1)
    return made, replace(whole, columns={"log_prob": log_prob, "value": value.squeeze(-1)})


def after(steps: int) -> str:
    """Hash of the weights after this many optimizer steps of an update without a limit."""
    made, whole = clipped(None)
    asked = itertools.count(1)
    with pytest.raises(Stopped):
        pass_over(made, made.minibatches.prepare(whole), 0, 0, lambda: next(asked) < steps)
    return made.sha256()


def test_an_update_ends_before_the_first_minibatch_whose_divergence_is_above_the_limit() -> None:
    made, whole = clipped(LIMIT)
    numbers = made.learn(whole, 0, 0)
    steps = round(8 * numbers["learned_share"])
    assert 1 < steps < 8
    assert numbers["divergence"] <= 1.5 * LIMIT
    assert made.sha256() == after(steps)
    assert made.skipped == 0


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    (limited, whole), (free, _) = clipped(1.0), clipped(None)
    assert limited.learn(whole, 0, 0) == {**free.learn(whole, 0, 0), "learned_share": 1.0}
    assert limited.sha256() == free.sha256()


def test_an_update_with_a_limit_that_is_broken_off_anywhere_goes_on_to_the_same_end() -> None:
    unbroken, whole = clipped(LIMIT)
    steps = round(8 * unbroken.learn(whole, 0, 0)["learned_share"])
    for before in range(1, steps + 1):
        made, _ = clipped(LIMIT)
        prepared, asked = made.minibatches.prepare(whole), itertools.count(1)
        with pytest.raises(Stopped):
            pass_over(made, prepared, 0, 0, lambda asked=asked, before=before: next(asked) < before)
        assert made.sha256() == after(before)
        pass_over(made, prepared, 0, 0)
        assert made.sha256() == unbroken.sha256()


def test_a_learner_without_a_minibatch_ends_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """In mode sync the mean divergence decides, also for a learner that has fewer minibatches left."""
    for mean, taken in ((0.0, 10), (1.0, 0)):
        made, whole = clipped(1e-2)
        calls = []
        monkeypatch.setattr(made.exchange, "mean", lambda number, mean=mean: mean)
        step = made.exchange.step
        monkeypatch.setattr(
            made.exchange, "step", lambda *given, step=step, calls=calls: calls.append(1) or step(*given)
        )
        made.pass_over(made.minibatches.prepare(whole), 0, Position(0, 0), 8, idle=2)
        assert len(calls) == taken


class Halved(A2C):
    """Learns from the first row, and from values that it computed before the epochs."""

    prepared_rows = 1

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        assert outputs["value"].shape == (1, ENVIRONMENTS, 1) and not outputs["value"].requires_grad
        longer = {name: getattr(batch, name)[:2] for name in ("observation", "first")}
        names = [name for name in Batch.__slots__ if name not in (*longer, "columns")]
        rows = {name: getattr(batch, name)[:1] for name in names}
        return Batch(**rows, **longer, columns={"last": outputs["value"].squeeze(-1)})

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        loss, _ = super().loss(outputs, batch, progress)
        return loss, {"progress": torch.tensor(progress), "last": batch.columns["last"].sum()}


def test_an_algorithm_prepares_a_batch_once_and_learns_from_the_prepared_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = learning(name=f"{__name__}:Halved", epochs=2, minibatches=2)
    value = made.network.outputs(batch(), 1)["value"].detach().sum()
    parts: list[Batch] = []
    told: list[dict[str, float]] = []
    note = made.minibatches.note_learned

    def watched(part: Minibatch, taken: bool, metrics: dict[str, torch.Tensor]) -> None:
        parts.append(part.batch)
        told.append({name: float(value) for name, value in metrics.items()})
        note(part, taken, metrics)

    monkeypatch.setattr(made.minibatches, "note_learned", watched)
    made.learn(batch(), 250, rollout=0)
    assert [tuple(part.observation.shape[:2]) for part in parts] == [(2, 4)] * 4
    assert [numbers["progress"] for numbers in told] == [0.25] * 4
    for epoch in (told[:2], told[2:]):  # of the weights before the first epoch, also in the second
        assert sum(numbers["last"] for numbers in epoch) == pytest.approx(float(value))


def test_outputs_of_the_last_rows_equal_those_of_all_rows() -> None:
    made, seen = learning(), batch()
    whole, last = made.network.outputs(seen), made.network.outputs(seen, 2)
    for name in ("logits", "value"):
        assert whole[name].shape[:2] == (HORIZON + 1, ENVIRONMENTS)
        torch.testing.assert_close(last[name], whole[name][-2:])


def test_a_minibatch_of_a_batch_on_a_gpu_is_drawn_there() -> None:
    minibatches = learning(epochs=1, minibatches=2).minibatches
    with FakeTensorMode():  # tensors without data, which know their device; no GPU is needed
        own = {name: torch.zeros_like(getattr(batch(), name), device="cuda") for name in FIELDS}
        prepared = Batch(**own, columns={})
        drawn = [minibatch.batch for minibatch in minibatches.draw(prepared, 0, 2, 0)]
    assert [tuple(each.action.shape) for each in drawn] == [(HORIZON, ENVIRONMENTS // 2)] * 2
    assert {each.observation.device.type for each in drawn} == {"cuda"}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_rollout_is_learned_from_on_a_gpu_as_on_the_cpu() -> None:
    weights = []
    for device in ("cpu", "cuda"):
        made = make(msgspec.structs.replace(trainer_settings(epochs=2, minibatches=2), device=device))
        seen = batch()
        columns = {name: column.to(device) for name, column in seen.columns.items()}
        own = {name: getattr(seen, name).to(device) for name in FIELDS}
        made.learn(Batch(**own, columns=columns), 0, 0)
        weights.append(made.weights.detach().cpu())
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-3, atol=1e-4)


def test_the_state_of_an_algorithm_changes_with_steps_and_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{stateful.__name__}:{stateful.Declares.__name__}"
    made, again = (learning(name=name, minibatches=2) for _ in range(2))
    made.learn(batch(), 0, 0)
    assert made.state.tensors["updates"].tolist() == [2.0, 2.0] and float(made.state.tensors["baseline"]) > 0.0

    saved = checkpoint.load(checkpoint.save(tmp_path, 1, made.tensors(), made.save(tmp_path), 1))
    again.restore(saved, True)
    for each in (made, again):
        each.learn(batch(), 0, 1)
    assert torch.equal(made.state.vector, again.state.vector) and made.sha256() == again.sha256()

    before = made.state.vector.clone()
    monkeypatch.setattr(made.exchange, "apply", lambda *_: Stepped(torch.nan, False))
    made.learn(batch(), 0, 2)
    assert torch.equal(made.state.vector, before)  # no step was taken, so the state is that before it


def test_steps_count_as_skipped_if_no_epoch_has_taken_them() -> None:
    made = learning(epochs=2, minibatches=4)
    gathered = Gathered(3, (), batch(), np.zeros(24, np.int64), 24)
    prepared = made.minibatches.prepare(gathered.batch)
    for number, minibatch in enumerate(made.minibatches.draw(prepared, 3, 8, 0)):
        made.minibatches.note_learned(minibatch, number > 3, {})
        skipped = made.minibatches.skipped_steps(prepared, gathered)
        assert skipped == 6 * min(number + 1, 7 - number)  # 24 steps in 4 parts


@pytest.mark.parametrize(("name", "minibatches"), [("ppo", 2), ("impala", 4), ("impala", 2 * ENVIRONMENTS)])
def test_skipped_steps_of_other_learners_are_not_counted(name: str, minibatches: int) -> None:
    made = learning(name=name, epochs=1, minibatches=minibatches, reward_clip=None)
    own, foreign = (
        replace(batch(), columns={"log_prob": zeros, "value": zeros, "foreign": zeros + number})
        for number, zeros in enumerate([torch.zeros(HORIZON, ENVIRONMENTS)] * 2)
    )
    own.valid[1, :2] = False
    foreign.reward[0, 3] = torch.nan
    skipped: list[Batch] = []
    note = made.minibatches.note_learned

    def watched(minibatch: Minibatch, taken: bool, metrics: Mapping[str, Tensor]) -> None:
        skipped.extend([] if taken else [minibatch.batch])
        note(minibatch, taken, metrics)

    made.minibatches.note_learned = watched  # type: ignore[method-assign]
    steps = int(own.valid.sum())
    gathered = Gathered(0, (), own, np.zeros(steps, np.int64), steps, shared=beside(own, foreign))
    update = made.update(gathered, Position(), 0)
    assert update.outcome == "learned" and len(skipped) == 1
    of_own = int((skipped[0].valid & (skipped[0].columns["foreign"] == 0)).sum())
    assert update.skipped_steps == of_own < int(skipped[0].valid.sum())
    assert of_own > 0 or minibatches == 2 * ENVIRONMENTS  # then it has one environment, of the other learner


def test_metrics_are_computed_for_the_last_minibatch_only_or_for_each_if_a_step_depends_on_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed = []
    monkeypatch.setattr(ppo, "ratio_metrics", lambda *given: computed.append(1) or ratio_metrics(*given))
    for target_kl, expected in ((None, 1), (100.0, 6)):
        made = learning(name="ppo", epochs=3, minibatches=2, target_kl=target_kl)
        seen = batch()
        columns = {name: torch.zeros(seen.action.shape) for name in ("log_prob", "value")}
        computed.clear()
        metrics = made.learn(replace(seen, columns=columns), 0, 0)
        assert len(computed) == expected
        assert {"policy_loss", "entropy", "divergence", "loss", "gradient_norm", "learning_rate"} <= metrics.keys()
