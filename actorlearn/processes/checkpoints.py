"""Saves and restores the state of a learner: its trainer and, for an exact checkpoint, its simulators.

A checkpoint always contains the trainer's state. It is exact if it also contains snapshots of all simulators
(``processes/simulator_snapshots.py``) and the published weights with which they act. A run that is resumed from an
exact checkpoint continues as if it had not been interrupted; otherwise simulators begin new games. If no checkpoint can
be restored, CheckpointError describes the damage and a remedy; the run never starts from the beginning instead.

``parameters/checkpoint.py`` writes and reads the files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from actorlearn.envs.specs import environment_changed
from actorlearn.failpoints import hit
from actorlearn.learning.reward_scale import RewardScale
from actorlearn.learning.secondary import SECONDARY
from actorlearn.learning.update import Learning
from actorlearn.parameters import checkpoint
from actorlearn.parameters.checkpoint import Checkpoint, choose_and_open, open_found
from actorlearn.parameters.checkpoint_folders import (
    Beat,
    CheckpointError,
    Found,
    choose_to_resume,
    complete_steps,
    directory_of,
    find_at,
    find_common_steps,
    folders,
    steps_of,
)
from actorlearn.parameters.chosen_checkpoints import newest_before, soonest
from actorlearn.parameters.consumed import Consumed
from actorlearn.parameters.modes import mode_of
from actorlearn.parameters.published import Published
from actorlearn.processes.counts import TrainerCounts, elapsed_s
from actorlearn.processes.members import RolloutMembers
from actorlearn.processes.simulator_snapshots import SimulatorSnapshots, rekey_to_first, simulators_of
from actorlearn.wire.control import Control
from actorlearn.wire.messages import Saved
from actorlearn.worker.settings import TrainerSettings

SAVING_SHARE = 20
"""After a save of s seconds, the next checkpoint is due by time after SAVING_SHARE * s seconds at the earliest."""


class NotKeptError(Exception):
    """The published weights with which simulators act cannot be saved; the text is the reason."""


@dataclass(frozen=True)
class TrainerState:
    """The parts of a trainer that are saved in a checkpoint."""

    learning: Learning
    counts: TrainerCounts
    members: RolloutMembers
    published: Published
    rewards: RewardScale | None
    """The reward scale; None if rewards are not scaled."""

    def plain(self) -> dict[str, Any]:
        """Return the plain values of the state (counts, scores, numbers of rollouts and versions)."""
        return {
            **self.counts.state(),
            "in_flight": self.members.in_flight(),
            "policy_version": self.published.version,
            "rewards": self.rewards.state() if self.rewards is not None else None,
            "skipped": self.learning.skipped,
            "rollouts": self.members.rollouts.state(self.members.next),
            "weights": self.learning.sha256(),
            "learners": self.learning.peers.learners,
            "shared_changes": self.learning.exchange.shared_changes(),
        }

    def acting(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Return the published weights that simulators act with, and the environment steps at publication, by version.

        The newest version is left out if it equals the learner's weights. It differs if the trainer was told to end
        between two optimizer steps; without a replay this raises NotKeptError. So does a version that is no longer in
        memory.
        """
        rollouts, newest = self.members.rollouts, self.published.version
        versions = {newest, *(rollouts.version(rollout) for rollout in range(self.members.next, rollouts.open))}
        kept = self.published.kept(versions)
        if gone := versions - kept.keys():
            raise NotKeptError(
                "simulators act with weights that are no longer in memory (versions "
                f"{', '.join(map(str, sorted(gone)))})"
            )
        weights = self.learning.weights.detach().cpu().numpy()
        if newest in kept and np.array_equal(kept[newest][0], weights, equal_nan=True):
            del kept[newest]
        elif self.learning.minibatches.replay is None:
            raise NotKeptError("the trainer was told to end between two minibatches of a rollout")
        tensors = {f"published.{version}": torch.from_numpy(copy) for version, (copy, _) in kept.items()}
        return tensors, {str(version): steps for version, (_, steps) in kept.items()}

    def restore(self, saved: Checkpoint, exactly: bool, outlived: bool) -> None:
        """Restore a trainer's state from a checkpoint.

        If ``exactly``, the simulators continue from its snapshots. ``outlived``: in this mode the learner's weights
        survive the death of its trainer (``parameters/modes.py``).
        """
        self.learning.restore(saved, exactly)
        self.counts.restore(saved.state, exactly, outlived)
        if self.rewards is not None and saved.state.get("rewards"):
            rewards = saved.state["rewards"]
            returns = rekey_to_first(rewards["returns"], simulators_of(saved.state)) if exactly else rewards["returns"]
            self.rewards.restore({**rewards, "returns": returns})
        if exactly:
            self._restore_acting(saved)
        else:
            self.published.go_on_after(saved.state["policy_version"])

    def _restore_acting(self, saved: Checkpoint) -> None:
        """Publish the weights that simulators act with, under their old version numbers; restore rollouts and games."""
        state, weights = saved.state, saved.section("published")
        for version in sorted(map(int, weights)):
            self.published.go_on_after(version - 1)
            self.published.publish(weights[str(version)].numpy(), state["published"][str(version)])
        if str(state["policy_version"]) not in weights:
            self.published.go_on_after(state["policy_version"] - 1)
            self.learning.publish(self.published, self.counts.env_steps)
        self.members.rollouts.restore(state["rollouts"])
        self.counts.episodes.restore(rekey_to_first(state["games"], simulators_of(state)))
        self.learning.skipped = state["skipped"]


