"""Dueling networks: outputs for a state's value and each action's advantage, from separate hidden layers."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from actorlearn.models.ba3c import BA3CEncoder
from actorlearn.models.encoders import ConvolutionalEncoder
from actorlearn.models.heads import SeparateTrunks
from actorlearn.models.residual import ResidualEncoder

DUELING = "advantage"
"""The output whose presence makes a network for images a dueling network; the other output is "value"."""


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
        """Take the encoder's convolutions, and replace its hidden layer by one of the same size for each output.

        `gradient` multiplies the gradient that flows from the hidden layers ("streams") back to the convolutions.
        """
        super().__init__()
        layers = list(encoder.layers)
        index = max(index for index, layer in enumerate(layers) if isinstance(layer, nn.Linear))
        hidden, normalized = layers[index], isinstance(layers[index + 1], nn.LayerNorm)
        assert isinstance(hidden, nn.Linear)
        self.convolutions = nn.Sequential(*layers[:index])
        inputs, features = hidden.in_features, hidden.out_features

        def stream() -> nn.Module:
            norm = [nn.LayerNorm(features)] if normalized else []
            return nn.Sequential(nn.Linear(inputs, features), *norm, nn.ReLU(True))

        streams = {name: stream() for name in heads}
        self.streams = SeparateTrunks(streams, dict.fromkeys(heads, features), heads)
        self.gradient = gradient

    def forward(self, observation: Tensor) -> dict[str, Tensor]:
        """Map [N, C, H, W] to float32 [N, size] for each head."""
        features = self.convolutions(observation)
        if torch.is_grad_enabled():
            # This adds 0, but multiplies the gradient by self.gradient.
            features = features + (self.gradient - 1.0) * (features - features.detach())
        return self.streams(features)  # type: ignore[no-any-return]
