"""An environment whose steps take time and no processor, so that many learners can be measured on few cores."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from launch.bench.measure.still import Still


class Waiting(Still):
    """Sleeps in each step; longer in the processes that a folder names."""

    def __init__(self, step_s: float, slow: str, slower: float) -> None:
        """Sleep ``step_s`` seconds a step, ``slower`` times as long while the folder ``slow`` has this pid's file."""
        super().__init__()
        self._step_s, self._slower = step_s, slower
        self._slow = Path(slow, str(os.getpid()))

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Sleep, and go on."""
        time.sleep(self._step_s * (self._slower if self._slow.exists() else 1.0))
        return super().step(action)