class Checkpoints:
    """Decides when a trainer saves checkpoints, saves them, and restores the trainer from one."""

    def __init__(
        self, settings: TrainerSettings, control: Control, state: TrainerState, snapshots: SimulatorSnapshots
    ) -> None:
        """Save ``state`` with the snapshots of ``snapshots``, and report each checkpoint to the supervisor."""
        self._settings, self._control, self._state, self._snapshots = settings, control, state, snapshots
        self._mode = mode_of(settings.exchange)
        self._saved_at = -1
        """Environment steps of the newest checkpoint; -1 if the present weights are not in it."""
        self._saved_updates = -1
        """Updates of the newest checkpoint. An update that only sets statistics of observations adds no steps."""
        self._saved_changes = 0
        """Changes of shared weights in the newest checkpoint; 0 before this process has saved one. Merging local steps
        into these weights adds no steps."""
        self._failed = False
        self._saved_s, self._took_s = time.monotonic(), 0.0
        """Time at which the newest checkpoint was saved, and the duration of the save, in seconds."""
        self._orders = 0
        """Number of saves that the supervisor has requested and that have been made."""
        self._best_steps: int | None = None
        """Environment steps of the weights with the best score, as the supervisor has last reported them."""
        self._goes_on_from = ""
        """Folder of the exact checkpoint from which this run was resumed; empty if simulators began new games."""

    # Saving ----------------------------------------------------------------------------------------------------

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint, or the weights with the best score are not saved yet.

        In mode sync a requested checkpoint is due too, because all learners save it together, at their next update.
        """
        if self._mode.in_step and self._control.order.save > self._orders:
            return True
        if self._best_steps is not None and self._saved_at < self._best_steps <= self._state.counts.env_steps:
            return True
        every_s = self._settings.checkpoint_every_s
        waited_s = time.monotonic() - self._saved_s
        return every_s is not None and waited_s >= max(every_s, SAVING_SHARE * self._took_s)

    def take_snapshots(self) -> None:
        """Have the simulators take snapshots for the next checkpoint."""
        self._snapshots.take()

    def save_as_ordered(self, saves: int) -> None:
        """Save if the supervisor has requested more checkpoints (``saves``) than were saved on request.

        Learners in mode sync do not save now, because they may be at different updates (`due`).
        """
        if saves > self._orders and not self._mode.in_step:
            self.take_snapshots()
            self.save(saves)

    def keep_best(self, best_steps: int | None) -> None:
        """Never remove the first checkpoint at or after ``best_steps``, the steps of the best score."""
        self._best_steps = best_steps

    def note_weights_changed(self) -> None:
        """Record that weights have changed since the newest checkpoint although no environment steps were counted."""
        self._saved_at = -1

    def save_last(self) -> None:
        """Save when the trainer ends, unless the present state is saved already."""
        counts, changes = self._state.counts, self._state.learning.exchange.shared_changes()
        present = (counts.env_steps, counts.updates, changes)
        if (self._saved_at, self._saved_updates, self._saved_changes) != present or self._failed:
            self.save_now()

    def save_now(self) -> None:
        """Save the present state, with snapshots of the simulators."""
        self.take_snapshots()
        self.save(self._control.order.save)

    def save(self, saves: int = 0) -> None:
        """Save the present state. If that fails, warn the user, and keep the last checkpoint.

        ``saves``: number of checkpoints that the supervisor has requested so far; this checkpoint answers all of them.
        """
        self._orders = max(self._orders, saves)
        if self._goes_on_from and not self._state.members.rollouts.open:  # nothing has changed since this checkpoint
            self._say_saved(Path(self._goes_on_from))
            return
        self._saved_at = env_steps = self._state.counts.env_steps
        self._saved_updates = self._state.counts.updates
        self._saved_changes = self._state.learning.exchange.shared_changes()
        began_s = time.monotonic()
        acting, published_at = self._acting()
        try:
            path = checkpoint.save(
                self._settings.checkpoints,
                env_steps,
                {**self._state.learning.tensors(), **acting},
                {
                    **self._state.plain(),
                    "published": published_at,
                    "elapsed_s": elapsed_s(self._settings),
                    "depends_on": self._settings.depends_on,
                    "run_id": self._settings.run_id,
                },
                self._settings.checkpoint_keep,
                self._more,
                self._state.learning.beat,
                self._spared,
            )
        except OSError as error:  # a failed save must not end the training
            self._control.warned(
                f"the checkpoint at {env_steps} steps could not be written: {error}; the run continues"
            )
            self._failed = True
            return
        finally:
            self._snapshots.close()
            self._saved_s = time.monotonic()
            self._took_s = self._saved_s - began_s
        self._failed = False
        hit("checkpoints.saved")
        if complaint := self._snapshots.complaint():
            self._control.warned(complaint)
        self._say_saved(path)

    def _say_saved(self, path: Path) -> None:
        self._control.send(Saved(path=str(path), env_steps=self._state.counts.env_steps, order=self._orders))

    def _acting(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Return the weights that simulators act with (`TrainerState.acting`); none if the checkpoint is not exact."""
        if not self._snapshots.inexact:
            try:
                return self._state.acting()
            except NotKeptError as error:
                self._snapshots.give_up(str(error))
        return {}, {}

    def _more(self, folder: Path) -> dict[str, Any]:
        """Write large state to files in the folder, move the simulators' snapshots to it, and return plain values."""
        return {**self._state.learning.save(folder), **self._snapshots.put(folder)}

    def _spared(self) -> set[int]:
        """Return the steps of old checkpoints that must not be removed.

        This is the best checkpoint. In mode sync there are two more: the newest complete one (`complete_steps`), from
        which the learners would be resumed, and the best one that all learners have. With central weights, there is the
        one from which this learner would be resumed if the first learner were resumed from its best one.
        """
        there = [steps_of(folder) for folder in folders(self._settings.checkpoints)]
        best, root = soonest(there, self._best_steps), Path(self._settings.run_dir) / "checkpoints"
        if self._mode.central:
            return best | newest_before(there, root, self._best_steps)
        if not self._mode.in_step:
            return best
        own = [directory_of(root, k) for k in range(self._settings.learners)]
        return {next(complete_steps(own), -1), *best, *soonest(find_common_steps(own), self._best_steps)}

    # Restoring -------------------------------------------------------------------------------------------------

    def restore(self) -> bool:
        """Restore the checkpoint from which to continue; returns whether weights were published.

        They are published if the simulators continue from the snapshots of the checkpoint.
        """
        begins = not self._state.counts.account.commits  # else only the trainer was restarted
        exactly = self._settings.goes_on_from if begins else ""
        saved, warnings = open_checkpoint(self._settings, self._state.learning.beat, exactly)
        for warning in warnings:
            self._control.warned(warning)
        self._state.restore(saved, bool(exactly), self._mode.outlived)
        of_this_life = not begins and saved.state.get("run_id") == self._settings.run_id  # a resume makes a new id
        if not of_this_life and not self._settings.goes_on_from:
            self._state.learning.consumed.forget_parts()
        if environment_changed(saved.state.get("depends_on", {}), self._settings.depends_on):
            self._state.counts.episodes.begin_anew()
        self._saved_at, self._goes_on_from = self._state.counts.env_steps, exactly
        self._saved_updates = self._state.counts.updates
        return bool(exactly)


