"""n-step returns of sampled rows: the sum of rewards, the row that it reaches, and the discount of that row's value.

Reads columns of the following rows; does not depend on rings. A return ends with the game in which it began.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray


class NStep(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a return: discounted rewards of at most ``steps`` steps, and the value of the observation reached."""

    steps: int = 1
    discount: float = 0.99
    reward_clip: float | None = 1.0
    """Each reward is clipped to [-reward_clip, reward_clip] before it is summed; None: raw rewards."""
    life_loss_terminal: bool = False
    """Whether a lost life ends the return although the game continues."""
    bootstrap_on_truncation: bool = False
    """False: a time limit is a terminal, as in all five papers' code. True: the final observation's value counts."""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps {self.steps} must be 1 or more")
        if not 0.0 <= self.discount <= 1.0:
            raise ValueError(f"discount {self.discount} must be within [0, 1]")
        if self.reward_clip is not None and self.reward_clip <= 0.0:
            raise ValueError(f"reward_clip {self.reward_clip} must be above 0, or None for raw rewards")


class Returns(NamedTuple):
    """n-step returns of B rows; each [B]."""

    reward: NDArray[np.float32]
    discount: NDArray[np.float32]
    """Factor of the value of the observation reached: 0 at a terminal, else discount^steps."""
    steps: NDArray[np.int64]
    """Distance of that observation in steps, 1 … n."""


def n_step(settings: NStep, reward: NDArray[np.float32], over: dict[str, NDArray[np.bool_]]) -> Returns:
    """Return the returns of B rows, from ``reward`` [B, n] and flags ``over``, each [B, n], of the n following rows.

    ``over`` has terminated, truncated and life_lost. Rows after the end of a return may have any values.
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
