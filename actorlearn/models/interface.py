"""The interface of a network: its one call.

Reads and writes nothing. A network's settings and spec, known before it is made, are in ``specs.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class Model(Protocol):
    """A network: a torch module, constructed as Name(observation_shape, heads), with its settings behind if it has any.

    `observation_shape` is one observation's shape, a tuple; `heads` maps the name of each output to its size.

    * It is called with observations [N, *observation_shape] as they are stored (uint8 for images), and scales them.
    * It returns float32 [N, size] for every head, also under autocast.
    * It initialises itself from torch's global generator, which `make` seeds for the construction.
    * Only its parameters travel between processes: constants are buffers with persistent=False.
      (`normalize_observation` puts statistics in front of any network: `normalize.Normalized`.)
    * A recurrent one has `state_size` above 0, and is called with observations [T, B, *observation_shape], the state
      [B, state_size] before them and `first` [T, B], which says where it must be cleared (by `torch.where`: it may be
      NaN there); it returns the outputs [T, B, size] and the state after. See `recurrent.Recurrent`.
    """

    def __call__(self, observation: Tensor) -> Any:
        """Return one float32 [N, size] tensor per head, as a dict."""
