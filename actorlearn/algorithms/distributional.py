"""Distributions of returns over fixed atoms, as pure functions (Bellemare et al. 2017)."""

from __future__ import annotations

import torch
from torch import Tensor


def support(atoms: int, smallest: float, largest: float, device: torch.device) -> Tensor:
    """Return the values of the atoms, evenly spaced: [K]."""
    return torch.linspace(smallest, largest, atoms, device=device)


def project(probability: Tensor, place: Tensor, values: Tensor) -> Tensor:
    """Project a distribution, `probability` […, J] at `place` […, J], onto evenly spaced `values` [K]: […, K].

    Each probability is divided between the two neighbouring atoms in proportion to their nearness; a place beyond an
    end counts as that end (algorithm 1). Atom k thus gets the part max(0, 1 - distance) of each probability, with the
    distance in atoms. This needs J x K numbers a row, and addition at indices only 2 J, but it adds in a fixed order,
    also on a GPU.
    """
    step = (values[-1] - values[0]) / (len(values) - 1)
    position = (torch.minimum(torch.maximum(place, values[0]), values[-1]) - values[0]) / step  # […, J], 0 to K - 1
    atom = torch.arange(len(values), dtype=position.dtype, device=position.device)
    part = (1.0 - (position.unsqueeze(-1) - atom).abs()).clamp(min=0.0)  # […, J, K]
    return (probability.unsqueeze(-1) * part).sum(-2)


def entropy(probability: Tensor) -> Tensor:
    """Return -sum p log p in nats, […]; an atom with probability 0 adds 0."""
    return -torch.xlogy(probability, probability).sum(-1)
