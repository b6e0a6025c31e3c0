"""The checkpoint that a trainer continues from, after its own restart or in a resumed run.

Reads checkpoints; writes nothing. A run never starts over: CheckpointError describes the damage and what to do.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from actorlearn.parameters.checkpoint import Checkpoint, choose_and_open, open_found
from actorlearn.parameters.checkpoint_folders import Beat, CheckpointError, Found, choose_to_resume, find_at
from actorlearn.parameters.modes import mode_of
from actorlearn.worker.settings import TrainerSettings


def open_checkpoint(settings: TrainerSettings, beat: Beat, exactly: str = "") -> tuple[Checkpoint, list[str]]:
    """Open the checkpoint of a learner; also returns warnings for the user. Raises CheckpointError.

    ``exactly``: folder of the checkpoint from whose snapshots the simulators continue; empty if they do not.

    In modes with central weights, weights, optimizer state and counts are those of the newest checkpoint of all
    learners. Everything else, including Adam's count of steps, is the learner's own.
    """
    if exactly:
        try:
            return open_found(find_at(Path(exactly), beat)), []
        except (OSError, ValueError) as error:  # it was valid when the run was planned
            raise CheckpointError(f"{exactly}: {error}; resume the run again") from error
    root = Path(settings.run_dir) / "checkpoints"
    mode = mode_of(settings.exchange)
    return choose_and_open(
        lambda: choose_to_resume(root, settings.learner, mode, beat), lambda found: _together(settings, *found)
    )


def _together(settings: TrainerSettings, mine: Found, shared: Found) -> tuple[Checkpoint, list[str]]:
    own = open_found(mine)
    if shared.path != mine.path:
        newer = open_found(shared)
        vectors = settings.optimizer.state_vectors
        shared_names = ["consumed", *(f"optimizer.{name}" for name in vectors)]
        both = {name: t for name, t in newer.tensors.items() if name.startswith("weights.") or name in shared_names}
        counts = {name: newer.state[name] for name in ("env_steps", "updates")}
        own = replace(own, tensors={**own.tensors, **both}, state={**own.state, **counts})
    return own, list(dict.fromkeys(mine.warnings() + shared.warnings()))
