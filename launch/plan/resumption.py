"""What a run goes on from: checkpoints of its earlier lives, or nothing. Found once, before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Resumption:
    """What was found in the folder of a run that is resumed; of a new run only when it begins."""

    began_s: float
    """Where CLOCK_MONOTONIC stood at the run's time zero: before now by what a resumed run had already taken."""
    resumed: bool = False
    """Whether there is anything to go on from."""
    env_steps: int = 0
    """Of the checkpoint the run goes on from, the newest of several; 0 for a new run."""
    checkpoints: tuple[str, ...] = ()
    """Those whose weights learners go on with, each once, as paths in the run folder."""
    goes_on_from: Mapping[int, Path] = field(default_factory=dict)
    """The checkpoint of each learner whose simulators go on where they stood too; none where others begin."""
    begins_anew: str = ""
    """Why simulators of a resumed run begin anew; empty where they do not."""
    damaged: tuple[str, ...] = ()
    """What a person should see of newer checkpoints, where trainers do not look for themselves."""
    left_out: Mapping[int, str] = field(default_factory=dict)
    """Learners of the topology, and their trainers' names, without which the run begins: they were detached before."""
    learners_so_far: int = 0
    """Learners with these numbers have left checkpoints: a learner that is attached gets none of them."""
