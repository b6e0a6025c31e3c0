"""An environment that kills its process again and again, after more steps than a rehearsal takes."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np

from actorlearn.envs.catch import Catch, Image

LIFE_STEPS = 200


class Dies(Catch):
    """Catch, for `LIFE_STEPS` steps: ``tests.chaos.restarts:Dies``."""

    steps = 0

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        if self.steps > LIFE_STEPS:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)
