"""Delay: a wrapper of environments whose steps wait for something, as a device, a browser or another machine.

Named in a topology as ``env.wrappers: [{name: actorlearn.envs.delay:Delay, kwargs: {seconds: 0.005}}]``. The time of a
step is then known and uses no processor, so learners do not take it from one another: for benchmarks of what waits for
what, on a machine with few cores.
"""

from __future__ import annotations

import os
import time
from typing import Any

import gymnasium

FACTOR_VARIABLE = "ACTORLEARN_DELAY_FACTOR"
"""Environment variable with the factor by which the delays of a process are longer."""


class Delay(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Environment whose steps take longer than the wrapped one's, by a sleep."""

    def __init__(self, env: gymnasium.Env[Any, Any], seconds: float) -> None:
        """Sleep so long in each step, times the number in FACTOR_VARIABLE where that is set."""
        super().__init__(env)
        self._seconds = seconds * float(os.environ.get(FACTOR_VARIABLE, "1"))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Sleep, and take the wrapped environment's step."""
        time.sleep(self._seconds)
        return self.env.step(action)
