"""What a network is to the rest of the system: its settings and its one call.

Reads and writes nothing; imports torch for the type checker only, because processes without torch read these settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from torch import Tensor


CONVOLUTIONAL = ("nips", "nature", "a3c", "dqn-net", "gala", "impala")
"""Shipped networks of images, worth computing in bfloat16."""
SHIPPED = (*CONVOLUTIONAL, "mlp")
"""Networks by name; anything else is "package.module:Name"."""


class QModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What networks of action values may have; a base of `ModelSettings`."""

    noisy: float = 0.0  # deviation of noisy fully connected layers at first, times sqrt(inputs): 0.5; 0 = no noise
    stream_gradient: float = 2**-0.5  # dueling: factor on what both streams send back into the convolutions; 1 = all

    def __post_init__(self) -> None:
        """Refuse numbers no network has."""
        if not self.noisy >= 0.0:
            raise ValueError(f"model.noisy: {self.noisy!r} must be 0 (no noise) or more")
        if not self.stream_gradient > 0.0:
            raise ValueError(f"model.stream_gradient: {self.stream_gradient!r} must be above 0")


class ModelSettings(QModelSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which network, and how it starts."""

    name: str = "nips"  # one of SHIPPED or "package.module:Name"
    hidden_sizes: list[int] = msgspec.field(default_factory=lambda: [64, 64])  # mlp only
    init: str = "torch"  # "torch" = U(+-1/sqrt(fan_in)), weights and biases, as PAAC; "orthogonal" as GALA
    recurrence: str = "none"  # "none", "lstm" or "gru": a cell between encoder and heads
    recurrent_size: int = 256  # units of the cell
    normalize_observation: bool = False  # less the running mean, over the running deviation, cut to +-10; not of images

    def __post_init__(self) -> None:
        """Refuse numbers and words no network has."""
        if self.init not in ("torch", "orthogonal"):
            raise ValueError(f"model.init: {self.init!r} must be 'torch' or 'orthogonal'")
        if self.recurrence not in ("none", "lstm", "gru"):
            raise ValueError(f"model.recurrence: {self.recurrence!r} must be 'none', 'lstm' or 'gru'")
        if self.recurrent_size < 1:
            raise ValueError(f"model.recurrent_size: {self.recurrent_size!r} must be 1 or more units")
        if any(size < 1 for size in self.hidden_sizes):
            raise ValueError(f"model.hidden_sizes: {self.hidden_sizes!r} must be numbers of units, each 1 or more")
        super().__post_init__()


class Model(Protocol):
    """A network: a torch module, shipped or "package.module:Name", constructed as Name(observation_shape, heads).

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
