"""The checkpoints of one learner: saves the state of its trainer, and restores it, exactly or not.

Reads and writes: the run's checkpoints folder (``parameters/checkpoint.py``). A checkpoint holds a trainer's state
(``processes/state.py``). If all simulators have answered (``processes/simulator_snapshots.py``), it also holds their
snapshots and the weights by which they act, and a resumed run continues as if it had not been interrupted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from actorlearn.failpoints import hit
from actorlearn.learning.resuming import open_checkpoint
from actorlearn.parameters import checkpoint
from actorlearn.parameters.checkpoint_folders import directory_of, find_common_steps
from actorlearn.parameters.modes import mode_of
from actorlearn.processes.counts import elapsed_s
from actorlearn.processes.simulator_snapshots import SimulatorSnapshots
from actorlearn.processes.state import NotKeptError, TrainerState
from actorlearn.wire.control import Control
from actorlearn.wire.messages import Saved
from actorlearn.worker.settings import TrainerSettings


class Checkpoints:
    """Saves and restores the state of a trainer."""

    def __init__(
        self, settings: TrainerSettings, control: Control, state: TrainerState, snapshots: SimulatorSnapshots
    ) -> None:
        """Save this state, and report each checkpoint to the supervisor."""
        self._settings, self._control, self._state, self._snapshots = settings, control, state, snapshots
        self._mode = mode_of(settings.exchange)
        self._saved_at = -1
        """Environment steps of the newest checkpoint; -1 if the present weights are not saved."""
        self._failed = False
        self._orders = 0
        """Number of ordered saves that have been made."""
        self._goes_on_from = ""
        """Folder of the checkpoint from whose snapshots the simulators continue; empty if they do not."""

    # Saving ----------------------------------------------------------------------------------------------------

    def take_snapshots(self) -> None:
        """Have the simulators take snapshots for the next checkpoint."""
        self._snapshots.take()

    def save_as_ordered(self, saves: int) -> None:
        """Save if an order counts more saves than have been made."""
        if saves > self._orders:
            self._orders = saves
            self.save_now()

    def note_weights_changed(self) -> None:
        """Mark the newest checkpoint as outdated, although no steps have been counted since."""
        self._saved_at = -1

    def save_last(self) -> None:
        """Save at the trainer's end, unless the present state is saved already."""
        if self._saved_at != self._state.counts.env_steps or self._failed:
            self.save_now()

    def save_now(self) -> None:
        """Save the present state, with snapshots of the simulators."""
        self.take_snapshots()
        self.save()

    def save(self) -> None:
        """Save the present state; after a failed save, warn and keep the last checkpoint."""
        if self._goes_on_from and not self._state.members.rollouts.open:  # nothing has changed since that checkpoint
            self._say_saved(Path(self._goes_on_from))
            return
        self._saved_at = env_steps = self._state.counts.env_steps
        acting, published_at = self._acting()
        try:
            path = checkpoint.save(
                self._settings.checkpoints,
                env_steps,
                {**self._state.tensors(), **acting},
                {
                    **self._state.plain(),
                    "published": published_at,
                    "elapsed_s": elapsed_s(self._settings),
                    "depends_on": self._settings.depends_on,
                },
                self._settings.checkpoint_keep,
                self._more,
                self._state.learning.beat,
                self._spared,
            )
        except OSError as error:  # a failed save must not end the training
            self._control.warned(f"checkpoint at {env_steps} steps not written: {error}; the run goes on")
            self._failed = True
            return
        finally:
            self._snapshots.close()
        self._failed = False
        hit("trainer.saved")
        if complaint := self._snapshots.complaint():
            self._control.warned(complaint)
        self._say_saved(path)

    def _say_saved(self, path: Path) -> None:
        self._control.send(Saved(path=str(path), env_steps=self._state.counts.env_steps, order=self._orders))

    def _acting(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Return the weights by which simulators act, and the steps of their publication; empty without snapshots."""
        if not self._snapshots.inexact:
            try:
                return self._state.acting()
            except NotKeptError as error:
                self._snapshots.give_up(str(error))
        return {}, {}

    def _more(self, folder: Path) -> dict[str, Any]:
        """Write large state to files, and move the simulators' snapshots to the folder; returns plain numbers."""
        return {**self._state.learning.save(folder), **self._snapshots.put(folder)}

    def _spared(self) -> set[int]:
        """Return the steps of the newest checkpoint that all learners in lock-step have, which must not be removed."""
        if not self._mode.in_step:
            return set()
        root = Path(self._settings.run_dir) / "checkpoints"
        return {max(find_common_steps([directory_of(root, k) for k in range(self._settings.learners)]), default=-1)}

    # Taking up -------------------------------------------------------------------------------------------------

    def take_up(self) -> bool:
        """Restore the checkpoint that this trainer continues from; True if it published the weights that act."""
        exactly = self._settings.goes_on_from if not self._state.counts.account.commits else ""
        saved, warnings = open_checkpoint(self._settings, self._state.learning.beat, exactly)
        for warning in warnings:
            self._control.warned(warning)
        self._state.restore(saved, bool(exactly), self._mode.outlived)
        self._saved_at, self._goes_on_from = self._state.counts.env_steps, exactly
        return bool(exactly)
