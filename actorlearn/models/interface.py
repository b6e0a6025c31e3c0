"""The interface of a network, which is a single call, and one function to call any network over time.

Reads and writes nothing. Networks' settings and specs, which exist before a network is made, are in ``specs.py``.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

Outputs = dict[str, Tensor]


class Model(Protocol):
    """A network: a torch module made by Name(observation_shape, heads), or with its settings as a third argument.

    `observation_shape` is one observation's shape, a tuple; `heads` maps the name of each output to its size.

    * It is called with observations [N, *observation_shape] as stored (uint8 for images), and scales them.
    * It returns float32 [N, size] for every head, also under autocast.
    * It initialises itself from torch's global generator, which `make` seeds.
    * If environments have masks of valid actions, it does not get them (`masked.Masked`).
    * Only its parameters are sent between processes: constants must be buffers with persistent=False.
      (`normalize_observation` adds statistics to any network: `normalize.Normalized`.)
    * A recurrent network has a `state_size` above 0. It is called with observations [T, B, *observation_shape], the
      state [B, state_size] before them and `first` [T, B], which marks rows before which the state must be set to zero
      (with `torch.where`, because it may be NaN). It returns the outputs [T, B, size] and the state after the last row.
      See `recurrent.Recurrent`.
    """

    def __call__(self, observation: Tensor) -> Any:
        """Return one float32 [N, size] tensor per head, as a dict."""


def state_size(network: Any) -> int:
    """Return the length of the state for one environment; 0 for a network that is not recurrent."""
    return int(getattr(network, "state_size", 0))


def unroll(
    network: Any, observation: Tensor, state: Tensor | None = None, first: Tensor | None = None
) -> tuple[Outputs, Tensor | None]:
    """Return outputs {head: [T, B, size]} for observations [T, B, *shape], and the state after the last row.

    A recurrent network needs the state [B, S] before the first row, and `first` [T, B], which marks rows that begin
    games. Other networks need neither and return the state unchanged. Raises ValueError for outputs of other lengths.
    """
    if state_size(network):
        outputs, state = network(observation, state, first)
        return outputs, state
    outputs, sides = network(observation.flatten(0, 1)), observation.shape[:2]
    try:
        return {name: output.unflatten(0, sides) for name, output in outputs.items()}, state
    except RuntimeError:
        shapes = ", ".join(f"{name} {list(output.shape)}" for name, output in outputs.items())
        rule = f"the first dimension of each must be {sides.numel()} (actorlearn/models/interface.py)"
        raise ValueError(f"the network returns {shapes} for {sides.numel()} observations; {rule}") from None
