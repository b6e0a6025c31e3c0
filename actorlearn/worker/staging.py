"""Staging of arrays from shared memory to a device: those of several simulators become one tensor there.

On the CPU one array is used where it lies and several are joined by one copy. To a GPU they are joined in pinned
memory, from which the copy runs while this process goes on; uint8 stays uint8 on the way, and is converted there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


class Staging:
    """Buffers of one process, one for each name, used again and again."""

    def __init__(self, device: str) -> None:
        """Stage for a device; nothing is allocated before it is needed."""
        self._device = torch.device(device)
        self._pinned: dict[str, Tensor] = {}

    def join(self, name: str, arrays: Sequence[NDArray[Any]], dim: int) -> Tensor:
        """Join arrays along ``dim``, on the device.

        The tensor of a name may be read until the next call with that name; on a GPU the caller must have waited for
        what was computed from it, because the buffer it came from is written again.
        """
        parts = [torch.from_numpy(array) for array in arrays]
        if self._device.type == "cpu":
            return parts[0] if len(parts) == 1 else torch.cat(parts, dim)
        shape = list(parts[0].shape)
        shape[dim] = sum(part.shape[dim] for part in parts)
        buffer = self._pinned.get(name)
        if buffer is None or list(buffer.shape) != shape:
            buffer = self._pinned[name] = torch.empty(shape, dtype=parts[0].dtype, pin_memory=True)
        torch.cat(parts, dim, out=buffer)
        return buffer.to(self._device, non_blocking=True)
