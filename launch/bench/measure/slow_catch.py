"""Catch with steps that take time and no processor, so that learners which share cores are faster together."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from actorlearn.envs.catch import Catch, Image

STEP_S = 0.001


class SlowCatch(Catch):
    """Catch whose every step sleeps 1 ms."""

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        """Sleep, then move."""
        time.sleep(STEP_S)
        return super().step(action)
