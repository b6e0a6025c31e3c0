"""Noisy networks: fully connected layers whose weights get new noise for each forward pass (Fortunato et al. 2018).

The noise makes actions vary, so that exploration needs no epsilon. Its standard deviations are parameters; learning
reduces them where noise is harmful. `draw` draws the noise before a forward pass. The pass itself draws no random
numbers, so it can be captured as a CUDA graph, compiled and repeated.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn


class NoisyLinear(nn.Linear):
    """A linear layer with factorised Gaussian noise: p + q random numbers for p x q weights (equations 10 and 11).

    Weight and bias are the means; nn.Linear draws their initial values from the paper's distribution, U(+-1/sqrt(p)).
    """

    noise_in: Tensor
    noise_out: Tensor

    def __init__(self, inputs: int, outputs: int, deviation: float) -> None:
        """Set all standard deviations of the noise to ``deviation`` / sqrt(inputs), and the noise itself to 0."""
        super().__init__(inputs, outputs)
        self.weight_deviation = nn.Parameter(torch.full_like(self.weight, deviation / sqrt(inputs)))
        self.bias_deviation = nn.Parameter(torch.full_like(self.bias, deviation / sqrt(inputs)))
        self.register_buffer("noise_in", torch.zeros(inputs), persistent=False)
        self.register_buffer("noise_out", torch.zeros(outputs), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, inputs] to [N, outputs], with the same noise for all N."""
        weight = self.weight + self.weight_deviation * torch.outer(self.noise_out, self.noise_in)
        return nn.functional.linear(x, weight, self.bias + self.bias_deviation * self.noise_out)

    @torch.no_grad()
    def draw(self, generator: torch.Generator | None) -> None:
        """Draw the noise that all passes until the next call use; without a generator the noise is 0."""
        for noise in (self.noise_in, self.noise_out):
            if generator is None:
                noise.zero_()
            else:
                noise.normal_(generator=generator)
                noise.copy_(noise.sign() * noise.abs().sqrt())


def draw(network: nn.Module, generator: torch.Generator | None) -> None:
    """Draw new noise for all noisy layers, in order, from a generator on their device; None: set the noise to 0.

    Acting and learning draw before every forward pass, separately for each network (section 3.1). Greedy evaluations
    have no noise. Without noisy layers nothing is drawn.
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
