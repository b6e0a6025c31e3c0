"""The checkpoints from which a resumed run continues, found once before it begins."""

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
    """Whether the run continues from checkpoints."""
    env_steps: int = 0
    """Environment steps of the checkpoint that the run goes on from, the newest of several; 0 for a new run."""
    checkpoints: tuple[str, ...] = ()
    """Checkpoints whose weights learners go on with, each once, as paths in the run folder."""
    goes_on_from: Mapping[int, Path] = field(default_factory=dict)
    """Learner -> checkpoint from which its simulators continue exactly; empty where simulators begin anew."""
    begins_anew: str = ""
    """Reason why simulators of a resumed run begin anew; empty where they do not."""
    damaged: tuple[str, ...] = ()
    """Warnings about newer, damaged checkpoints, where trainers do not report these themselves."""
    left_out: Mapping[int, str] = field(default_factory=dict)
    """Learners of the topology that were detached in an earlier life and are left out -> their trainers' names."""
    learners_so_far: int = 0
    """Number of learners so far: those below it may have checkpoints, so an attached learner gets a higher number."""
