"""n-step returns of transitions from a replay.

A return has the discounted sum of up to n rewards, and the distance and discount of the value from which it bootstraps.
It ends with the game in which it began.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from actorlearn.algorithms.settings import OffPolicySettings


class Returns(NamedTuple):
    """n-step returns of B transitions; each [B]."""

    reward: NDArray[np.float32]
    """Discounted sum of the rewards, each clipped before."""
    discount: NDArray[np.float32]
    """Factor of the value of the observation that the return reaches: discount^steps, or 0 at a terminal state."""
    steps: NDArray[np.int64]
    """Number of steps to this observation, 1 … n."""


def n_step(settings: OffPolicySettings, reward: NDArray[np.float32], over: dict[str, NDArray[np.bool_]]) -> Returns:
    """Return the n-step returns of B transitions.

    ``reward`` [B, n] and the flags in ``over``, [B, n] each, are those of n steps from the action on: terminated,
    truncated and life_lost. Values after the end of a return have no effect.
    """
    terminal = over["terminated"].copy()
    if settings.life_loss_terminal:
        terminal |= over["life_lost"]
    ends = terminal | over["truncated"]
    if not settings.bootstrap_on_truncation:
        terminal = ends
    if settings.reward_clip is not None:
        reward = reward.clip(-settings.reward_clip, settings.reward_clip)
    count, n = reward.shape
    total = np.zeros(count)
    steps = np.zeros(count, np.int64)
    nothing_left = np.zeros(count, np.bool_)
    going = np.ones(count, np.bool_)
    for j in range(n):
        total += np.where(going, settings.discount**j * reward[:, j], 0.0)  # a product with 0 would keep NaN
        steps += going
        nothing_left |= going & terminal[:, j]
        going &= ~ends[:, j]
    left: NDArray[Any] = np.where(nothing_left, 0.0, settings.discount**steps)
    return Returns(total.astype(np.float32), left.astype(np.float32), steps)
