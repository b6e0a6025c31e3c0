"""An environment that kills its process at its first step, again and again."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np

from actorlearn.envs.catch import Catch, Image


class Dies(Catch):
    """Catch, until it is played: ``tests.chaos.restarts:Dies``."""

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        """No step is ever taken."""
        os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)
