"""Every shipped algorithm keeps the contract that a stranger's inherits, and what breaks it is found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from actorlearn.actions import MultiDiscrete
from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.interface import Batch
from actorlearn.testing.algorithm import AlgorithmContract


class TestA2C(AlgorithmContract):
    section = {"name": "a2c"}


class TestA2COfNumbers(TestA2C):
    actions = (2,)


class TestA2COfSeveralChoices(TestA2C):
    actions = MultiDiscrete((3, 2))


class TestPPO(AlgorithmContract):
    section = {"name": "ppo", "normalize_advantage": True}


class TestPPOOfNumbers(TestPPO):
    actions = (2,)


class TestIMPALA(AlgorithmContract):
    section = {"name": "impala"}


class TestDQN(AlgorithmContract):
    section = {"name": "dqn", "double": True, "dueling": True}


class TestC51(AlgorithmContract):
    section = {"name": "c51"}


class TestR2D1(AlgorithmContract):
    section = {"name": "r2d1"}


class TestSAC(AlgorithmContract):
    section = {"name": "sac"}
    actions = (2,)


class Broken(A2C):
    """Learns from what was not played, and asks the global generator."""

    def act(self, outputs: Mapping[str, Tensor], generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        return {"action": torch.randint(3, outputs["value"].shape[:1])}

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        loss = (outputs["value"][:-1, ..., 0] - batch.reward).square().mean()
        return loss, {"value_loss": loss}


@pytest.mark.parametrize(
    "test",
    [
        lambda contract: contract.test_the_generator_alone_is_chance(),
        lambda contract: contract.test_a_loss_is_a_finite_number_with_a_gradient(),
        lambda contract: contract.test_what_is_not_valid_counts_for_nothing(),
        lambda contract: contract.test_a_batch_without_a_valid_transition_changes_nothing(),
    ],
)
def test_an_algorithm_that_breaks_the_contract_is_found(test: Any) -> None:
    class Contract(AlgorithmContract):
        section = {"name": f"{__name__}:Broken"}

    Contract.setup_class()
    with pytest.raises(AssertionError):
        test(Contract())
