"""GPUs that processes of this machine may use, from device files and CUDA's variable, without loading a library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""Environment variable with indices or UUIDs of the GPUs that CUDA shows; CUDA stops at the first invalid one."""
TORCH_AND_GPUS = (
    "import json, torch; n = torch.cuda.device_count() if torch.cuda.is_available() else 0; "
    "print(json.dumps([torch.__version__, [torch.cuda.get_device_name(i) for i in range(n)]]))"
)
"""Program that imports torch and prints its version and the names of the GPUs that it sees, as JSON."""


def visible_gpus(devices: Path = Path("/dev"), environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the NVIDIA GPUs that CUDA shows to a process with this environment: numbers, or ids as in ``VISIBLE``."""
    there = sum(path.name.removeprefix("nvidia").isdecimal() for path in devices.glob("nvidia*"))
    if not there or VISIBLE not in environment:
        return [str(number) for number in range(there)]

    def exists(name: str) -> bool:
        return int(name) < there if name.isdecimal() else name.startswith(("GPU-", "MIG-"))

    return [*dict.fromkeys(takewhile(exists, (name.strip() for name in environment[VISIBLE].split(","))))]
