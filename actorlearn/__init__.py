"""actorlearn: independent processes that train deep-RL agents through shared-memory tensors and ZeroMQ control."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actorlearn.acting.loaded import LoadedPolicy

__version__ = "0.1.0"


def load_policy(run_dir: str | PathLike[str], *, learner: int = 0, seed: int = 0) -> LoadedPolicy:
    """Load the policy of a running or ended run, with the weights of its newest valid checkpoint, to act on the CPU.

    ``learner`` selects the learner in mode gossip, in which each learner has its own weights. ``seed`` seeds the
    sampling of actions. Raises ValueError if the folder is not a run's, and CheckpointError (a RuntimeError) if no
    checkpoint is valid. Your own classes must be importable, as when the run was started.
    """
    from actorlearn.acting.loaded import load  # here, because importing torch takes a second

    return load(run_dir, learner, seed)
