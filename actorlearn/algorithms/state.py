"""Stores the state that an algorithm has besides the weights, such as a moving average (`interface.KeepsState`).

The state is one flat vector, which can be saved, averaged over learners and set back. In processes that only act, the
algorithm keeps its initial state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from actorlearn.algorithms.interface import Algorithm, KeepsState


class DeclaredState:
    """The state of the trainer's algorithm, as one flat vector."""

    def __init__(self, algorithm: Algorithm, device: str = "cpu") -> None:
        """Copy the algorithm's initial state to ``vector``, and replace the algorithm's tensors by views of it.

        Raises ValueError if the state does not map names to float32 tensors.
        """
        declared = declared_by(algorithm)
        self.vector = torch.cat([torch.zeros(0), *(tensor.reshape(-1) for tensor in declared.values())]).to(device)
        """All numbers, float32; empty for an algorithm without state."""
        self.tensors: dict[str, Tensor] = {}
        """The state's tensors by name; views of ``vector``."""
        start = 0
        for name, tensor in declared.items():
            stop = start + tensor.numel()
            self.tensors[name], start = self.vector[start:stop].view(tensor.shape), stop
        if isinstance(algorithm, KeepsState):
            algorithm.state = dict(self.tensors)

    def put_back(self, before: Tensor) -> Tensor:
        """Set the state back to ``before``, its vector before a loss changed it; return the changed vector."""
        after = self.vector.detach().clone()
        self.vector.copy_(before)
        return after

    def restore(self, saved: Mapping[str, Tensor]) -> None:
        """Restore the state from a checkpoint; raises ValueError if the checkpoint has other names or shapes."""
        had, has = ({name: list(part.shape) for name, part in parts.items()} for parts in (saved, self.tensors))
        if had != has:
            raise ValueError(
                f"the algorithm declares the state {has}, but the checkpoint has {had}; resume with the algorithm "
                "that saved it, or start a new run"
            )
        for name, part in self.tensors.items():
            part.copy_(saved[name])


def declared_by(algorithm: Algorithm) -> Mapping[str, Tensor]:
    """Return an algorithm's state, or {} if it has none; raises ValueError unless it maps names to float32 tensors."""
    state: Any = algorithm.state if isinstance(algorithm, KeepsState) else {}
    if not (isinstance(state, Mapping) and all(_is_state(name, part) for name, part in state.items())):
        raise ValueError(
            f"the algorithm's state is {state!r:.200}; it must map names to float32 tensors without a gradient"
        )
    return state


def _is_state(name: Any, part: Any) -> bool:
    is_numbers = isinstance(part, Tensor) and part.dtype == torch.float32
    return isinstance(name, str) and is_numbers and not part.requires_grad


@contextmanager
def unchanged(algorithm: Algorithm, method: str) -> Iterator[None]:
    """As a context manager, raise ValueError if the algorithm's state changes; ``method`` is for the error."""
    before = {name: part.clone() for name, part in declared_by(algorithm).items()}
    yield
    after = declared_by(algorithm)
    if changed := [name for name, part in before.items() if name not in after or not torch.equal(part, after[name])]:
        raise ValueError(
            f"{method} changes the algorithm's state {changed[0]!r}; only loss or losses may change it, because "
            f"{method} may be called any number of times, and in other processes"
        )
