"""actorlearn: independent processes that train deep-RL agents through shared-memory tensors and ZeroMQ control."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actorlearn.acting.loaded import LoadedPolicy

__version__ = "0.1.0"


def load_policy(run_dir: str | PathLike[str], *, learner: int = 0, seed: int = 0) -> LoadedPolicy:
    """Load the policy of a run, alive or ended, with the weights of its newest whole checkpoint, to act on the CPU.

    ``learner`` says whose, in mode gossip, where each has weights of its own. ``seed`` is of the actions that are
    sampled. Raises ValueError for a folder that is no run's, CheckpointError (a RuntimeError) where no checkpoint is
    valid. Classes of your own must be importable, as when the run was started.
    """
    from actorlearn.acting.loaded import load  # torch costs a second: it is loaded for this alone

    return load(run_dir, learner, seed)
