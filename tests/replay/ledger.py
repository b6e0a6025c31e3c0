"""An environment that keeps every game whole, and simulators of it that fill real blocks: what replay is held against.

An observation is a stack of k frames of 3 numbers (environment, game, step of the game), zeros before a game's first.
The simulator's own code writes the blocks, so what a row means is not said a second time here.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from actorlearn.envs.interface import EnvSpec, Row, VectorEnv
from actorlearn.memory.rollout import Blocks, BlockShape, Rollouts, make_segment, rollouts_fields
from actorlearn.memory.shared import Segment
from actorlearn.processes.simulator import EnvGroup
from actorlearn.replay.rows import COLUMNS

ENVS = 2
NUMBERS = itertools.count(1)


@dataclass
class Step:
    """Arriving at a row, and the action chosen there."""

    observation: npt.NDArray[np.float32]
    reward: float
    terminated: bool = False
    truncated: bool = False
    life_lost: bool = False
    action: int | None = None


@dataclass
class Game:
    """All rows of one game, in order."""

    steps: list[Step] = field(default_factory=list)
    discarded: bool = False
    """Played on while the others finished the block: its rows are void."""


class LedgerEnv:
    """ENVS environments with games of random lengths, lost lives and ends of both kinds."""

    count = ENVS

    def __init__(self, stack: int, seed: int) -> None:
        self.spec = EnvSpec(
            observation_shape=(stack, 3), observation_dtype="float32", actions=4, frames_per_step=1, stack=stack
        )
        self.stack = stack
        self.random = np.random.default_rng(seed)
        self.names = [next(NUMBERS) for _ in range(ENVS)]
        self.games: list[list[Game]] = [[] for _ in range(ENVS)]

    def by_name(self) -> dict[int, list[Game]]:
        return dict(zip(self.names, self.games, strict=True))

    def reset(self, row: Row) -> None:
        for b in range(ENVS):
            self._begin(b, row)

    def restart(self, chosen: npt.NDArray[np.bool_], row: Row) -> None:
        for b in np.flatnonzero(chosen):
            last = self.games[b][-1]
            last.discarded = not _over(last)
            self._begin(int(b), row)

    def step(self, action: npt.NDArray[np.int64], row: Row) -> None:
        assert (action >= 0).all(), "stepped with poison instead of an action"
        for b in range(ENVS):
            steps = self.games[b][-1].steps
            if _over(self.games[b][-1]):
                self._begin(b, row)
                continue
            steps[-1].action = int(action[b])
            end = self.random.choice(["", "terminated", "truncated", "life_lost"], p=[0.7, 0.1, 0.1, 0.1])
            reward = float(np.float32(self.random.normal()))
            steps.append(Step(self._observe(b, len(steps)), reward, **({end: True} if end else {})))
            self._write(b, row)

    def random_actions(self, random: np.random.Generator) -> npt.NDArray[np.int64]:
        return random.integers(4, size=ENVS)

    def close(self) -> None:
        pass

    def _begin(self, b: int, row: Row) -> None:
        self.games[b].append(Game())
        self.games[b][-1].steps.append(Step(self._observe(b, 0), 0.0))
        self._write(b, row)

    def _observe(self, b: int, step: int) -> npt.NDArray[np.float32]:
        frames = np.zeros((self.stack, 3), np.float32)
        for back in range(min(step + 1, self.stack)):
            frames[-1 - back] = (self.names[b], len(self.games[b]), step - back + 1)
        return frames

    def _write(self, b: int, row: Row) -> None:
        step = self.games[b][-1].steps[-1]
        row.observation[b], row.reward[b], row.first[b] = (
            step.observation,
            step.reward,
            len(self.games[b][-1].steps) == 1,
        )
        row.terminated[b], row.truncated[b], row.life_lost[b] = step.terminated, step.truncated, step.life_lost


def _over(game: Game) -> bool:
    return game.steps[-1].terminated or game.steps[-1].truncated


class Simulated:
    """A simulator of one group, rollout after rollout, in this process."""

    def __init__(
        self, folder: Path, env: VectorEnv, horizon: int, reset: str, decorrelation: int, state_size: int = 0
    ) -> None:
        self.env, self.horizon, self.rollout, self.state_size = env, horizon, 0, state_size
        number = next(NUMBERS)
        self.random = np.random.default_rng(number)
        name = f"simulator-{number}"
        self.rollouts = Rollouts(Segment.create(folder / f"{name}.rollouts", rollouts_fields()))
        shape = BlockShape(
            groups=1,
            blocks=2,
            horizon=horizon,
            envs_per_group=env.count,
            observation_shape=env.spec.observation_shape,
            observation_dtype=env.spec.observation_dtype,
            actions=env.spec.actions,
            state_size=state_size,
        )
        self.blocks = Blocks(make_segment(folder / name, shape))
        self.group = EnvGroup(0, env, self.blocks, self.rollouts, reset)
        list(self.group.starts.first(decorrelation, [number]))
        self.blocks.admit(0)

    def play(self) -> tuple[int, dict[str, npt.NDArray]]:
        """Play one rollout with random actions; returns its number and its block.

        The state after a row is the newest frame of its observation.
        """
        rollout = self.rollout
        self.rollouts.raise_to(rollout + 1)
        while (result := self.group.advance()) != "completed":
            assert result == "observed"
            timestep = self.group.timestep
            self.blocks.row("action", 0, timestep)[:] = self.env.random_actions(self.random)
            if self.state_size:
                self.blocks.row_after("state", 0, timestep)[:] = self.blocks.row("observation", 0, timestep)[:, -1]
            self.blocks.mark_acted(0, timestep, 0)
        self.rollout += 1
        columns = (*COLUMNS, *(["state"] if self.state_size else []))
        return rollout, {name: self.blocks.block(name, 0, rollout) for name in columns}
