"""Point from which a run goes on: checkpoints of its earlier lives, or nothing. Found once, before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Resumption:
    """Findings in the folder of a run that is resumed; a new run has only the time at which it begins."""

    began_s: float
    """CLOCK_MONOTONIC at the run's time zero, in seconds: earlier than now by the time a resumed run has taken."""
    resumed: bool = False
    """Whether there is anything to go on from."""
    env_steps: int = 0
    """Environment steps of the checkpoint that the run goes on from, the newest of several; 0 for a new run."""
    checkpoints: tuple[str, ...] = ()
    """Checkpoints whose weights learners go on with, each once, as paths in the run folder."""
    goes_on_from: Mapping[int, Path] = field(default_factory=dict)
    """The checkpoint of each learner whose simulators go on where they stood too; none where others begin."""
    begins_anew: str = ""
    """Reason why simulators of a resumed run begin anew; empty where they do not."""
    damaged: tuple[str, ...] = ()
    """Warnings about newer checkpoints that are damaged, where trainers do not look for themselves."""
    left_out: Mapping[int, str] = field(default_factory=dict)
    """Learners of the topology, and their trainers' names, without which the run begins: they were detached before."""
    learners_so_far: int = 0
    """Learners with these numbers have left checkpoints: a learner that is attached gets none of them."""
