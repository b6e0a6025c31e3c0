"""Environments with one fault each; named as tests.nasty.environments:Name.

``Sound`` is without a fault. Each class spoils one method of it. ``after`` is the number of steps before the fault, so
the same class is refused before a run (0) or fails during a run.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from typing import Any

import gymnasium
import numpy as np

LONG_S = 10.0**6
"""Longer than any test."""

Result = tuple[Any, ...]


class Sound(gymnasium.Env[Any, Any]):
    """Four numbers, two actions, games of ten steps; the reward is for action 1."""

    def __init__(self, after: int = 0, render_mode: str | None = None) -> None:
        self.after, self.render_mode = after, render_mode
        self.observation_space: Any = gymnasium.spaces.Box(-10.0, 10.0, (4,), np.float32)
        self.action_space: Any = gymnasium.spaces.Discrete(2)
        self.made = self.left = 0
        """Steps of all games, and steps left in this one."""

    @property
    def due(self) -> bool:
        """Whether the fault is to happen in this step."""
        return self.made > self.after

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Result:
        super().reset(seed=seed)
        self.left = 10
        return self.seen(), {}

    def step(self, action: Any) -> Result:
        self.left -= 1
        self.made += 1
        outcome = {
            "observation": self.seen(),
            "reward": float(action == 1),
            "terminated": self.left <= 0,
            "truncated": False,
            "info": {},
        }
        if self.due:
            outcome |= self.spoilt(outcome)
        return tuple(outcome.values())

    def seen(self) -> Any:
        """Return an observation."""
        return self.np_random.normal(0.0, 1.0, 4).astype(np.float32)

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        """Do what is wrong in a step; returns the values that a step returns instead of its own."""
        return {}


# Values of a step -------------------------------------------------------------------------------------------------


class ObservationOfOtherShape(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"observation": np.zeros(5, np.float32)}


class ObservationOfText(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"observation": np.array(["a", "b", "c", "d"])}


class ObservationOfObjects(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"observation": np.array([None, {}, [], 1], object)}


class ObservationIsNone(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"observation": None}


class ObservationIsRagged(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"observation": [[1.0], [1.0, 2.0]]}


class ObservationIsList(Sound):
    """Accepted: an array can be made of it."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"observation": outcome["observation"].tolist()}


class ObservationIsTensor(Sound):
    """Accepted: an array can be made of it."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        import torch

        return {"observation": torch.from_numpy(outcome["observation"])}


class ObservationNeedsGradient(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        import torch

        return {"observation": torch.zeros(4, requires_grad=True)}


class ObservationNan(Sound):
    value = np.nan

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"observation": np.array([0, 0, self.value, 0], np.float32)}


class ObservationInf(ObservationNan):
    value = np.inf


class ObservationMinusInf(ObservationNan):
    value = -np.inf


class ObservationOutsideItsSpace(ObservationNan):
    """Accepted: only numbers that are not finite are refused."""

    value = 1e6


class Reward(Sound):
    value: Any = None

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"reward": self.value}


class RewardNone(Reward):
    pass


class RewardText(Reward):
    value = "1.0"


class RewardArray(Reward):
    value = np.zeros(2)


class RewardArrayOfOne(Reward):
    value = np.zeros(1)


class RewardHuge(Reward):
    value = 1e300


class RewardHugeInteger(Reward):
    value = 10**400


class RewardNan(Reward):
    value = np.nan


class RewardInf(Reward):
    value = np.inf


class RewardMinusInf(Reward):
    value = -np.inf


class TerminatedInteger(Sound):
    value: Any = 1

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"terminated": self.value}


class TerminatedNone(TerminatedInteger):
    value = None


class TerminatedArray(TerminatedInteger):
    value = np.zeros(2, bool)


class TruncatedText(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"truncated": "no"}


class InfoNone(Sound):
    """Accepted: nothing reads it."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"info": None}


class ReprRaises(Sound):
    """Returns a reward that cannot even be shown."""

    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no picture of me")

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"reward": self.Odd()}


class StepOfFour(Sound):
    """gym before 0.26."""

    def step(self, action: Any) -> Result:
        observation, reward, terminated, _, info = super().step(action)
        return (observation, reward, terminated, info)


