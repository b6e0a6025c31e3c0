"""actorlearn: independent processes that train deep-RL agents through shared-memory tensors and ZeroMQ control.

``train``, ``start``, ``open``, ``runs``, ``Run`` and the functions that convert other libraries' hyperparameters are in
``launch/python``, which is imported when one of these names is used first; processes of a run never use them.

``docs/concepts.md`` explains how the parts of actorlearn work together. Its glossary defines the terms that docstrings
use, such as rollout, member, exchange and order.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actorlearn.acting.loaded import LoadedPolicy
    from launch.python import Converted, Run, from_cleanrl, from_stable_baselines3, open, runs, start, train

__version__ = "0.1.0"
__all__ = [
    "Converted",
    "Run",
    "from_cleanrl",
    "from_stable_baselines3",
    "load_policy",
    "open",
    "runs",
    "start",
    "train",
]


def load_policy(
    run_dir: str | PathLike[str], *, learner: int | None = None, seed: int = 0, at: str | int = "newest"
) -> LoadedPolicy:
    """Load the policy of a run, which may still be running, from one of its checkpoints. The policy acts on the CPU.

    ``run_dir`` is the folder of the run, or the run's name or the beginning of its name, as for ``open``.
    ``at`` selects the checkpoint: "newest" (the newest valid one), "best" (by score), or the number of environment
    steps at which it was saved. ``learner`` selects the learner in mode gossip, in which each learner has its own
    weights; by default, the first that has this checkpoint and, for "newest", has not left the run. ``seed`` seeds the
    sampling of actions. Raises ValueError if ``run_dir`` does not name a run or the run has no such checkpoint, and
    CheckpointError (a RuntimeError) if the checkpoint is damaged. Classes of your own that the run uses must be
    importable, as they were when it was started.
    """
    from pathlib import Path

    from actorlearn.acting.loaded import load  # here, because importing torch takes a second

    folder = Path(run_dir)
    if folder.name == str(folder) and not folder.is_dir():  # a run's name, which launch/python finds
        run_dir = __getattr__("open")(folder).folder
    return load(run_dir, learner, seed, at)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from actorlearn.__main__ import import_launch

    import_launch()
    from launch import python

    return getattr(python, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
