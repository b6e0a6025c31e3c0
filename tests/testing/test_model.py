"""Every shipped network keeps the contract that a stranger's inherits, and what breaks it is found."""

from __future__ import annotations

from typing import Any

import numpy as np
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


class TestBA3C(ModelContract):
    section = {"name": "ba3c"}
    observation_shape = (12, 84, 84)
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


class TestNoisy(ModelContract):
    section = {"name": "mlp", "noisy": 0.5}
    observation_shape = (4,)


class Net(nn.Module):
    """A network that fits, of which those below break one thing."""

    def __init__(self, observation_shape: tuple[int, ...], heads: dict[str, int]) -> None:
        super().__init__()
        self.heads = nn.ModuleDict({name: nn.Linear(observation_shape[0], size) for name, size in heads.items()})

    def forward(self, observation: Tensor) -> Any:
        return {name: head(observation).float() for name, head in self.heads.items()}


class Halves(Net):
    """Leaves autocast's precision as it is."""

    def forward(self, observation: Tensor) -> Any:
        return {name: head(observation) for name, head in self.heads.items()}


class SeedOfItsOwn(Net):
    """Starts from numbers that another generator draws."""

    def __init__(self, observation_shape: tuple[int, ...], heads: dict[str, int]) -> None:
        super().__init__(observation_shape, heads)
        for parameter in self.parameters():
            parameter.data = torch.from_numpy(np.random.default_rng().normal(size=parameter.shape)).float()


class HiddenWeights(Net):
    """Keeps weights in a buffer that does not travel."""

    def __init__(self, observation_shape: tuple[int, ...], heads: dict[str, int]) -> None:
        super().__init__(observation_shape, heads)
        self.register_buffer("mixed", torch.randn(observation_shape[0], observation_shape[0]), persistent=False)

    def forward(self, observation: Tensor) -> Any:
        return super().forward(observation @ self.mixed)


class Unused(Net):
    """Has a layer that no output depends on."""

    def __init__(self, observation_shape: tuple[int, ...], heads: dict[str, int]) -> None:
        super().__init__(observation_shape, heads)
        self.unused = nn.Linear(2, 2)


class Centred(Net):
    """Averages over its neighbours."""

    def forward(self, observation: Tensor) -> Any:
        return super().forward(observation - observation.mean(0))


class Remembers(Net):
    """Counts rows in its state, and clears it by multiplying, which leaves NaN what it is."""

    state_size = 1

    def forward(self, observation: Tensor, state: Tensor, first: Tensor) -> Any:  # type: ignore[override]
        for row in first:
            state = state * ~row[:, None] + 1.0
        outputs = super().forward(observation.flatten(0, 1))
        return {name: output.unflatten(0, observation.shape[:2]) for name, output in outputs.items()}, state


class NeverForgets(Remembers):
    """Goes on with what it knew of the last game."""

    def forward(self, observation: Tensor, state: Tensor, first: Tensor) -> Any:  # type: ignore[override]
        state = torch.where(first[0, :, None], 0.0, state) + len(observation)
        outputs = Net.forward(self, observation.flatten(0, 1))
        outputs = {name: output.unflatten(0, observation.shape[:2]) for name, output in outputs.items()}
        return {name: output + state for name, output in outputs.items()}, state


MUTANTS = [
    ("test_outputs_are_float32_of_the_sizes_asked_for", Halves),
    ("test_weights_depend_on_the_seed_alone", SeedOfItsOwn),
    ("test_its_parameters_travel_as_one_vector", HiddenWeights),
    ("test_every_parameter_learns", Unused),
    ("test_a_row_does_not_depend_on_its_neighbours", Centred),
    ("test_a_state_is_carried_on_and_cleared_where_a_game_begins", Remembers),
    ("test_a_state_is_carried_on_and_cleared_where_a_game_begins", NeverForgets),
]
"""A test of the contract, and a network that it finds."""


def contract(network: type) -> Any:
    class Contract(ModelContract):
        section = {"name": f"{__name__}:{network.__name__}"}
        observation_shape = (4,)

    Contract.setup_class()
    return Contract()


@pytest.mark.parametrize(("test", "broken"), MUTANTS)
def test_a_network_that_breaks_the_contract_is_found(test: str, broken: type) -> None:
    arguments = ["bfloat16"] if test == "test_outputs_are_float32_of_the_sizes_asked_for" else []
    with pytest.raises(AssertionError):
        getattr(contract(broken), test)(*arguments)


def test_each_test_of_the_contract_finds_something() -> None:
    assert {name for name in vars(ModelContract) if name.startswith("test_")} == {test for test, _ in MUTANTS}
