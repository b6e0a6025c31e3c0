"""Start-state decorrelation: spreads environments over different parts of their games before learning begins.

Without it all environments reach the same part of the game at the same time, and the first batches have many rows of
the same situation (Stooke & Abbeel 2018, section 5.3). Their code seeds from the clock; this code uses the run's seeds.
Reads: seeds. Writes: one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from actorlearn.envs.interface import Row, VectorEnv


def decorrelate(env: VectorEnv, row: Row, most_steps: int, seeds: Sequence[int]) -> Iterator[None]:
    """Start every environment and let it take 0 to ``most_steps`` random actions.

    The number and the actions are drawn uniformly, from ``seeds``; all agents of a game take the same number. Yields
    after each step, so that the caller can give a sign of life. All environments are stepped together, so those that
    take fewer steps are restarted when their steps begin. At the end ``row`` has the newest row of each environment; a
    game that has just ended is restarted.
    """
    random = np.random.default_rng(seeds)
    agents = env.spec.agents
    steps = random.integers(most_steps, size=env.count // agents, endpoint=True).repeat(agents)
    env.reset(row)
    for left in reversed(range(steps.max())):
        env.step(env.random_actions(random), row)
        _restart(env, steps == left, row)
        yield
    over, out = row.terminated | row.truncated, row.terminated | row.truncated | row.first
    ended = out.reshape(-1, agents).all(axis=1) & over.reshape(-1, agents).any(axis=1)
    _restart(env, ended.repeat(agents), row)


def _restart(env: VectorEnv, chosen: npt.NDArray[np.bool_], row: Row) -> None:
    if chosen.any():
        env.restart(chosen, row)