def open_checkpoint(settings: TrainerSettings, beat: Beat, exactly: str = "") -> tuple[Checkpoint, list[str]]:
    """Open the checkpoint from which a learner continues. Returns it, and warnings for the user.

    ``exactly`` is the folder of an exact checkpoint from which the run is resumed; empty: the newest valid one of the
    run is chosen. In mode async, weights, optimizer state and the counts of all learners then come from the newest
    checkpoint of any learner, and the rest, such as Adam's step count, from the learner's own. Raises CheckpointError
    if no checkpoint is valid.
    """
    if exactly:
        try:
            return open_found(find_at(Path(exactly), beat)), []
        except (OSError, ValueError) as error:  # it was valid when the run was planned
            raise CheckpointError(f"{exactly} is no longer valid: {error}; resume the run again") from error
    root = Path(settings.run_dir) / "checkpoints"
    mode = mode_of(settings.exchange)
    return choose_and_open(
        lambda: choose_to_resume(root, settings.learner, mode, beat), lambda found: _merged(settings, *found)
    )


def _merged(settings: TrainerSettings, mine: Found, shared: Found) -> tuple[Checkpoint, list[str]]:
    """Return a learner's checkpoint ``mine`` with the common weights and counts of ``shared``, and warnings."""
    own = open_found(mine)
    if mine.path.parent != settings.checkpoints:
        own = _without_experience(own)
    if shared.path != mine.path:
        newer = open_found(shared)
        vectors = settings.optimizer.state_vectors
        shared_names = ["consumed", *(f"optimizer.{name}" for name in vectors)]
        central = {name: t for name, t in newer.tensors.items() if name.startswith("weights.") or name in shared_names}
        counts = {name: newer.state[name] for name in ("env_steps", "updates")}
        learned_since = _learned_since(own.state, newer.tensors, settings.learner)
        own = replace(own, tensors={**own.tensors, **central}, state={**own.state, **counts, **learned_since})
    return own, list(dict.fromkeys(mine.warnings() + shared.warnings()))


