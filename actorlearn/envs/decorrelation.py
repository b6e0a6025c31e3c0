"""Start-state decorrelation: environments that began together are spread over their games before anything is learned.

Without it all environments reach the same part of the game at the same time, and the first batches are one situation
many times over (Stooke & Abbeel 2018, section 5.3). Their code draws from the wall clock, this one from the seeds.
Reads: seeds. Writes: one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from actorlearn.envs.interface import Row, VectorEnv


def decorrelate(env: VectorEnv, row: Row, most_steps: int, seeds: Sequence[int]) -> Iterator[None]:
    """Start every environment and let it take 0 to ``most_steps`` random actions, both uniformly drawn from the seeds.

    Yields after each step, so that a caller can breathe. All are stepped together, so those that are to take fewer are
    restarted on the way. At the end ``row`` is where each is now; a game that has ended there begins anew. The
    agents of one game take as many steps.
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
