"""An encoder of learned Fourier features (Li and Pathak 2021): sharp differences between near observations."""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor, nn

from actorlearn_corridor.specs import FourierSettings


class Fourier(nn.Module):
    """Observations [N, n] to features [N, 2 * frequencies]; heads, a cell and noise are added by actorlearn."""

    def __init__(self, settings: FourierSettings, observation_shape: tuple[int, ...]) -> None:
        """Draw the frequencies; torch's generator has been seeded for it."""
        super().__init__()
        (inputs,) = observation_shape
        self.waves = nn.Linear(inputs, settings.frequencies)
        nn.init.normal_(self.waves.weight, std=settings.scale)
        self.features = 2 * settings.frequencies

    def forward(self, observation: Tensor) -> Tensor:
        """Return sine and cosine of each wave."""
        phase = pi * self.waves(observation)
        return torch.cat([phase.sin(), phase.cos()], dim=-1)
