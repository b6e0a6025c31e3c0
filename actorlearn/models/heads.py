"""Linear heads, which map an encoder's features to named outputs, and orthogonal initialisation.

The algorithm gives the names and sizes of the outputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import sqrt

import torch
from torch import Tensor, nn

# Gains of the last layers (GALA, after OpenAI baselines); other heads get 1.
HEAD_GAINS = {"logits": 0.01, "mean": 0.01}
FREE = ("log_std",)
"""Outputs that are parameters and do not depend on the observation (Schulman et al. 2017, section 6.1)."""


class SharedTrunk(nn.Module):
    """One encoder for all outputs, with a linear head for each, as in PAAC."""

    def __init__(self, encoder: nn.Module, features: int, heads: Mapping[str, int]) -> None:
        """Add a linear layer for each head to an encoder with ``features`` outputs."""
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleDict(
            {name: Free(size) if name in FREE else nn.Linear(features, size) for name, size in heads.items()}
        )

    def forward(self, observation: Tensor) -> dict[str, Tensor]:
        """Map [N, *shape] to float32 [N, size] for each head; heads compute in float32 also under autocast.

        In bfloat16, which has 8 bits of precision, a value near 3 would be wrong by up to 0.008, and a probability by
        1 %.
        """
        features = self.encoder(observation).float()
        if not torch.is_autocast_enabled(features.device.type):  # the context takes as long as a small layer
            return {name: head(features) for name, head in self.heads.items()}
        with torch.autocast(features.device.type, enabled=False):
            return {name: head(features) for name, head in self.heads.items()}


class SeparateTrunks(nn.Module):
    """A separate encoder with a linear head for each output, without shared weights; for small observations.

    On CartPole (A2C, Adam, 16 environments, horizon 5, two learning rates, both initialisations, 3 seeds) separate
    encoders scored about as much after 20,000 steps as a shared encoder after 80,000. The presumed reason is that
    errors of the value are as large as the returns and dominate a clipped gradient.
    """

    def __init__(
        self, encoders: Mapping[str, nn.Module], features: Mapping[str, int], heads: Mapping[str, int]
    ) -> None:
        """Add a linear layer to the encoder of each head; ``features``: number of outputs of each encoder."""
        super().__init__()
        self.trunks = nn.ModuleDict(
            {name: SharedTrunk(encoder, features[name], {name: heads[name]}) for name, encoder in encoders.items()}
        )
        self.free = nn.ModuleDict({name: Free(size) for name, size in heads.items() if name in FREE})
        self.asked: frozenset[str] | None = None

    def forward(self, observation: Tensor) -> dict[str, Tensor]:
        """Map [N, *shape] to float32 [N, size] for each head, or only for the heads that `ask_only` has selected."""
        asked = self.asked
        outputs = {
            name: trunk(observation)[name] for name, trunk in self.trunks.items() if asked is None or name in asked
        }
        return outputs | {name: free(observation) for name, free in self.free.items()}


def ask_only(network: nn.Module, heads: Collection[str] | None) -> None:
    """Make networks with separate encoders compute only these heads, to save time; None: all heads.

    Networks with a shared encoder always compute all heads.
    """
    for module in network.modules():
        if isinstance(module, SeparateTrunks):
            module.asked = None if heads is None else frozenset(heads)


class Free(nn.Module):
    """An output that is the same for every observation: a parameter, initially 0."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(size))

    def forward(self, rows: Tensor) -> Tensor:
        """Return the parameter for each of N observations: [N, size]."""
        return self.value.expand(rows.shape[0], -1)  # len() would be a constant in an exported graph


def orthogonal(network: nn.Module) -> None:
    """Replace a network's weights by orthogonal ones, drawn from torch's global generator; biases become 0.

    The gain is 1 for recurrent cells, `HEAD_GAINS` or 1 for heads, and sqrt(2) for other layers.
    """
    for path, layer in network.named_modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            *_, group, name = path.split(".")
            nn.init.orthogonal_(layer.weight, gain=HEAD_GAINS.get(name, 1.0) if group == "heads" else sqrt(2.0))
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.LSTMCell | nn.GRUCell):
            for parameter in layer.parameters():
                nn.init.orthogonal_(parameter) if parameter.ndim == 2 else nn.init.zeros_(parameter)