def _without_experience(saved: Checkpoint) -> Checkpoint:
    """Return another learner's checkpoint for a new learner, without that learner's own step counts and replay.

    The new learner's replay is empty, so no minibatches are due.
    """
    counts = {"account": {}, "rollouts_learned": 0, "in_flight": 0, "episodes_finished": 0}
    games: dict[str, Any] = {"recent_returns": [], "recent_lengths": []}
    counters = {
        name: torch.tensor([-1, 0, *tensor[2:].tolist()])
        for name, tensor in saved.tensors.items()
        if name.removeprefix(f"{SECONDARY}.") == "replay.counters"
    }
    state = {name: value for name, value in saved.state.items() if name != "replay"}
    return replace(saved, tensors={**saved.tensors, **counters}, state={**state, **counts, **games})


def _learned_since(state: Mapping[str, Any], tensors: Mapping[str, Tensor], learner: int) -> dict[str, Any]:
    """Return a learner's saved counts ``state``, updated by the rollouts that it has learned from since its checkpoint.

    ``tensors`` are those of another learner's newer checkpoint. Its weights, which all learners share, contain these
    rollouts, and its table ``consumed`` counts them. Steps in flight at the learner's own checkpoint count as the first
    that were learned from since; steps dropped since are not known.
    """
    if "consumed" not in tensors:  # the mode of a plug-in need not save this table
        return {}
    consumed = Consumed(learner + 1)
    consumed.restore(tensors["consumed"].numpy())
    position, account = consumed.position(learner), state["account"]
    if position is None or position.rollout <= state["rollouts_learned"]:
        return {}
    used = max(account["used"], position.used - account["dropped"]["not_finite"])
    return {
        "account": {**account, "used": used},
        "rollouts_learned": position.rollout,
        "in_flight": max(0, state["in_flight"] - (used - account["used"])),
    }
