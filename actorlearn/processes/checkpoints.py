"""The checkpoints of one learner: when one is due, what is saved in it, and what is taken up from one, exactly or not.

Reads and writes: the run's checkpoints folder (``parameters/checkpoint.py``). A checkpoint holds what learning changes,
what has been counted, and, where all simulators have answered (``processes/gathering.py``), where they stand and the
weights by which they act: then a resumed run goes on as if it had not been interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from actorlearn.failpoints import hit
from actorlearn.learning.peers import Peers
from actorlearn.learning.resuming import resumed
from actorlearn.learning.update import Learning
from actorlearn.memory.account import Account, Counts
from actorlearn.parameters import checkpoint
from actorlearn.parameters.checkpoint_folders import directory_of, in_all
from actorlearn.processes.batches import Batches
from actorlearn.processes.gathering import Gathering, of_the_first, simulators_of
from actorlearn.processes.membership import Membership
from actorlearn.processes.publishing import Publisher, Totals
from actorlearn.processes.reports import elapsed_s
from actorlearn.wire.control import Control
from actorlearn.wire.messages import Saved
from actorlearn.worker.settings import TrainerSettings


class Checkpoints:
    """Saves what a trainer is, and takes it up again."""

    def __init__(
        self,
        settings: TrainerSettings,
        control: Control,
        totals: Totals,
        learning: Learning,
        peers: Peers,
        batches: Batches,
        membership: Membership,
        publisher: Publisher,
    ) -> None:
        """Save, and tell the supervisor; nothing is taken up before ``restore``."""
        self._settings, self._control = settings, control
        self._totals, self._learning, self._peers = totals, learning, peers
        self._batches, self._membership, self._publisher = batches, membership, publisher
        self._gathering = Gathering(settings.states, batches)
        self._saved_at = -1
        """Environment steps of the newest checkpoint; -1: there is none of the weights as they are."""
        self._failed = False
        self._orders = 0
        """Number of saves that have been ordered and made."""
        self._goes_on_from = ""
        """The checkpoint from which the run goes on exactly, with its simulators."""

    @property
    def _account(self) -> Account:
        return self._batches.account

    # Saving ----------------------------------------------------------------------------------------------------

    def due_by(self, env_steps: int) -> bool:
        """Whether one is due when all learners have learned from so many steps.

        At whole multiples, so that learners in step save at the same steps, whatever each has saved before.
        """
        every = self._settings.checkpoint_every_steps
        return env_steps // every > self._totals.env_steps // every

    def gather(self) -> None:
        """Have the simulators say where they stand, for the checkpoint that is to be saved."""
        self._gathering.gather(self._membership.wake_all, self._membership.wait_following)

    def ordered(self, saves: int) -> None:
        """Save where an order counts more saves than have been made."""
        if saves > self._orders:
            self._orders = saves
            self.gather()
            self.save()

    def weights_changed(self) -> None:
        """Know that the weights are no more those of the newest checkpoint, though no steps have been counted since."""
        self._saved_at = -1

    def save_last(self) -> None:
        """Save at the trainer's end, unless that has been done."""
        if self._saved_at != self._totals.env_steps or self._failed:
            self.gather()
            self.save()

    def save(self) -> None:
        """Save what there is now; where that fails a warning says so, and the checkpoint before stays."""
        if self._goes_on_from and not self._batches.rollouts.open:  # nobody has taken up what is saved there yet
            self._say_saved(Path(self._goes_on_from))
            return
        self._saved_at = env_steps = self._totals.env_steps
        acted_by, steps = self._acted_by()
        try:
            path = checkpoint.save(
                self._settings.checkpoints,
                env_steps,
                {**self._learning.tensors(), **acted_by},
                {**self._state(), "published": steps},
                self._settings.checkpoint_keep,
                self._more,
                self._learning.beat,
                self._spared,
            )
        except OSError as error:  # training is worth more than this save
            self._control.warned(f"checkpoint at {env_steps} steps not written: {error}; the run goes on")
            self._failed = True
            return
        finally:
            self._gathering.close()
        self._failed = False
        hit("trainer.saved")
        if complaint := self._gathering.complaint():
            self._control.warned(complaint)
        self._say_saved(path)

    def _say_saved(self, path: Path) -> None:
        self._control.send(Saved(path=str(path), env_steps=self._totals.env_steps, order=self._orders))

    def _state(self) -> dict[str, Any]:
        episodes, rewards = self._batches.episodes, self._batches.rewards
        return {
            "env_steps": self._totals.env_steps,
            "updates": self._totals.updates,
            "account": msgspec.to_builtins(self._account.counts),
            "in_flight": self._batches.in_flight(),
            "learned": self._batches.next,  # a rollout; older checkpoints have it by this name
            "elapsed_s": elapsed_s(self._settings),
            "episodes_finished": episodes.finished,
            "recent_returns": list(episodes.recent),
            "recent_lengths": list(episodes.recent_lengths),
            "policy_version": self._publisher.version,
            "rewards": rewards.state() if rewards is not None else None,
            "games": episodes.state(),
            "skipped": self._learning.skipped,
            "rollouts": self._batches.rollouts.state(self._batches.next),
            "depends_on": self._settings.depends_on,
            "weights": self._learning.sha256(),
        }

    def _acted_by(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Weights by which open rollouts are played, and the steps they were published at, by version.

        Without the newest where it is what was learned last, as it is but for a pass that was broken off.
        """
        if self._gathering.inexact:
            return {}, {}
        rollouts, newest = self._batches.rollouts, self._publisher.version
        versions = {newest, *(rollouts.version(rollout) for rollout in range(self._batches.next, rollouts.open))}
        kept = self._publisher.published.kept(versions)
        if gone := versions - kept.keys():
            self._gathering.inexact = f"versions {gone} of the weights are not kept any more"
        weights = self._learning.weights.detach().cpu().numpy()
        if newest in kept and np.array_equal(kept[newest][0], weights, equal_nan=True):
            del kept[newest]
        elif self._settings.replay is None:
            self._gathering.inexact = "it was told to end among the minibatches of a batch"
        tensors = {f"published.{version}": torch.from_numpy(copy) for version, (copy, _) in kept.items()}
        return tensors, {str(version): steps for version, (_, steps) in kept.items()}

    def _more(self, folder: Path) -> dict[str, Any]:
        """Write what is too long for tensors, and move what simulators have written there."""
        return {**self._learning.save(folder), **self._gathering.put(folder)}

    def _spared(self) -> set[int]:
        """Steps of a checkpoint that is kept however old it is: the newest that all learners in step have."""
        if not self._peers.in_step:
            return set()
        root = Path(self._settings.run_dir) / "checkpoints"
        return {max(in_all([directory_of(root, k) for k in range(self._settings.learners)]), default=-1)}

    # Taking up -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Take up a checkpoint if asked to, and publish its weights; else publish the first weights and save them."""
        if self._settings.resume:
            self._restore()
        if not self._goes_on_from:
            self._publisher.publish()
        if not self._settings.resume:
            self.gather()
            self.save()

    def _restore(self) -> None:
        exactly = self._goes_on_from = self._settings.goes_on_from if not self._account.commits else ""
        saved, warnings = resumed(self._settings, self._learning.beat, exactly)
        for warning in warnings:
            self._control.warned(warning)
        self._learning.restore(saved, bool(exactly))
        state, episodes, rewards = saved.state, self._batches.episodes, self._batches.rewards
        self._totals.env_steps, self._totals.updates = state["env_steps"], state["updates"]
        self._restore_account(state)
        self._saved_at = self._totals.env_steps
        episodes.finished = state["episodes_finished"]
        episodes.recent.extend(state["recent_returns"])
        episodes.recent_lengths.extend(state["recent_lengths"])
        if rewards is not None and state.get("rewards"):
            returns = state["rewards"]["returns"]
            owned = of_the_first(returns, simulators_of(state)) if exactly else returns
            rewards.restore({**state["rewards"], "returns": owned})
        if exactly:
            self._restore_acting(saved)
        else:
            self._publisher.published.go_on_after(state["policy_version"])

    def _restore_acting(self, saved: checkpoint.Checkpoint) -> None:
        """Publish what simulators act by and go on with what belongs to them, as if nothing had happened meanwhile."""
        state, weights, published = saved.state, saved.section("published"), self._publisher.published
        for version in sorted(map(int, weights)):
            published.go_on_after(version - 1)
            published.publish(weights[str(version)].numpy(), state["published"][str(version)])
        if str(state["policy_version"]) not in weights:
            published.go_on_after(state["policy_version"] - 1)
            self._publisher.publish()
        self._batches.rollouts.restore(state["rollouts"])
        self._batches.episodes.restore(of_the_first(state["games"], simulators_of(state)))
        self._learning.skipped = state["skipped"]

    def _restore_account(self, state: Mapping[str, Any]) -> None:
        """Go on with the account of a trainer that died, or of a run that ended, which is in the checkpoint's state."""
        saved = msgspec.convert(state.get("account") or {"used": state["own_steps"]}, Counts)  # else an older version's
        if not self._account.commits:
            self._account.rollouts_learned, self._account.counts = state["learned"], saved
            if not self._goes_on_from:
                saved.dropped["not_resumed"] += state.get("in_flight", 0)
                self._learning.consumed.forget_parts()
        elif not self._peers.outlived:
            counts = self._account.counts
            counts.dropped["rolled_back"] += counts.used - saved.used
            counts.used = saved.used
