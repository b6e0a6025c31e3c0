"""Properties that A2C, PPO, IMPALA and VACO share: loss and gradient of a slow reference, no effect of resets."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import pytest
import torch
from hypothesis import given
from torch import Tensor

from actorlearn.actions import MultiDiscrete
from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.actor_critic import ActorCritic
from actorlearn.algorithms.impala import IMPALA
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.ppo import PPO
from actorlearn.algorithms.vaco import VACO
from actorlearn.metrics.registry import is_registered
from tests import reference
from tests.algorithms.episodes import GO, TERMINATED, batch_of, batches, random_outputs, settings_of_all_kinds

ALGORITHMS = [A2C, PPO, IMPALA, VACO]
CLIP = 0.2


def before(algorithm: ActorCritic, batch: Batch) -> dict[str, Tensor]:
    """The outputs that preparing this batch needs: of its last row, or of as many rows as the batch has.

    They are small, so that no action of a Box was a thousand times less probable.
    """
    rows = len(batch.first) if algorithm.prepared_rows > 1 else algorithm.prepared_rows
    return {name: output.detach()[-rows:] / 4 for name, output in random_outputs(batch).items()} if rows else {}


def prepared(algorithm: ActorCritic, batch: Batch) -> tuple[Batch, dict[str, Tensor], dict[str, Tensor]]:
    """The inputs of a loss: the prepared batch, outputs for its rows, and the outputs that it was prepared with."""
    made = algorithm.prepare(batch, seen := before(algorithm, batch))
    more_rows = made.observation.shape[0] - made.valid.shape[0]
    return made, random_outputs(made, more_rows=more_rows, seed=1), seen


def slow_loss(algorithm: ActorCritic, outputs: dict[str, Tensor], batch: Batch, seen: dict[str, Tensor]) -> Tensor:
    halfway = (algorithm.settings.entropy_cost + algorithm.settings.entropy_cost_final) / 2
    settings = msgspec.structs.replace(algorithm.settings, entropy_cost=halfway)
    if isinstance(algorithm, PPO | VACO):
        as_rows = {name: output[0].unflatten(0, batch.valid.shape) for name, output in outputs.items()}
        if isinstance(algorithm, VACO):
            return reference.vaco_loss(as_rows, batch, settings, seen)
        return reference.ppo_loss(as_rows, batch, settings, CLIP, seen)
    loss = reference.impala_loss if isinstance(algorithm, IMPALA) else reference.a2c_loss
    return loss(outputs, batch, settings)


@pytest.mark.parametrize("kind", ALGORITHMS)
@given(batch=batches(), settings=settings_of_all_kinds)
def test_loss_and_gradient_equal_the_slow_reference(kind, batch, settings):
    algorithm = kind(settings)
    made, outputs, seen = prepared(algorithm, batch)
    loss, metrics = algorithm.loss(outputs, made, 0.5)
    assert all(map(is_registered, metrics)), metrics.keys()
    slow = slow_loss(algorithm, outputs, batch, seen)
    torch.testing.assert_close(loss, slow, rtol=1e-5, atol=1e-5)  # PPO's columns are float32
    if batch.valid.any():
        found, expected = (
            torch.autograd.grad(x, list(outputs.values()), allow_unused=True, materialize_grads=True)
            for x in (loss, slow)
        )
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ALGORITHMS)
@given(batch=batches(actions=(6,)), settings=settings_of_all_kinds)
def test_several_choices_at_once_equal_one_choice_of_all_their_combinations(kind, batch, settings):
    joint, several = kind(settings), kind(settings)
    assert several.heads(MultiDiscrete((3, 2))) == {"logits": 5, "value": 1}
    pairs = replace(batch, action=torch.stack([batch.action // 2, batch.action % 2], -1))
    generator, seen = torch.Generator().manual_seed(0), before(joint, batch)

    def logits(value: Tensor) -> tuple[Tensor, Tensor]:
        rows = torch.randn(*value.shape[:-1], 5, dtype=torch.float64, generator=generator)
        return (rows[..., :3, None] + rows[..., None, 3:]).flatten(-2), rows

    alike, rows = logits(seen["value"]) if seen else (None, None)
    made = [joint.prepare(batch, seen | {"logits": alike}), several.prepare(pairs, seen | {"logits": rows})]
    outputs = random_outputs(made[0], more_rows=made[0].observation.shape[0] - made[0].valid.shape[0], seed=1)
    alike, rows = logits(outputs["value"])
    one, _ = joint.loss({**outputs, "logits": alike}, made[0], 0.5)
    two, _ = several.loss({**outputs, "logits": rows}, made[1], 0.5)
    torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ALGORITHMS)
@given(batch=batches(), settings=settings_of_all_kinds)
def test_ignored_transitions_and_the_bootstrap_row_have_exactly_no_gradient(kind, batch, settings):
    algorithm = kind(settings)
    made, outputs, _ = prepared(algorithm, batch)
    algorithm.loss(outputs, made, 0.0)[0].backward()
    horizon = len(made.valid)
    for output in outputs.values():
        assert torch.all(output.grad[:horizon][~made.valid] == 0.0)
        assert torch.all(output.grad[horizon:] == 0.0)
        assert torch.isfinite(output.grad).all()


@pytest.mark.parametrize("kind", ALGORITHMS)
@given(batch=batches(), settings=settings_of_all_kinds)
def test_the_content_of_an_ignored_transition_changes_nothing(kind, batch, settings):
    algorithm = kind(settings)
    action = batch.action.clone()
    action[~batch.valid] = -1 if batch.action.ndim == 2 else math.nan
    garbage = replace(
        batch,
        action=action,
        reward=batch.reward.where(batch.valid, math.nan),
        columns={**batch.columns, "log_prob": batch.columns["log_prob"].where(batch.valid, math.nan)},
    )
    results = []
    for seen in (batch, garbage):
        made, outputs, _ = prepared(algorithm, seen)
        loss, metrics = algorithm.loss(outputs, made, 0.0)
        loss.backward()
        gradients = [output.grad for output in outputs.values()]
        results.append(({**metrics, "loss": loss.detach()}, gradients))
    assert {k: v.item() for k, v in results[0][0].items()} == {k: v.item() for k, v in results[1][0].items()}
    assert all(torch.equal(one, other) for one, other in zip(results[0][1], results[1][1], strict=True))


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_outputs_of_other_rows_than_the_batchs_are_refused(kind):
    algorithm = kind(kind.Settings())
    made, outputs, _ = prepared(algorithm, batch_of([GO, GO], [GO, GO]))
    with pytest.raises(
        ValueError,
        match=rf"{algorithm.settings.name}: outputs\['logits'\] has the shape .* must be .* pass the whole batch",
    ):
        algorithm.loss({name: output[:, :-1] for name, output in outputs.items()}, made, 0.0)


@pytest.mark.parametrize("kind", ALGORITHMS)
@pytest.mark.parametrize("actions", [3, (2,)])
def test_acting_returns_an_action_and_the_declared_columns(kind, actions):
    algorithm, generator = kind(kind.Settings()), torch.Generator().manual_seed(0)
    outputs = {name: torch.randn(5, size) for name, size in algorithm.heads(actions).items()}
    for greedy in (False, True):
        chosen = algorithm.act(outputs, generator, greedy)
        action = chosen.pop("action")
        assert action.dtype == (torch.int64 if actions == 3 else torch.float32)
        assert action.shape == ((5,) if actions == 3 else (5, 2))
        columns = algorithm.columns(actions)
        assert {name: (str(c.dtype), tuple(c.shape[1:])) for name, c in chosen.items()} == {
            name: (f"torch.{dtype}", shape) for name, (dtype, shape) in columns.items()
        }


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_descending_the_loss_solves_a_bandit(kind):
    """Action 1 pays; 200 updates of 32 one-step games from even odds must find it."""
    logits, value = torch.zeros(3, requires_grad=True), torch.zeros(1, requires_grad=True)
    descend(kind, {"logits": logits, "value": value}, lambda action: (action == 1).float())
    assert logits.softmax(-1)[1] > 0.9


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_descending_the_loss_finds_the_best_box_action(kind):
    """The reward is largest at the action (1, -0.5); the deviation shrinks as the mean comes near."""
    mean, log_std = torch.zeros(2, requires_grad=True), torch.zeros(2, requires_grad=True)
    outputs = {"mean": mean, "log_std": log_std, "value": torch.zeros(1, requires_grad=True)}
    best = torch.tensor([1.0, -0.5])
    descend(kind, outputs, lambda action: -(action - best).square().sum(-1), rate=0.05)
    assert (mean - best).abs().max() < 0.2 and log_std.max() < -0.5


def descend(kind, parameters, pays, rate=0.5):
    settings = kind.Settings(loss_scale=1.0, reward_clip=None)
    algorithm, source = kind(settings), torch.Generator().manual_seed(0)
    batch = batch_of(*[[TERMINATED]] * 32)
    for _ in range(200):
        played = algorithm.act({name: p.detach().expand(32, -1) for name, p in parameters.items()}, source)
        action = played.pop("action").unsqueeze(0)
        columns = {name: column.unsqueeze(0) for name, column in played.items()}
        seen = replace(batch, action=action, reward=pays(action), columns=columns)
        now = {name: p.detach().expand(2, 32, -1) for name, p in parameters.items()}
        rows = {**now, "value": torch.zeros(2, 32, 1)}
        made = algorithm.prepare(seen, rows if kind is VACO else {"value": rows["value"][1:]})
        rows = made.observation.shape[0]
        loss, _ = algorithm.loss({name: p.expand(rows, 32, -1) for name, p in parameters.items()}, made, 0.0)
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        with torch.no_grad():
            for parameter, gradient in zip(parameters.values(), gradients, strict=True):
                parameter -= rate * gradient
