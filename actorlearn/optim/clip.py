"""Clipping of a whole gradient by its norm, on the flat vector."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def clip_by_global_norm(gradients: Tensor, max_norm: float) -> Tensor:
    """Scale the gradients in place so that their Euclidean norm is at most `max_norm` (0 = never); return the old norm.

    The norm is a tensor without dimensions, so that a GPU need not be waited for. If it is not finite the gradients are
    not usable: check `isfinite(norm)` before stepping.
    """
    norm: Tensor = torch.linalg.vector_norm(gradients)
    if max_norm > 0.0:
        gradients.mul_((max_norm / norm).clamp_(max=1.0))
    return norm
