"""Clipping of a whole gradient by its norm, on the flat vector."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def clip_by_global_norm(gradients: Tensor, max_norm: float) -> Tensor:
    """Scale the gradients in place so that their l2 norm is at most `max_norm` (0: no limit); returns the old norm.

    The norm is a tensor without dimensions, so that the caller need not wait for a GPU. If it is not finite, the
    gradients cannot be used: check `isfinite(norm)` before the step.
    """
    norm: Tensor = torch.linalg.vector_norm(gradients)
    if max_norm > 0.0:
        gradients.mul_((max_norm / norm).clamp_(max=1.0))
    return norm
