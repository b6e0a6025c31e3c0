"""Parallel environments whose agents end at different times and come back, at random or by a script."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from pettingzoo import ParallelEnv

NAMES = ("ann", "bob", "cid")


class Three(ParallelEnv):
    """Three agents with three actions and a vector each."""

    metadata = {"name": "three", "render_modes": ["rgb_array"]}
    render_mode = None

    def __init__(self) -> None:
        self.possible_agents = list(NAMES)
        self.agents = []
        self.spaces = {name: (Box(-np.inf, np.inf, (4,), np.float32), Discrete(3)) for name in NAMES}

    def observation_space(self, agent):
        return self.spaces[agent][0]

    def action_space(self, agent):
        return self.spaces[agent][1]


class Crowd(Three):
    """Agents leave and come back at random, and see the sum of all actions; a game ends when all have left."""

    def reset(self, seed=None, options=None):
        self.random = np.random.default_rng(seed)
        self.acted = np.zeros(3)
        self.time = 0
        self.agents = [name for name in NAMES if self.random.random() < 0.7] or ["bob"]
        return self._seen(self.agents), {name: {} for name in self.agents}

    def step(self, actions):
        assert actions.keys() == set(self.agents)
        self.time += 1
        for name, action in actions.items():
            assert self.action_space(name).contains(action)
            self.acted[NAMES.index(name)] += action
        drawn = dict(zip(NAMES, self.random.random(3), strict=True))
        terminated = {name: bool(drawn[name] < 0.1) for name in actions}
        truncated = {name: bool(0.1 <= drawn[name] < 0.15) for name in actions}
        come = [name for name in NAMES if name not in actions and drawn[name] < 0.3]
        staying = [name for name in NAMES if name in actions and not (terminated[name] or truncated[name])]
        self.agents = [name for name in NAMES if name in staying or (name in come and staying)]
        told = {name: {} for name in {*actions, *self.agents}}
        return self._seen(told), {name: float(actions.get(name, 7)) for name in told}, terminated, truncated, told

    def _seen(self, names):
        noise = self.random.random()
        return {name: np.array([NAMES.index(name), self.time, self.acted.sum(), noise], np.float32) for name in names}

    def state(self):
        generator = self.random.bit_generator.state
        return {"acted": self.acted, "time": self.time, "agents": self.agents, "generator": generator}

    def restore(self, state):
        self.acted, self.time, self.agents = state["acted"], state["time"], state["agents"]
        self.random = np.random.default_rng()
        self.random.bit_generator.state = state["generator"]


class Scripted(Three):
    """Plays games by a script, in order: the agents at the reset, and each agent's event at each step.

    Events of a present agent: terminated, truncated, left (without a flag); otherwise it continues. Event of an absent
    agent: come; otherwise it stays away. All agents end with the script. An agent that has ended is no longer listed if
    ``tidy``; else it is listed with its flag until the game is over.
    """

    def __init__(self, games, tidy=True, render_mode=None) -> None:
        super().__init__()
        self.games, self.tidy, self.render_mode = games, tidy, render_mode
        self.game = -1

    def reset(self, seed=None, options=None):
        self.game, self.time = self.game + 1, 0
        self.script = self.games[self.game % len(self.games)]
        self.agents = [name for name, there in zip(NAMES, self.script["there"], strict=True) if there]
        self.over = {}
        return self._seen(self.agents), {}

    def step(self, actions):
        self.time += 1
        steps, there = self.script["steps"], [name for name in self.agents if name not in self.over]
        events = steps[self.time - 1] if self.time <= len(steps) else ["terminated"] * 3
        event = dict(zip(NAMES, events, strict=True))
        ended = {name: event[name] for name in there if event[name] in ("terminated", "truncated")}
        left = [name for name in there if event[name] == "left"]
        come = [name for name in NAMES if name not in self.agents and event[name] == "come"]
        self.agents = [name for name in NAMES if (name in self.agents and name not in left) or name in come]
        if self.tidy:
            self.agents = [name for name in self.agents if name not in ended]
        else:
            self.over |= ended
        told = {*there, *come, *self.over}
        flags = {
            word: {name: {**self.over, **ended}.get(name) == word for name in told}
            for word in ("terminated", "truncated")
        }
        rewards = {name: 10.0 * self.time + actions.get(name, 0) for name in told}
        return self._seen(told), rewards, flags["terminated"], flags["truncated"], {}

    def _seen(self, names):
        return {name: np.array([NAMES.index(name), self.game, self.time, 1], np.float32) for name in names}

    def render(self):
        picture = np.zeros((40, 61, 3), np.uint8)
        picture[:, : 6 * self.time] = (250, 20, 30)
        return picture


class Masked(Three):
    """Each agent has one valid action at each step; another one is an error. ``source``: info or observation."""

    def __init__(self, source: str = "info") -> None:
        super().__init__()
        self.source = source
        if source == "observation":
            seen, acted = self.spaces[NAMES[0]]
            both = Dict({"action_mask": MultiBinary(3), "seen": seen})
            self.spaces = {name: (both, acted) for name in NAMES}

    def answer(self):
        masks = {name: np.eye(3, dtype=np.int8)[(self.time + j) % 3] for j, name in enumerate(NAMES)}
        seen = {name: np.full(4, self.time, np.float32) for name in NAMES}
        if self.source == "info":
            return seen, {name: {"action_mask": masks[name]} for name in NAMES}
        return {name: {"action_mask": masks[name], "seen": seen[name]} for name in NAMES}, {name: {} for name in NAMES}

    def reset(self, seed=None, options=None):
        self.agents, self.time = list(NAMES), 0
        return self.answer()

    def step(self, actions):
        for j, name in enumerate(NAMES):
            assert actions[name] == (self.time + j) % 3, f"action {actions[name]} of {name} is not valid"
        self.time += 1
        over = self.time == 4
        if over:
            self.agents = []
        seen, infos = self.answer()
        flags = dict.fromkeys(NAMES, over)
        return seen, dict.fromkeys(NAMES, 1.0), flags, dict.fromkeys(NAMES, False), infos
