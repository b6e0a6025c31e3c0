"""Norms of a network's parameters, gradients and optimizer steps, as in Stooke & Abbeel (2018), figures 7 and 9."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

LAYERS = {"conv0": _ConvNd, "fc0": nn.Linear}
"""Name -> type of the layers with norms of their own: the first layer of each type, weights and biases together."""


class Norms:
    """Computes L2 norms of a network's parameters, gradients and steps: of all, and of the first layer of each type."""

    def __init__(self, network: nn.Module, parameters: Tensor, gradients: Tensor) -> None:
        """Measure a network; ``parameters`` and ``gradients`` are its flat vectors."""
        self._parameters, self._gradients = parameters, gradients
        self._parts = {"": slice(None), **{f"_{name}": part for name, part in _first_layers(network).items()}}
        self._before = torch.empty_like(parameters)
        self._sums = parameters.new_zeros((2, len(self._parts)))
        """Sums of the norms of gradients and of steps; kept on the device, so that no step waits for it."""
        self._optimizer_steps = 0

    def before(self) -> None:
        """Copy the parameters; called before an optimizer step."""
        self._before.copy_(self._parameters)

    def after(self) -> None:
        """Add the norms of the step that was taken, and of its gradient."""
        step = torch.sub(self._parameters, self._before, out=self._before)
        self._sums += torch.stack([self._of(self._gradients), self._of(step)])
        self._optimizer_steps += 1

    def row(self) -> dict[str, float]:
        """Return the norms of the parameters, and the mean norms of gradients and steps since the last call."""
        rows = {"parameters": self._of(self._parameters)}
        if self._optimizer_steps:
            rows |= zip(("gradients", "steps"), self._sums / self._optimizer_steps, strict=True)
        self._sums.zero_()
        self._optimizer_steps = 0
        return {
            f"{name}_l2{part}": norm
            for name, norms in rows.items()
            for part, norm in zip(self._parts, norms.tolist(), strict=True)
        }

    def _of(self, vector: Tensor) -> Tensor:
        return torch.stack([torch.linalg.vector_norm(vector[part]) for part in self._parts.values()])


def _first_layers(network: nn.Module) -> dict[str, slice]:
    """Return the range in the flat vectors of the first layer of each type, by name."""
    ends: dict[int, int] = {}
    end = 0
    for parameter in network.parameters():
        end += parameter.numel()
        ends[id(parameter)] = end
    found = {}
    for name, kind in LAYERS.items():
        if layer := next((module for module in network.modules() if isinstance(module, kind)), None):
            own = list(layer.parameters(recurse=False))  # adjacent in the flat vectors
            found[name] = slice(ends[id(own[0])] - own[0].numel(), ends[id(own[-1])])
    return found
