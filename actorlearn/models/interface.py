"""The interface of a network, which is a single call, and `unroll`, which calls any network on [T, B] observations.

The settings of networks, and their specs, which describe them without importing them, are in ``specs.py``.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

Outputs = dict[str, Tensor]


class Model(Protocol):
    """A network: a torch module made by Name(observation_shape, heads), or Name(observation_shape, heads, settings).

    `observation_shape` is the shape of one observation, a tuple. `heads` maps the name of each output to its size.

    * The network is called with observations [N, *observation_shape] as the environment gives them. Images are uint8;
      the network scales them.
    * It returns float32 [N, size] for every head, also under autocast.
    * It initialises its weights from torch's global generator, which `make` seeds.
    * It does not get masks of valid actions (`masked.Masked` removes them from observations).
    * Only its parameters are sent between processes, so constants must be buffers with persistent=False. The only
      buffers that are sent too are the statistics of `normalize_observation`, which `normalize.Normalized` adds.
    * A recurrent network has the attribute `state_size`, above 0, the length S of its state for one environment. It is
      called with observations [T, B, *observation_shape], the state [B, S] before the first of them, and `first` [T,
      B]. Where `first` is True a game begins, and the network sets the state to zero before this observation. It must
      use `torch.where` for this, because the state may be NaN. It returns the outputs [T, B, size] and the state [B, S]
      after the last observation. `recurrent.Recurrent` is an example.
    """

    def __call__(self, observation: Tensor) -> Any:
        """Return one float32 [N, size] tensor per head, as a dict."""


def state_size(network: Any) -> int:
    """Return the length of a recurrent network's state for one environment; 0 for other networks."""
    return int(getattr(network, "state_size", 0))


def unroll(
    network: Any, observation: Tensor, state: Tensor | None = None, first: Tensor | None = None
) -> tuple[Outputs, Tensor | None]:
    """Return outputs {head: [T, B, size]} for observations [T, B, *shape], and the state after the last of them.

    A recurrent network needs the state [B, S] before the first observation, and `first` [T, B], which is True where a
    game begins. Other networks need neither, and the state is returned unchanged. Raises ValueError if the number of
    outputs is not that of the observations.
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
