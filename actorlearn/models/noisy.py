"""Noisy networks: fully connected layers whose weights are shaken anew for each forward pass (Fortunato et al. 2018).

The deviations are parameters, which learning reduces where noise harms: exploration without epsilon. `draw` draws the
noise before a forward pass; the pass itself draws none, so it can be captured, compiled and repeated. Knows no process.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn


class NoisyLinear(nn.Linear):
    """A linear layer with factorised Gaussian noise (equations 10 and 11): p + q numbers for p x q weights.

    Weight and bias are the means; nn.Linear draws them from the paper's distribution, U(+-1/sqrt(p)).
    """

    noise_in: Tensor
    noise_out: Tensor

    def __init__(self, inputs: int, outputs: int, deviation: float) -> None:
        """Start all deviations at ``deviation`` / sqrt(inputs), and without noise."""
        super().__init__(inputs, outputs)
        self.weight_deviation = nn.Parameter(torch.full_like(self.weight, deviation / sqrt(inputs)))
        self.bias_deviation = nn.Parameter(torch.full_like(self.bias, deviation / sqrt(inputs)))
        self.register_buffer("noise_in", torch.zeros(inputs), persistent=False)
        self.register_buffer("noise_out", torch.zeros(outputs), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, inputs] to [N, outputs], with the same noise in every row."""
        weight = self.weight + self.weight_deviation * torch.outer(self.noise_out, self.noise_in)
        return nn.functional.linear(x, weight, self.bias + self.bias_deviation * self.noise_out)

    @torch.no_grad()
    def draw(self, generator: torch.Generator | None) -> None:
        """Put noise into the next passes; none without a generator."""
        for noise in (self.noise_in, self.noise_out):
            if generator is None:
                noise.zero_()
            else:
                noise.normal_(generator=generator)
                noise.copy_(noise.sign() * noise.abs().sqrt())


def draw(network: nn.Module, generator: torch.Generator | None) -> None:
    """Draw the noise of all noisy layers, in their order, from a generator on their device; without one, none.

    Called before every forward pass of acting and learning, each network with noise of its own (section 3.1); greedy
    evaluation wants none. A network without noisy layers draws nothing.
    """
    for module in noisy_layers(network):
        module.draw(generator)


def noisy_layers(network: nn.Module) -> list[NoisyLinear]:
    """Return all noisy layers, in their order."""
    return [module for module in network.modules() if isinstance(module, NoisyLinear)]


def make_noisy(network: nn.Module, deviation: float) -> None:
    """Put a noisy layer in the place of every linear one; new weights, from torch's global generator."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, NoisyLinear(child.in_features, child.out_features, deviation))
