"""One function to call any network over time, recurrent or not; acting, learning and evaluating use it."""

from __future__ import annotations

from typing import Any

from torch import Tensor

Outputs = dict[str, Tensor]


def state_size(network: Any) -> int:
    """Return the length of the state for one environment; 0 for a network that is not recurrent."""
    return int(getattr(network, "state_size", 0))


def unroll(
    network: Any, observation: Tensor, state: Tensor | None = None, first: Tensor | None = None
) -> tuple[Outputs, Tensor | None]:
    """Return outputs {head: [T, B, size]} for observations [T, B, *shape], and the state after the last row.

    A recurrent network needs the state [B, S] before the first row, and `first` [T, B], which marks rows that begin
    games. Other networks need neither and return the state unchanged.
    """
    if state_size(network):
        outputs, state = network(observation, state, first)
        return outputs, state
    outputs = network(observation.flatten(0, 1))
    return {name: output.unflatten(0, observation.shape[:2]) for name, output in outputs.items()}, state
