"""A corridor of rooms with many doors, of which few are valid in each room: masks in info or in a Dict observation.

An action that is not valid ends the game, as in games that end at an illegal move.
"""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.vector import AutoresetMode, SyncVectorEnv

DOORS, ROOMS, THERE = 40, 8, 3


class Doors(gymnasium.Env):
    """In each room, one of THERE valid doors has a reward; the doors of a room and their rewards never change.

    ``source``: info or observation. ``pairs``: an action is two choices, of which only the first is a door.
    """

    def __init__(self, source: str = "info", doors: int = DOORS, pairs: bool = False) -> None:
        self.source, self.doors, self.pairs = source, doors, pairs
        random = np.random.default_rng(7)
        self.there = np.zeros((ROOMS + 1, doors), np.int8)
        self.best = np.zeros(ROOMS, np.int64)
        for room in range(ROOMS):
            own = random.choice(doors, THERE, replace=False)
            self.there[room, own], self.best[room] = 1, own[0]
        seen = Box(0.0, 1.0, (ROOMS + 1,), np.float32)
        cells = doors + 2 * pairs
        self.action_space = MultiDiscrete([doors, 2]) if pairs else Discrete(doors)
        self.observation_space = (
            Dict({"action_mask": MultiBinary(cells), "room": seen}) if source == "observation" else seen
        )
        self.invalid = 0

    def answer(self):
        room = np.eye(ROOMS + 1, dtype=np.float32)[self.room]
        mask = self.there[self.room]
        if self.pairs and self.room < ROOMS:
            mask = np.concatenate([mask, [self.room % 2, 1]]).astype(np.int8)
        elif self.pairs:
            mask = np.zeros(self.doors + 2, np.int8)
        return (
            ({"action_mask": mask, "room": room}, {})
            if self.source == "observation"
            else (
                room,
                {"action_mask": mask} if self.source == "info" else {},
            )
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.room = 0
        return self.answer()

    def step(self, action):
        door = int(action[0]) if self.pairs else int(action)
        second_wrong = self.pairs and int(action[1]) == 0 and self.room % 2 == 0
        if not self.there[self.room, door] or second_wrong:
            self.invalid += 1
            seen, info = self.answer()
            return seen, 0.0, True, False, {**info, "invalid": True}
        reward = float(door == self.best[self.room])
        self.room += 1
        seen, info = self.answer()  # in the last room no door is there
        return seen, reward, self.room == ROOMS, False, info

    def state(self):
        return {"room": self.room}

    def restore(self, state):
        self.room = int(state["room"])


class Strict(Doors):
    """Doors whose invalid actions raise an error."""

    def step(self, action):
        seen = super().step(action)
        if seen[4].get("invalid"):
            raise AssertionError(f"action {action} is not valid in room {self.room}")
        return seen


class Locked(Doors):
    """A room in the middle has no door: an error of the environment."""

    def __init__(self, source: str = "info") -> None:
        super().__init__(source)
        self.there[2] = 0


class Forgetful(Doors):
    """Its steps return no masks."""

    def step(self, action):
        seen, reward, over, cut, _ = super().step(action)
        return seen, reward, over, cut, {}


class Brief(Strict):
    """The last step of a game returns no mask."""

    def step(self, action):
        seen, reward, over, cut, info = super().step(action)
        return seen, reward, over, cut, {} if over or cut else info


class Varied(Strict):
    """Masks in another form than one array: a tuple or a list of numbers, or of parts."""

    def __init__(self, form: type = tuple, pairs: bool = False) -> None:
        super().__init__(pairs=pairs)
        self.form = form

    def answer(self):
        seen, info = super().answer()
        mask = info["action_mask"]
        parts = np.split(mask, [self.doors]) if self.pairs else mask.tolist()
        return seen, {"action_mask": self.form(parts)}


class Split(Strict):
    """Its observation has the mask as a Tuple with the cells of each part of an action."""

    def __init__(self) -> None:
        super().__init__("observation", pairs=True)
        parts = Tuple([MultiBinary(self.doors), MultiBinary(2)])
        self.observation_space = Dict({"action_mask": parts, "room": self.observation_space["room"]})

    def answer(self):
        seen, info = super().answer()
        return {**seen, "action_mask": tuple(np.split(seen["action_mask"], [self.doors]))}, info


class Square(Doors):
    """Its observation has a key action_mask that is no vector; with ``told`` its info has the mask."""

    def __init__(self, told: bool = False) -> None:
        super().__init__("info" if told else "none")
        self.square = np.zeros((DOORS, DOORS), np.int8)
        self.observation_space = Dict({"action_mask": MultiBinary((DOORS, DOORS)), "room": self.observation_space})

    def answer(self):
        seen, info = super().answer()
        return {"action_mask": self.square, "room": seen}, info


class Once(gymnasium.Env):
    """Never ends. Action 0 is valid only at the first step of a game; an action that is not valid is an error."""

    observation_space = Box(0.0, 1.0, (1,), np.float32)
    action_space = Discrete(2)

    def answer(self):
        return np.zeros(1, np.float32), {"action_mask": np.array([self.steps == 0, True])}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.answer()

    def step(self, action):
        if action == 0 and self.steps:
            raise AssertionError(f"action 0 is not valid at step {self.steps}")
        self.steps += 1
        seen, info = self.answer()
        return seen, 1.0, False, False, info


def endless(num_envs: int, mode: str) -> SyncVectorEnv:
    """Vector of Once without an argument for the time limit, so that actorlearn counts the steps."""
    return SyncVectorEnv([Once] * num_envs, autoreset_mode=AutoresetMode(mode))


class Rooms(SyncVectorEnv):
    """Games stepped together whose state can be saved."""

    def state(self):
        return {"rooms": [env.room for env in self.envs], "ended": self._autoreset_envs}

    def restore(self, state):
        for env, room in zip(self.envs, state["rooms"], strict=True):
            env.room = room
        self._autoreset_envs[:] = state["ended"]


class Bits(Doors):
    """Has two bits, and a mask of two cells instead of four."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = MultiBinary(2)

    def answer(self):
        seen, _ = super().answer()
        return seen, {"action_mask": np.ones(2, np.int8)}


class Odd(Doors):
    """Masks of numbers that are neither 0 nor 1."""

    def answer(self):
        seen, info = super().answer()
        return seen, {"action_mask": info["action_mask"] * 2}
