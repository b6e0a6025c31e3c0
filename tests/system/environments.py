"""Environments that fail, hang or are slow; named as tests.system.environments:Name."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from actorlearn.envs.catch import Catch, Image
from tests.runaways import command

SLEEPERS_VARIABLE = "ACTORLEARN_TEST_SLEEPERS"
"""Name of the processes that ``StartsOthers`` starts."""

PACED_VARIABLE = "ACTORLEARN_TEST_PACED"
"""Path of a file; while it exists, a step of ``Paced`` takes the seconds that the file holds, or `STEP_S`."""

STEP_S = 0.005


class Paced(Catch):
    """Catch that takes its time until a test removes a file: time for faults, and then a quick end."""

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        with suppress(FileNotFoundError):
            time.sleep(float(Path(os.environ[PACED_VARIABLE]).read_text() or STEP_S))
        return super().step(action)


class Uneven(Catch):
    """Catch that is slow in one simulator, so that other learners in mode sync wait for that of this simulator."""

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        if "simulator-0" in os.readlink("/proc/self/fd/1"):  # the log
            time.sleep(0.02)
        return super().step(action)


class Cropped(Paced):
    """Shows only the first lines and columns of its image."""

    def __init__(self, size: int = 10) -> None:
        super().__init__()
        self.size = size
        self.observation_space = gymnasium.spaces.Box(0, 255, (1, size, size), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Image, dict[str, Any]]:
        image, info = super().reset(seed=seed, options=options)
        return image[:, : self.size, : self.size], info

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        image, *others = super().step(action)
        return image[:, : self.size, : self.size], *others


class Counted(Paced):
    """Appends a byte to a file of its process in each step: a count that the run does not know."""

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        result = super().step(action)
        with Path(f"{os.environ[PACED_VARIABLE]}.steps.{os.getpid()}").open("ab") as file:
            file.write(b".")
        return result


class Slow(Catch):
    """Catch that takes as long for a step as a simulation of traffic."""

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        time.sleep(0.05)
        return super().step(action)


class Fades(Paced):
    """Gives less in each game than in the one before, so that the best score is an early one."""

    games = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Image, dict[str, Any]]:
        self.games += 1
        return super().reset(seed=seed, options=options)

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        image, _, over, cut, info = super().step(action)
        return image, 1.0 / self.games if over else 0.0, over, cut, info


class StartsOthers(Paced):
    """Starts other processes, which detach themselves from it in every possible way."""

    def __init__(self) -> None:
        super().__init__()
        self._beside = subprocess.Popen(command(os.environ[SLEEPERS_VARIABLE]))


class Chatty(Paced):
    """Says something at every step."""

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        print("the ball falls")
        return super().step(action)


class DiesInStep(Catch):
    """Falls over in the middle of its third game."""

    steps = 0

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        if self.steps == 22:
            raise ArithmeticError("the paddle fell off")
        return super().step(action)


class Waits(Catch):
    """Sleeps in every step and reset."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Image, dict[str, Any]]:
        time.sleep(0.1)
        return super().reset(seed=seed, options=options)

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        time.sleep(0.1)
        return super().step(action)


class Spins(Paced):
    """Computes for ever in a step of its third game, but only once in a run."""

    steps = 0

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        if self.steps == 22:
            with suppress(FileExistsError):
                os.close(os.open(f"{os.environ[PACED_VARIABLE]}.spun", os.O_CREAT | os.O_EXCL))
                spin()
        return super().step(action)


def spin() -> None:
    """Never return."""
    while True:
        pass


class CannotBeMade(Catch):
    """Lacks a file that its author has."""

    def __init__(self) -> None:
        raise FileNotFoundError("the ball is at home")


class Copies(gymnasium.Env[dict[str, Any], np.ndarray[Any, Any]]):
    """Shows two choices, also as text, and rewards an action that repeats both; a game has four steps."""

    def __init__(self, prize: float = 1.0) -> None:
        self.observation_space = gymnasium.spaces.Dict(
            shown=gymnasium.spaces.MultiDiscrete([3, 2]), said=gymnasium.spaces.Text(20)
        )
        self.action_space = gymnasium.spaces.MultiDiscrete([3, 2])
        self.prize = prize

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._show(), {}

    def step(self, action: np.ndarray[Any, Any]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = self.prize * bool((action == self.shown).all())
        return self._show(), reward, False, False, {}

    def _show(self) -> dict[str, Any]:
        self.shown = self.np_random.integers([3, 2])
        return {"shown": self.shown, "said": str(self.shown)}


gymnasium.register(id="Copies-v0", entry_point=Copies, max_episode_steps=4)