class ResetOfOne(Sound):
    """gym before 0.26."""

    def reset(self, **named: Any) -> Any:
        return super().reset(**named)[0]


class ResetWithoutSeed(Sound):
    """gym before 0.26."""

    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class WrongOnResetOnly(Sound):
    def reset(self, **named: Any) -> Result:
        super().reset(**named)
        return np.zeros((2, 2), np.float32), {}


class NeverEnds(Sound):
    """Accepted: the run ends at its steps."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"terminated": False}


class EndsAtOnce(Sound):
    """Accepted: games of one step."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"terminated": True}


# Spaces -----------------------------------------------------------------------------------------------------------


class NoObservationSpace(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = None


class MissingSpaces(gymnasium.Env[Any, Any]):
    def reset(self, **_named: Any) -> Result:
        return 0, {}

    def step(self, action: Any) -> Result:
        return 0, 0.0, False, False, {}


class SpaceIsText(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = "four numbers"


class UnknownSpace(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(3))


class OldGymSpace(Sound):
    """A space of another library with the same name."""

    class Box:
        shape, dtype = (4,), np.float32

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = self.Box()


class UnboundedInteger(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gymnasium.spaces.Discrete(2**62)


class NoActionSpace(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = None


class UnsupportedActions(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(2))


class UnboundedActions(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)


class WideActions(Sound):
    """Accepted: actions arrive with the dtype of the space, float64."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float64)

    def step(self, action: Any) -> Result:
        if action.dtype != np.float64:
            raise TypeError(f"actions must be float64, not {action.dtype}")
        return super().step(int(action[0] > 0))


class SpaceRaises(Sound):
    def __init__(self) -> None:
        self.action_space = gymnasium.spaces.Discrete(2)

    @property
    def observation_space(self) -> Any:  # type: ignore[override]
        raise LookupError("the map of the world is lost")


class DifferentSpaces(Sound):
    """Each instance of a process has another number of actions."""

    instances = 0

    def __init__(self, after: int = 0) -> None:
        super().__init__(after)
        DifferentSpaces.instances += 1
        self.action_space = gymnasium.spaces.Discrete(1 + DifferentSpaces.instances)


# Waits and ends ---------------------------------------------------------------------------------------------------


class HangsInInit(Sound):
    def __init__(self) -> None:
        time.sleep(LONG_S)


class HangsInReset(Sound):
    def reset(self, **named: Any) -> Result:
        time.sleep(LONG_S)
        return super().reset(**named)


class HangsInStep(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        time.sleep(LONG_S)
        return {}


class HangsInClose(Sound):
    def close(self) -> None:
        if self.due:
            time.sleep(LONG_S)


class HoldsTheLock(Sound):
    """Computes for ever in C, with Python's lock."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"reward": sum(range(10**12))}


class Crashes(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        ctypes.string_at(0)
        return {}


class LeavesAtOnceWith0(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        os._exit(0)


class LeavesAtOnceWith3(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        os._exit(3)


class ExitsWith0(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        sys.exit(0)


class ExitsWithText(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        sys.exit("the licence has expired")


class Interrupts(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        raise KeyboardInterrupt


class RaisesBase(Sound):
    class Stop(BaseException):
        pass

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        raise self.Stop("out of fuel")


class StopsItself(Sound):
    number = signal.SIGSTOP

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        os.kill(os.getpid(), self.number)
        return {}


class TerminatesItself(StopsItself):
    number = signal.SIGTERM


class KillsItself(StopsItself):
    number = signal.SIGKILL


# Exceptions -------------------------------------------------------------------------------------------------------


class RaisesInInit(Sound):
    def __init__(self) -> None:
        raise FileNotFoundError("the track is at home")


class RaisesInReset(Sound):
    def reset(self, **named: Any) -> Result:
        raise OSError("no licence")


class RaisesInStep(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        raise ArithmeticError("the wheel fell off")


class RaisesInClose(Sound):
    def close(self) -> None:
        if not self.due:
            return
        raise ArithmeticError("the door is stuck")


class RaisesInDel(Sound):
    """Accepted: Python prints it and goes on."""

    def __del__(self) -> None:
        raise ArithmeticError("not dead yet")


class RaisesInRender(Sound):
    """Accepted: training draws no pictures."""

    def render(self) -> Any:
        raise ArithmeticError("no screen")


class RaisesForeignText(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("колесо отвалилось 🛞 \udcff \x1b[31m\x07")


class RaisesMegabyte(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("wheel " * 200_000)


class StrRaises(Sound):
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        raise self.Odd


class RaisesForEver(Sound):
    """Recursion without an end."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return self.spoilt(outcome)


class OutOfMemory(Sound):
    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        return {"observation": np.zeros(2**50)}


# Things left behind -----------------------------------------------------------------------------------------------


class LeavesChild(Sound):
    """Accepted: the child ends with the process."""

    def __init__(self, after: int = 0) -> None:
        super().__init__(after)
        if os.fork() == 0:
            os.setsid()
            time.sleep(LONG_S)


class LeavesThread(Sound):
    """Accepted: the thread ends with the process."""

    def __init__(self, after: int = 0) -> None:
        super().__init__(after)
        threading.Thread(target=time.sleep, args=(LONG_S,)).start()


class LeavesWorker(Sound):
    """Accepted: the worker of multiprocessing ends with the process."""

    def __init__(self, after: int = 0) -> None:
        super().__init__(after)
        self.worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(LONG_S,))
        self.worker.start()


class LeavesDescriptors(Sound):
    """Opens ten files in each step and closes none."""

    def __init__(self, after: int = 0) -> None:
        super().__init__(after)
        self.open: list[int] = []

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        self.open += [os.open(os.devnull, os.O_RDONLY) for _ in range(10_000)]
        return {}


class GrowsAlways(Sound):
    """Keeps 100 MB more in each step, up to 1 GB."""

    def __init__(self, after: int = 0) -> None:
        super().__init__(after)
        self.kept: list[bytes] = []

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        if len(self.kept) < 10:
            self.kept.append(bytearray(10**8))  # type: ignore[arg-type]
        return {}


# Output -----------------------------------------------------------------------------------------------------------


class PrintsMegabytes(Sound):
    """Accepted: output goes to the log."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        if self.made == self.after + 1:
            for stream in (sys.stdout, sys.stderr):
                stream.write("brum " * 10**6 + "\n")
        return {}


class PrintsBytes(Sound):
    """Accepted: output goes to the log."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        os.write(1, bytes(range(256)) + b"\n{}\n[1]\n" + b'{"error": "no"}\n')
        return {}


class ClosesOutput(Sound):
    """Accepted: nothing needs it."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        sys.stdout.close()
        return {}


class ClosesDescriptors(Sound):
    """Closes its input and output, as a daemon does. Accepted: nothing needs them."""

    closed = False

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        if not ClosesDescriptors.closed:
            ClosesDescriptors.closed = True
            os.closerange(0, 3)
        return {}


# State of the process ---------------------------------------------------------------------------------------------


class ChangesFolder(Sound):
    """Accepted: paths of a run are absolute."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        os.chdir("/")
        return {}


class ChangesHandlers(Sound):
    """Ignores every signal. Accepted: the run ends its processes all the same."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        return {}


class ChangesSeeds(Sound):
    """Accepted: the run uses generators of its own."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        import torch

        np.random.seed(0)
        random.seed(0)
        torch.manual_seed(0)
        return {}


class ChangesMask(Sound):
    """Nobody may read what this process makes. Accepted."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        os.umask(0o777)
        return {}


class ClearsEnvironment(Sound):
    """Accepted."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        os.environ.clear()
        return {}


class DeletesEnvironment(Sound):
    """Accepted."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        if hasattr(os, "environ"):
            del os.environ
        return {}


class ChangesDefaults(Sound):
    """Accepted: torch's and numpy's settings, the garbage collector and the recursion limit are the environment's."""

    def spoilt(self, outcome: dict[str, Any]) -> dict[str, Any]:
        import torch

        torch.set_default_dtype(torch.float64)
        np.seterr(all="raise")
        gc.disable()
        return {}


class AtOnce(Sound):
    """Does in its constructor what another of these classes does in a step."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        globals()[fault]().spoilt({})
