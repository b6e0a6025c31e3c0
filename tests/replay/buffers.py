"""Replays in shared memory, empty."""

from __future__ import annotations

import itertools
from pathlib import Path

from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.memory.shared import Segment
from actorlearn.replay.buffer import Replay
from actorlearn.replay.rows import ReplayShape, replay_fields
from actorlearn.replay.samplers import Prioritised, Uniform

FOLDERS = itertools.count()


def make(folder: Path, shape: ReplayShape, returns: OffPolicySettings, prioritised: bool = False) -> Replay:
    cells = shape.rings * shape.rows
    sampler = Prioritised(cells, alpha=1.0) if prioritised else Uniform(cells)
    return Replay(Segment.create(folder / f"replay-{next(FOLDERS)}", replay_fields(shape)), shape, returns, sampler)
