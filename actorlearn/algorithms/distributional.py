"""Distributions of returns over fixed atoms, as pure functions (Bellemare et al. 2017)."""

from __future__ import annotations

import torch
from torch import Tensor


def support(atoms: int, smallest: float, largest: float, device: torch.device) -> Tensor:
    """Return the values of the atoms, evenly spaced: [K]."""
    return torch.linspace(smallest, largest, atoms, device=device)


def project(probability: Tensor, place: Tensor, values: Tensor) -> Tensor:
    """Move a distribution onto evenly spaced `values` [K]: `probability` […, J] lies at `place` […, J]; […, K].

    Each share goes to both neighbours, the more the nearer, and what lies beyond an end goes to that end (algorithm 1).
    Atom k so takes part max(0, 1 - distance) of each share, the distance in atoms. That is J x K numbers a row where
    adding at indices takes 2 J, but it adds in a fixed order, also on a GPU.
    """
    step = (values[-1] - values[0]) / (len(values) - 1)
    position = (torch.minimum(torch.maximum(place, values[0]), values[-1]) - values[0]) / step  # […, J], 0 to K - 1
    atom = torch.arange(len(values), dtype=position.dtype, device=position.device)
    part = (1.0 - (position.unsqueeze(-1) - atom).abs()).clamp(min=0.0)  # […, J, K]
    return (probability.unsqueeze(-1) * part).sum(-2)


def entropy(probability: Tensor) -> Tensor:
    """Return -sum p log p in nats, […]; an atom without probability adds nothing."""
    return -torch.xlogy(probability, probability).sum(-1)
