"""The state that an algorithm declares: one vector, which a loss proposes to change and a checkpoint restores."""

from __future__ import annotations

import pytest
import torch

from actorlearn.algorithms.make import make
from actorlearn.algorithms.state import DeclaredState
from tests import named
from tests.algorithms import stateful


def made(kind: type) -> stateful.Declares:
    algorithm = make(named.algorithm(name=f"{stateful.__name__}:{kind.__name__}"))
    assert isinstance(algorithm, stateful.Declares)
    return algorithm


def test_the_algorithms_tensors_and_the_vector_of_its_state_share_memory() -> None:
    algorithm = made(stateful.Declares)
    algorithm.state["baseline"] += 5.0
    state = DeclaredState(algorithm)
    assert state.vector.tolist() == [5.0, 0.0, 0.0]
    state.vector.copy_(torch.tensor([1.0, 2.0, 3.0]))
    assert float(algorithm.state["baseline"]) == 1.0
    before = state.vector.clone()
    algorithm.state["updates"] += 1.0
    assert state.put_back(before).tolist() == [1.0, 3.0, 4.0]
    assert algorithm.state["updates"].tolist() == [2.0, 3.0]


def test_an_algorithm_without_state_has_an_empty_vector() -> None:
    state = DeclaredState(make(named.algorithm(name="a2c")))
    assert state.vector.numel() == 0 and state.tensors == {}
    state.restore({})


def test_a_checkpoint_with_another_state_is_refused() -> None:
    state, more = (DeclaredState(made(kind)) for kind in (stateful.Declares, stateful.DeclaresMore))
    state.vector.fill_(2.0)
    fresh = DeclaredState(made(stateful.Declares))
    fresh.restore(state.tensors)
    assert torch.equal(fresh.vector, state.vector)
    for saved in (state.tensors, {}):
        with pytest.raises(ValueError, match="the checkpoint has .*; resume with the algorithm that saved it"):
            more.restore(saved)
