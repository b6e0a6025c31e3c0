"""Compares the game of a restored environment with the original game, to prove that its saved state is complete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np

from actorlearn.envs.interface import Row, VectorEnv, empty_row
from actorlearn.exceptions import in_one_line, place_of

STEPS = 8
"""Number of steps that both environments take after the state was saved."""


def difference_after_restore(env: VectorEnv, make_another: Callable[[], VectorEnv]) -> str:
    """Return how a restored environment plays another game than ``env``; empty if all rows are equal.

    ``env`` has been reset, and its ``spec.inexact`` is empty. ``make_another`` makes an environment with the same
    settings and other seeds, which is closed here. Exceptions of ``env.step`` are raised.
    """
    try:
        state = {name: array.copy() for name, array in env.state().items()}
    except Exception as error:  # a user's environment may raise anything
        return f"the environment's state cannot be saved: {in_one_line(error)}{place_of(error)}"
    other = make_another()
    try:
        try:
            other.restore(state)
        except Exception as error:
            return f"the environment's state cannot be restored: {in_one_line(error)}{place_of(error)}"
        row, other_row = empty_row(env.spec, env.count), empty_row(env.spec, env.count)
        random = np.random.default_rng(0)
        for step in range(1, STEPS + 1):
            actions = env.random_actions(random)
            env.step(actions.copy(), row)
            other.step(actions.copy(), other_row)
            if differing := _differing(row, other_row):
                return (
                    f"an environment that was restored from its state plays another game: {differing} differs after "
                    f"{step} steps; state() has to return all that determines the next rows"
                )
    finally:
        other.close()
    return ""


def _differing(row: Row, other: Row) -> str:
    """Return the name of the first column whose cells differ; empty if none does."""
    for column in fields(row):
        if not np.array_equal(getattr(row, column.name), getattr(other, column.name)):
            return column.name
    return ""
