"""With a mask every algorithm acts and learns as if there were only the valid actions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from actorlearn.actions import MultiDiscrete
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.policies import policy
from actorlearn.observation_parts import MASK
from actorlearn.testing.algorithm import AlgorithmContract

VALID = [1, 2, 5]
"""The valid actions among SIZE, in tests that compare with an algorithm that has no other actions."""
SIZE = 7
OF_ACTIONS = ("logits", "q", "advantage")
POLICIES: list[dict[str, Any]] = [
    {"name": "a2c"},
    {"name": "ppo"},
    {"name": "ppo", "proximal": "recomputed", "advantages": "vtrace"},
    {"name": "impala"},
    {"name": "vaco"},
]
VALUES: list[dict[str, Any]] = [
    {"name": "dqn"},
    {"name": "dqn", "double": True},
    {"name": "c51", "atoms": 5, "double": True},
    {"name": "c51", "atoms": 5},
    {"name": "r2d1"},
    {"name": "r2d1", "double": True},
    {"name": "pqn"},
]


def contract(section: Mapping[str, Any], count: int) -> AlgorithmContract:
    """Return the helpers of the contract's tests for an algorithm with this many actions."""
    own = {"horizon": 6} if section["name"] in ("ppo", "vaco", "impala", "a2c", "pqn") else {}
    made = type("Case", (AlgorithmContract,), {"section": {**own, **section}, "actions": count})
    made.setup_class()
    return made()


def among_others(outputs: Mapping[str, Tensor], more: float) -> dict[str, Tensor]:
    """Return outputs for SIZE actions, of which the valid ones have these outputs and all others ``more``."""
    found = {}
    for name, output in outputs.items():
        if name.removeprefix("target.") not in OF_ACTIONS:
            found[name] = output
            continue
        own = output.unflatten(-1, (len(VALID), -1))
        whole = torch.full((*own.shape[:-2], SIZE, own.shape[-1]), more)
        whole[..., VALID, :] = own
        found[name] = whole.flatten(-2)
    mask = torch.zeros(SIZE)
    mask[VALID] = 1.0
    rows = next(iter(outputs.values())).shape[:-1] if outputs else ()
    prefixes = {name[: name.find("target.") + 7] if "target." in name else "" for name in outputs}
    return found | {f"{prefix}{MASK}": mask.expand(*rows, SIZE) for prefix in prefixes}


def learned(
    algorithm: Any, batch: Batch, last: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
    prepared = algorithm.prepare(batch, last)
    leaves = {name: output.clone().requires_grad_() for name, output in outputs.items()}
    rows = prepared.observation.shape[:2]
    loss, metrics = algorithm.loss({name: leaf[: rows[0]] for name, leaf in leaves.items()}, prepared, 0.5)
    loss.backward()
    return loss, metrics, {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}


@pytest.mark.parametrize("section", [*POLICIES, *VALUES], ids=str)
@pytest.mark.parametrize("more", [-3.0, 50.0])
def test_learning_with_a_mask_equals_that_with_the_valid_actions_alone(section: dict[str, Any], more: float) -> None:
    few, many = contract(section, len(VALID)), contract(section, SIZE)
    batch, count = few.batch(), few.batch().action.shape[1]
    algorithm = few.algorithm()
    last = few.outputs(algorithm.prepared_rows, count, seed=3) if algorithm.prepared_rows else {}
    if few.spec().replayed:
        target = few.outputs(len(batch.first) - 1, count, seed=4)
        last |= {f"target.{name}": output for name, output in target.items()}
    rows = algorithm.prepare(batch, last).observation.shape[:2]
    outputs = few.outputs(*rows, seed=5)
    loss, metrics, gradients = learned(algorithm, batch, last, outputs)
    among = replace(batch, action=torch.tensor(VALID)[batch.action])
    wide = learned(many.algorithm(), among, among_others(last, more), among_others(outputs, more))
    torch.testing.assert_close(wide[0], loss)
    torch.testing.assert_close(wide[1], metrics)
    expected = among_others(gradients, 0.0)
    for name in gradients:
        torch.testing.assert_close(wide[2][name], expected[name])


@pytest.mark.parametrize("section", [*POLICIES, *VALUES, {"name": "dqn", "dueling": True}], ids=str)
@pytest.mark.parametrize("greedy", [False, True])
def test_no_invalid_action_is_ever_chosen(section: dict[str, Any], greedy: bool) -> None:
    case, rows = contract(section, SIZE), 5000
    mask = (torch.rand(rows, SIZE, generator=torch.Generator().manual_seed(1)) < 0.3).float()
    mask[mask.sum(-1) == 0, 3] = 1.0
    outputs = {name: 20.0 * output for name, output in case.outputs(rows).items()}
    chosen = case.algorithm().act({**outputs, MASK: mask}, torch.Generator().manual_seed(2), greedy)
    assert mask.gather(1, chosen["action"][:, None]).all()
    assert all(torch.isfinite(column.float()).all() for column in chosen.values())


@pytest.mark.parametrize("sizes", [(), (3, 4)])
def test_probabilities_are_those_of_the_valid_choices(sizes: tuple[int, ...]) -> None:
    parts = sizes or (SIZE,)
    generator = torch.Generator().manual_seed(0)
    logits = 5.0 * torch.randn(20, SIZE, generator=generator, dtype=torch.float64)
    logits.requires_grad_()
    mask = (torch.rand(20, SIZE, generator=generator) < 0.5).float()
    mask[:, [0, SIZE - 1]] = 1.0  # one of each part
    made = policy({"logits": logits, MASK: mask}, sizes)
    action = made.sample(generator)
    log_prob, entropy = made.log_prob(action), made.entropy()
    for row in range(20):  # the definition, choice by choice
        expected_log, expected_entropy, start = 0.0, 0.0, 0
        for part, size in enumerate(parts):
            allowed = [choice for choice in range(size) if mask[row, start + choice]]
            weights = {choice: math.exp(logits.detach()[row, start + choice].item()) for choice in allowed}
            shares = {choice: weight / sum(weights.values()) for choice, weight in weights.items()}
            chosen = int(action[row, part] if sizes else action[row])
            expected_log += math.log(shares[chosen])
            expected_entropy -= sum(share * math.log(share) for share in shares.values() if share > 0.0)
            start += size
        assert log_prob[row].item() == pytest.approx(expected_log)
        assert entropy[row].item() == pytest.approx(expected_entropy, abs=1e-9)
    (log_prob.sum() + entropy.sum()).backward()
    assert logits.grad is not None and torch.isfinite(logits.grad).all()
    assert not logits.grad[mask == 0].any()


def test_a_row_without_a_valid_action_gives_no_nan() -> None:
    """Rows after a game's end may have any mask; they are not learned from."""
    logits = torch.randn(3, SIZE).requires_grad_()
    made = policy({"logits": logits, MASK: torch.zeros(3, SIZE)})
    total = made.log_prob(torch.zeros(3, dtype=torch.int64)).sum() + made.entropy().sum()
    total.backward()
    assert torch.isfinite(total.detach()) and logits.grad is not None and torch.isfinite(logits.grad).all()


def test_each_part_of_an_action_is_masked_by_itself() -> None:
    case = contract({"name": "ppo"}, SIZE)
    case.__class__.actions = MultiDiscrete((3, 4))
    mask = torch.tensor([[0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]]).expand(2000, SIZE)
    outputs = {**case.outputs(2000), MASK: mask}
    action = case.algorithm().act(outputs, torch.Generator().manual_seed(0))["action"]
    assert set(action[:, 0].tolist()) == {1, 2} and set(action[:, 1].tolist()) == {0}
