"""From features to named outputs: linear heads over encoders, and how the shipped networks are initialised.

Reads what an encoder returns; the names and sizes of the outputs come from the algorithm, which is not known here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import sqrt

import torch
from torch import Tensor, nn

from actorlearn.models.ba3c import BA3CEncoder
from actorlearn.models.encoders import ConvolutionalEncoder
from actorlearn.models.residual import ResidualEncoder

# Gains of the last layers (GALA, after OpenAI baselines); a head not named here gets 1.
HEAD_GAINS = {"logits": 0.01, "mean": 0.01}
FREE = ("log_std",)
"""Heads that are parameters and no functions of the observation (Schulman et al. 2017, section 6.1)."""
DUELING = "advantage"
"""The head beside "value" that makes a network of images a dueling one."""


class SharedTrunk(nn.Module):
    """One encoder and a linear head for each output (PAAC: "a single network with two separate output layers")."""

    def __init__(self, encoder: nn.Module, features: int, heads: Mapping[str, int]) -> None:
        """Put one linear layer per head on the encoder's features."""
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleDict(
            {name: Free(size) if name in FREE else nn.Linear(features, size) for name, size in heads.items()}
        )

    def forward(self, observation: Tensor) -> dict[str, Tensor]:
        """Map [N, *shape] to float32 [N, size] for each head, computed in float32 also under autocast.

        Bfloat16 has 8 bits: a value near 3 would be off by up to 0.008, the probability of an action by a percent.
        """
        features = self.encoder(observation).float()
        if not torch.is_autocast_enabled(features.device.type):  # the context costs as much as a small layer
            return {name: head(features) for name, head in self.heads.items()}
        with torch.autocast(features.device.type, enabled=False):
            return {name: head(features) for name, head in self.heads.items()}


class SeparateTrunks(nn.Module):
    """One encoder and one linear head for each output, with no weight in common.

    For small observations. On CartPole (A2C, Adam, 16 environments, horizon 5, two rates, both inits, 3 seeds) these
    scored about as much after 20,000 steps as a shared trunk after 80,000: presumably the value's errors, as large as
    the returns, use up a clipped gradient.
    """

    def __init__(self, encoders: Mapping[str, nn.Module], features: int, heads: Mapping[str, int]) -> None:
        """Put one linear layer on each head's own encoder."""
        super().__init__()
        self.trunks = nn.ModuleDict(
            {name: SharedTrunk(encoder, features, {name: heads[name]}) for name, encoder in encoders.items()}
        )
        self.free = nn.ModuleDict({name: Free(size) for name, size in heads.items() if name in FREE})
        self.asked: frozenset[str] | None = None

    def forward(self, observation: Tensor) -> dict[str, Tensor]:
        """Map [N, *shape] to float32 [N, size] for each head, or each that `ask_only` has named."""
        asked = self.asked
        outputs = {
            name: trunk(observation)[name] for name, trunk in self.trunks.items() if asked is None or name in asked
        }
        return outputs | {name: free(observation) for name, free in self.free.items()}


def ask_only(network: nn.Module, heads: Collection[str] | None) -> None:
    """Compute only these outputs, None = all, of networks that compute each by itself; others compute all as before."""
    for module in network.modules():
        if isinstance(module, SeparateTrunks):
            module.asked = None if heads is None else frozenset(heads)


class Dueling(nn.Module):
    """Convolutions and, for each output, a hidden layer and a linear head of its own (Wang et al. 2016, figure 1).

    The algorithm combines both outputs into one value per action.
    """

    def __init__(
        self,
        encoder: ConvolutionalEncoder | ResidualEncoder | BA3CEncoder,
        heads: Mapping[str, int],
        gradient: float,
    ) -> None:
        """Take the encoder's convolutions, and its hidden layer's size; `gradient` scales what comes back to them."""
        super().__init__()
        layers = list(encoder.layers)
        place = max(place for place, layer in enumerate(layers) if isinstance(layer, nn.Linear))
        hidden, normalized = layers[place], isinstance(layers[place + 1], nn.LayerNorm)
        assert isinstance(hidden, nn.Linear)
        self.convolutions = nn.Sequential(*layers[:place])
        inputs, features = hidden.in_features, hidden.out_features

        def stream() -> nn.Module:
            behind = [nn.LayerNorm(features)] if normalized else []
            return nn.Sequential(nn.Linear(inputs, features), *behind, nn.ReLU(True))

        streams = {name: stream() for name in heads}
        self.streams = SeparateTrunks(streams, features, heads)
        self.gradient = gradient

    def forward(self, observation: Tensor) -> dict[str, Tensor]:
        """Map [N, C, H, W] to float32 [N, size] for each head."""
        features = self.convolutions(observation)
        if torch.is_grad_enabled():
            # The difference is 0, but not its gradient.
            features = features + (self.gradient - 1.0) * (features - features.detach())
        return self.streams(features)  # type: ignore[no-any-return]


class Free(nn.Module):
    """An output that is the same for every observation: a parameter, 0 until it is initialised."""

    def __init__(self, size: int) -> None:
        """Hold so many numbers."""
        super().__init__()
        self.value = nn.Parameter(torch.zeros(size))

    def forward(self, rows: Tensor) -> Tensor:
        """Repeat them for each of N rows: [N, size]."""
        return self.value.expand(rows.shape[0], -1)  # len() would fix their number in an exported graph


def orthogonal(network: nn.Module) -> None:
    """Re-initialise orthogonally, with gain sqrt(2), cells with gain 1, the heads by HEAD_GAINS, and biases 0.

    Draws from torch's global generator.
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


def as_ba3c(network: nn.Module) -> None:
    """Re-initialise as BA3C's code: convolutions N(0, 0.03), cut at two deviations, others uniformly, biases 0.

    The uniform ones keep the variance of their inputs, times 1.43 squared (TensorFlow's `uniform_unit_scaling`). Draws
    from torch's global generator.
    """
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.trunc_normal_(layer.weight, std=0.03, a=-0.06, b=0.06)
        elif isinstance(layer, nn.Linear):
            bound = 1.43 * sqrt(3.0 / layer.in_features)
            nn.init.uniform_(layer.weight, -bound, bound)
        if isinstance(layer, nn.Conv2d | nn.Linear) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
