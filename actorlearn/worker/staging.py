"""Joins arrays of several simulators, which are in shared memory, to one tensor on a device.

On the CPU, a single array is used in place, and several arrays are joined by one copy. For a GPU, arrays are joined in
pinned memory, and copied to the GPU asynchronously. The dtype does not change: images of uint8 are converted to floats
by the network, on the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


class Staging:
    """Joins arrays to tensors on a device; for a GPU through pinned buffers, one for each name of a column."""

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        self._pinned: dict[str, Tensor] = {}

    def join(self, columns: Mapping[str, Sequence[NDArray[Any]]], dim: int) -> dict[str, Tensor]:
        """Return the arrays of each column joined along ``dim``, on the device.

        A tensor is valid until the next call with the same name. On a GPU, computations from it must have ended before
        that call, which writes to the same pinned buffer.
        """
        return {name: self._joined(name, arrays, dim) for name, arrays in columns.items()}

    def _joined(self, name: str, arrays: Sequence[NDArray[Any]], dim: int) -> Tensor:
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
