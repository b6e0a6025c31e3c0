"""Noisy networks: fully connected layers with new noise on the weights in each forward pass (Fortunato et al. 2018).

The deviations are parameters; learning reduces them where noise is harmful. This is exploration without epsilon. `draw`
draws the noise before a forward pass; the pass itself draws none, so it can be captured, compiled and repeated.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn


class NoisyLinear(nn.Linear):
    """A linear layer with factorised Gaussian noise (equations 10 and 11): p + q random numbers for p x q weights.

    Weight and bias are the means; nn.Linear draws them from the paper's distribution, U(+-1/sqrt(p)).
    """

    noise_in: Tensor
    noise_out: Tensor

    def __init__(self, inputs: int, outputs: int, deviation: float) -> None:
        """Set all deviations to ``deviation`` / sqrt(inputs), and the noise to 0."""
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
        """Draw the noise of the next passes; without a generator the noise is 0."""
        for noise in (self.noise_in, self.noise_out):
            if generator is None:
                noise.zero_()
            else:
                noise.normal_(generator=generator)
                noise.copy_(noise.sign() * noise.abs().sqrt())


def draw(network: nn.Module, generator: torch.Generator | None) -> None:
    """Draw the noise of all noisy layers, in order, from a generator on their device; without one the noise is 0.

    Called before every forward pass of acting and learning, with separate noise for each network (section 3.1); greedy
    evaluation has no noise. A network without noisy layers draws no numbers.
    """
    for module in noisy_layers(network):
        module.draw(generator)


def noisy_layers(network: nn.Module) -> list[NoisyLinear]:
    """Return all noisy layers, in their order."""
    return [module for module in network.modules() if isinstance(module, NoisyLinear)]


def make_noisy(network: nn.Module, deviation: float) -> None:
    """Replace every linear layer by a noisy one, with new weights from torch's global generator."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, NoisyLinear(child.in_features, child.out_features, deviation))
