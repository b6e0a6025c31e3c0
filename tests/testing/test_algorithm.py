"""Every shipped algorithm keeps the contract that a stranger's inherits, and what breaks it is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from actorlearn.actions import MultiDiscrete
from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.dqn import DQN
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.r2d1 import R2D1
from actorlearn.algorithms.sac import SAC
from actorlearn.testing.algorithm import AlgorithmContract
from tests.algorithms import stateful


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


class TestPPOWithVTrace(TestPPO):
    section = {"name": "ppo", "advantages": "vtrace"}


class TestIMPALA(AlgorithmContract):
    section = {"name": "impala"}


class TestVACO(AlgorithmContract):
    section = {"name": "vaco", "normalize_advantage": True}


class TestVACOOfNumbers(TestVACO):
    actions = (2,)


class TestPQN(AlgorithmContract):
    section = {"name": "pqn", "dueling": True}


class TestDQN(AlgorithmContract):
    section = {"name": "dqn", "double": True, "dueling": True}


class TestC51(AlgorithmContract):
    section = {"name": "c51"}


class TestR2D1(AlgorithmContract):
    section = {"name": "r2d1"}


class TestSAC(AlgorithmContract):
    section = {"name": "sac"}
    actions = (2,)


class TestDeclaredState(AlgorithmContract):
    section = {"name": f"{stateful.__name__}:Declares"}


Metrics = dict[str, Tensor]
Outputs = Mapping[str, Tensor]


class NoHeads(A2C):
    """Asks for outputs of which there are none."""

    def heads(self, actions: Any) -> dict[str, int]:
        return {**super().heads(actions), "value": 0}


class OneMore(A2C):
    """Chooses an action more than there are."""

    def act(self, outputs: Outputs, generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        return {"action": super().act(outputs, generator, greedy)["action"] + 1}


class Unwritten(A2C):
    """Asks for a column and does not write it."""

    def columns(self, actions: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {"log_prob": ("float32", ())}


class GlobalChance(A2C):
    """Draws from the generator of all."""

    def act(self, outputs: Outputs, generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        return {"action": torch.randint(3, outputs["value"].shape[:1])}


class NeverGreedy(A2C):
    """Draws where it is to be greedy."""

    def act(self, outputs: Outputs, generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        return super().act(outputs, generator)


class EverythingCounts(A2C):
    """Learns from what was not played, and hands out the gradient with its metrics."""

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> tuple[Tensor, Metrics]:
        loss = (outputs["value"][:-1, ..., 0] - batch.reward).square().mean()
        return loss, {"value_loss": loss}


class GoesBackToTheLastRow(A2C):
    """Draws the value to bootstrap from to its own."""

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> tuple[Tensor, Metrics]:
        loss, metrics = super().loss(outputs, batch, progress)
        return loss + (outputs["value"][1:] - outputs["value"][:-1]).square().mean(), metrics


class Empty(A2C):
    """Divides by the number of what is valid."""

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> tuple[Tensor, Metrics]:
        loss, metrics = super().loss(outputs, batch, progress)
        return loss / batch.valid.sum(), metrics


class WritesToTheBatch(A2C):
    """Scales rewards where they lie."""

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> tuple[Tensor, Metrics]:
        batch.reward.mul_(0.5)
        return super().loss(outputs, batch, progress)


class ReplaysEverything(DQN):
    """Counts items that are not valid, and gives no priority to the last."""

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> tuple[Tensor, Metrics]:
        loss, metrics = super().loss(outputs, replace(batch, valid=torch.ones_like(batch.valid)), progress)
        return loss, {**metrics, "priority": metrics["priority"][:, 1:]}


class ForgetsWhatIsNotValid(R2D1):
    """Counts all of a sequence."""

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> tuple[Tensor, Metrics]:
        return super().loss(outputs, replace(batch, valid=torch.ones_like(batch.valid)), progress)


class CriticsOfEverything(SAC):
    """Counts what is not valid, in all of its losses."""

    def losses(self, networks: Any, batch: Batch, *rest: Any) -> tuple[dict[str, Tensor], Metrics]:
        return super().losses(networks, replace(batch, valid=torch.ones_like(batch.valid)), *rest)


class AnotherCritic(SAC):
    """Has a loss of a network that there is not."""

    def losses(self, networks: Any, *rest: Any) -> tuple[dict[str, Tensor], Metrics]:
        losses, metrics = super().losses(networks, *rest)
        return {**losses, "critic_3": losses["critic_1"]}, metrics


class CriticsOfChance(SAC):
    """Draws noise that the seed of a minibatch does not determine."""

    def losses(self, networks: Any, *rest: Any) -> tuple[dict[str, Tensor], Metrics]:
        losses, metrics = super().losses(networks, *rest)
        return {name: loss * (1 + torch.rand(())) for name, loss in losses.items()}, metrics


MUTANTS = [
    ("test_it_asks_for_outputs_and_columns_that_there_can_be", NoHeads),
    ("test_an_action_is_one_of_those_there_are", OneMore),
    ("test_an_action_is_one_of_those_there_are", Unwritten),
    ("test_the_generator_alone_is_chance", GlobalChance),
    ("test_the_generator_alone_is_chance", NeverGreedy),
    ("test_a_loss_is_a_finite_number_with_a_gradient", EverythingCounts),
    ("test_a_loss_is_a_finite_number_with_a_gradient", ReplaysEverything),
    ("test_a_loss_is_a_finite_number_with_a_gradient", AnotherCritic),
    ("test_nothing_goes_back_from_rows_to_bootstrap_from", GoesBackToTheLastRow),
    ("test_what_is_not_valid_counts_for_nothing", EverythingCounts),
    ("test_what_is_not_valid_counts_for_nothing", ReplaysEverything),
    ("test_what_is_not_valid_counts_for_nothing", ForgetsWhatIsNotValid),
    ("test_what_is_not_valid_counts_for_nothing", CriticsOfEverything),
    ("test_a_batch_without_a_valid_transition_changes_nothing", EverythingCounts),
    ("test_a_batch_without_a_valid_transition_changes_nothing", Empty),
    ("test_a_batch_without_a_valid_transition_changes_nothing", ForgetsWhatIsNotValid),
    ("test_a_batch_without_a_valid_transition_changes_nothing", CriticsOfEverything),
    ("test_a_batch_is_learned_from_alike_each_time_and_left_as_it_is", WritesToTheBatch),
    ("test_a_batch_is_learned_from_alike_each_time_and_left_as_it_is", CriticsOfChance),
    *(("test_checkpoints_contain_all_its_state", kind) for kind in (*stateful.HIDDEN, *stateful.REFUSED)),
]
"""A test of the contract, and an algorithm that it finds."""


@pytest.mark.parametrize(("test", "broken"), MUTANTS)
def test_an_algorithm_that_breaks_the_contract_is_found(test: str, broken: type) -> None:
    class Contract(AlgorithmContract):
        section = {"name": f"{broken.__module__}:{broken.__name__}"}
        actions = (2,) if issubclass(broken, SAC) else 3

    Contract.setup_class()
    with pytest.raises((AssertionError, ValueError)):
        getattr(Contract(), test)()


def test_each_test_of_the_contract_finds_something() -> None:
    assert {name for name in vars(AlgorithmContract) if name.startswith("test_")} == {test for test, _ in MUTANTS}
