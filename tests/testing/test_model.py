"""Every shipped network keeps the contract that a stranger's inherits, and what breaks it is found."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from actorlearn.testing.model import ModelContract


class TestNips(ModelContract):
    section = {"name": "nips", "init": "orthogonal"}
    observation_shape = (4, 84, 84)
    observation_dtype = "uint8"


class TestDueling(TestNips):
    section = {"name": "dqn-net"}
    heads = {"value": 1, "advantage": 3}


class TestImpala(ModelContract):
    section = {"name": "impala"}
    observation_shape = (1, 16, 16)
    observation_dtype = "uint8"


class TestPerceptron(ModelContract):
    section = {"name": "mlp"}
    observation_shape = (4,)


class TestPerceptronOfRelus(TestPerceptron):
    section = {"name": "mlp", "activation": "relu"}


class TestLstm(ModelContract):
    section = {"name": "mlp", "recurrence": "lstm", "recurrent_size": 8}
    observation_shape = (4,)


class TestGru(TestLstm):
    section = {"name": "mlp", "recurrence": "gru", "recurrent_size": 8}


class Broken(nn.Module):
    """Averages over its neighbours, in half precision, and has a layer that nobody uses."""

    def __init__(self, observation_shape: tuple[int, ...], heads: dict[str, int]) -> None:
        super().__init__()
        self.heads = nn.ModuleDict({name: nn.Linear(observation_shape[0], size) for name, size in heads.items()})
        self.unused = nn.Linear(2, 2)

    def forward(self, observation: Tensor) -> dict[str, Tensor]:
        centered = observation - observation.mean(0)
        return {name: head(centered).to(torch.bfloat16) for name, head in self.heads.items()}


@pytest.mark.parametrize(
    "test",
    [
        lambda contract: contract.test_outputs_are_float32_of_the_sizes_asked_for("float32"),
        lambda contract: contract.test_every_parameter_learns(),
        lambda contract: contract.test_a_row_does_not_depend_on_its_neighbours(),
    ],
)
def test_a_network_that_breaks_the_contract_is_found(test: Any) -> None:
    class Contract(ModelContract):
        section = {"name": f"{__name__}:Broken"}
        observation_shape = (4,)

    Contract.setup_class()
    with pytest.raises(AssertionError):
        test(Contract())
