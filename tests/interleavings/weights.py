"""Published weights: a writer that may be killed and come back; readers of the newest and of a rollout's version."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from actorlearn.parameters.published import Published, weights_fields
from tests.interleavings.arrays import Words
from tests.interleavings.code import Done, Process, expect
from tests.interleavings.explore import Scenario

SIZE = 2
"""Words of weights: enough to be torn."""


def weights_of(version: int, life: int) -> list[float]:
    """The content of a version: its number and the writer's life, in every word."""
    return [float(10 * version + life)] * SIZE


def publishing(
    kind: type[Published] = Published, *, versions: int = 4, reads: int = 2, kills: int = 1, patient: bool = False
) -> Scenario:
    """A writer of versions, which may be killed anywhere and comes back, and a reader of the newest version.

    ``patient``: a reader that is overtaken again and again may give up, because stores may take for ever to arrive.
    Invariants: weights are read whole and with their own version; versions never go back.
    """
    words = Words()
    published = kind(words.create("weights", weights_fields(SIZE)))

    def write(state: tuple[int, int]) -> Hashable:
        life, left = state
        if not left:
            return Done()
        version = published.version + 1
        published.publish(np.array(weights_of(version, life), np.float32), 10 * version)
        return life, left - 1

    def read(state: tuple[int, int]) -> Hashable:
        left, known = state
        if not left:
            return Done(known)
        try:
            return left - 1, max(known, _read(published, known))
        except RuntimeError:
            if patient:
                return Done(known)
            raise

    writers = {"weights": "writer"}
    writer = Process("writer", (1, versions), write, mortal=True, again=(2, 2))
    return Scenario("published weights", words, [writer, Process("reader", (reads, -1), read)], kills, writers)


def of_rollouts(kind: type[Published] = Published, *, versions: int = 4, kills: int = 1) -> Scenario:
    """The same writer, and a reader of the version that was the newest, while newer ones are written."""
    words = Words()
    published = kind(words.create("weights", weights_fields(SIZE)))

    def write(state: tuple[int, int]) -> Hashable:
        life, left = state
        if not left:
            return Done()
        published.publish(np.array(weights_of(published.version + 1, life), np.float32), 10 * (published.version + 1))
        return life, left - 1

    def read(state: int) -> Hashable:
        wanted = state if state >= 0 else published.version
        return wanted if state < 0 else Done(_read(published, -1, wanted))

    writer = Process("writer", (1, versions), write, mortal=True, again=(2, 2))
    processes = [writer, Process("reader", -1, read)]
    return Scenario("weights of a rollout", words, processes, kills, {"weights": "writer"})


def _read(published: Any, known: int, wanted: int | None = None) -> int:
    out = np.full(SIZE, -1, np.float32)
    found = published.fetch(out, known, wanted)
    if found is None:
        return -1
    version, env_steps = found
    expect(version > known, f"version {version} is read after {known}")
    whole = out.tolist() in (weights_of(version, 1), weights_of(version, 2))
    expect(whole and env_steps == 10 * version, f"version {version} is read as {out.tolist()} at {env_steps} steps")
    return int(version)
