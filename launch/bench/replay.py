"""The suite ``replay``: how many transitions/s are drawn from a full replay of Atari's 84x84 frames, on one core.

A transition is two stacks of 4 frames. Rates depend on how much of the replay is in the processor's caches. Therefore
it has the usual size, a million transitions, or 100,000 if there is no room for more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.memory.shared import Segment, free_bytes, reserve
from actorlearn.replay.buffer import Replay
from actorlearn.replay.rows import PRIORITIES, ReplayShape, replay_bytes, replay_fields
from actorlearn.replay.samplers import Prioritised, Sampler, Uniform, importance
from launch.bench import SuiteRequest
from launch.bench.interleaved import interleave
from launch.bench.report import SuiteReport, rate

RINGS = 8
"""Environments whose rows are in the replay, each in its own ring."""
MINIBATCH = 32
ROLLOUT = 20
"""Rows of a block; a game ends in the middle of each block."""
STEPS = (1, 3)
"""Numbers of steps over which rewards are added for a transition (n-step returns)."""
_SPARE = 1.5
"""Free shared memory must be this factor times the needed amount, so that other programs have some left."""


def replay(request: SuiteRequest) -> SuiteReport:
    """Measure how many transitions/s are drawn from a full replay of Atari frames, and how many steps/s are stored."""
    size = 1_000_000
    if request.quick or free_bytes() < _SPARE * replay_bytes(shape_of(size)):
        size = 100_000
    shape = shape_of(size)
    needed = replay_bytes(shape)
    with closing(reserve(f"bench-{os.getpid()}", needed, Path.cwd())) as folder:
        measured, stored = cases(folder.path / "replay", shape, request.seconds)
        spread = interleave(measured, request.repetitions)
    return SuiteReport(
        suite="replay",
        headings=("drawn", "transitions/s"),
        rows=[(name, rate(rates)) for name, rates in spread.items()],
        bars=spread,
        unit="transitions/s",
        notes=(
            f"{size:,} transitions of 84x84x4 in {RINGS} rings, {needed / 1e9:.2f} GB; minibatches of "
            f"{MINIBATCH} with both observations; prioritised rates include importance weights and the "
            f"storing of new priorities; rate of adding rows: {stored:,.0f} rows/s",
        ),
        figures={"transitions": size, "bytes": needed, "rows_stored_per_s": stored},
    )


def shape_of(size: int) -> ReplayShape:
    """Return the sizes of a replay for ``size`` transitions of an Atari game."""
    return ReplayShape(
        rings=RINGS,
        size=size // RINGS,
        margin=ROLLOUT + 1,
        stack=4,
        observation_shape=(4, 84, 84),
        observation_dtype="uint8",
        actions=18,
        prioritised=True,
    )


def cases(path: Path, shape: ReplayShape, seconds: float) -> tuple[dict[str, Callable[[], float]], float]:
    """Make and fill a replay in the file ``path``; return name -> function that measures, and the steps/s of filling.

    Each function draws for ``seconds`` and returns transitions/s.
    """
    segment = Segment.create(path, replay_fields(shape))
    random, cells = np.random.default_rng(0), shape.rings * shape.rows
    uniform = Uniform(cells)
    tree, largest = (segment[name] for name in PRIORITIES)
    prioritised = Prioritised(cells, alpha=0.6, memory=(tree, largest))
    stored = _fill(Replay(segment, shape, OffPolicySettings(n_step=max(STEPS)), uniform), random)
    prioritised.insert(uniform.arrays()["cell"])
    samplers: dict[str, Sampler] = {"uniform": uniform, "prioritised": prioritised}
    readers = {
        f"{name}, {steps}-step": Replay(segment, shape, OffPolicySettings(n_step=steps), sampler)
        for name, sampler in samplers.items()
        for steps in STEPS
    }
    return {name: partial(_sampled, reader, seconds) for name, reader in readers.items()}, stored


def _fill(replay: Replay, random: np.random.Generator) -> float:
    """Fill a replay with random steps; return the steps/s."""
    shape = replay.shape
    batch = (ROLLOUT + 1, shape.rings)
    over = np.zeros(batch, np.bool_)
    over[ROLLOUT // 2] = True
    none = np.zeros(batch, np.bool_)
    block: dict[str, NDArray[Any]] = {
        "observation": random.integers(256, size=(*batch, *shape.observation_shape), dtype=np.uint8),
        "action": random.integers(18, size=batch),
        "reward": random.standard_normal(batch, np.float32),
        "terminated": over,
        "truncated": none,
        "life_lost": none,
        "first": np.roll(over, 1, axis=0),
    }
    block["observation"][0] = block["observation"][-1]  # the last row of a block is the first row of the next
    rollouts = shape.rows // ROLLOUT + 1
    began_s = time.perf_counter()
    for rollout in range(rollouts):
        replay.add("simulator", rollout, block)
        replay.flush()
    return rollouts * ROLLOUT * shape.rings / (time.perf_counter() - began_s)


def _sampled(replay: Replay, seconds: float) -> float:
    """Draw minibatches for ``seconds``; return the transitions/s."""
    random = np.random.default_rng(1)
    drawn, began_s = 0, time.perf_counter()
    while (took_s := time.perf_counter() - began_s) < seconds:
        sample = replay.sample(MINIBATCH, random)
        if isinstance(replay.sampler, Prioritised):
            importance(sample.probability, 0.4)
            replay.update(sample, np.abs(sample.reward[0]))
        drawn += MINIBATCH
    return drawn / took_s
