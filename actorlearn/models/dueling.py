"""Dueling networks: a state's value and each action's advantage, each from a hidden layer of its own."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from actorlearn.models.ba3c import BA3CEncoder
from actorlearn.models.encoders import ConvolutionalEncoder
from actorlearn.models.heads import SeparateTrunks
from actorlearn.models.residual import ResidualEncoder

DUELING = "advantage"
"""The head, besides "value", that makes a network for images a dueling one."""


class Dueling(nn.Module):
    """Convolutions, and a separate hidden layer and linear head for each output (Wang et al. 2016, figure 1).

    The algorithm combines both outputs into one value per action.
    """

    def __init__(
        self,
        encoder: ConvolutionalEncoder | ResidualEncoder | BA3CEncoder,
        heads: Mapping[str, int],
        gradient: float,
    ) -> None:
        """Use the encoder's convolutions and the size of its hidden layer.

        `gradient` is a factor on the gradient that flows from the streams to the convolutions.
        """
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
        self.streams = SeparateTrunks(streams, dict.fromkeys(heads, features), heads)
        self.gradient = gradient

    def forward(self, observation: Tensor) -> dict[str, Tensor]:
        """Map [N, C, H, W] to float32 [N, size] for each head."""
        features = self.convolutions(observation)
        if torch.is_grad_enabled():
            # The difference is 0, but its gradient is not.
            features = features + (self.gradient - 1.0) * (features - features.detach())
        return self.streams(features)  # type: ignore[no-any-return]
