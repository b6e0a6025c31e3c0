"""Rollouts as the trainer learns from them (`Gathered`), and their division into minibatches.

Each minibatch is the data of one optimizer step. Minibatches are either parts of the rollout, in several epochs
(`Epochs`), or drawn from a replay (``learning/replay.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.acting.exploration import mix
from actorlearn.algorithms.interface import Algorithm, Batch
from actorlearn.learning.reward_scale import RunningReturns
from actorlearn.memory.rollout import GroupRollout
from actorlearn.parameters.checkpoint import Checkpoint
from actorlearn.parameters.interface import Carried
from actorlearn.worker.passes import FlatNetwork

if TYPE_CHECKING:
    from actorlearn.learning.target import Target
    from actorlearn.replay.buffer import Replay, Sample


@dataclass(frozen=True)
class Gathered:
    """The time steps of one rollout, from which the trainer makes one update.

    If the trainer is killed before it has counted the rollout as learned, the rollout is gathered again.
    """

    rollout: int
    """Number of the rollout."""
    parts: Sequence[GroupRollout]
    """Groups of environments that played the rollout. Their environments form the second dimension of the batch, in
    this order."""
    batch: Batch
    """Time steps of the rollout. ``valid`` is False for resets, and for those left out (``stale`` and ``no_room``)."""
    lags: NDArray[np.int64]
    """Policy lag of each valid step, [number of valid steps]."""
    steps: int
    """Number of environment steps to learn from: the valid steps, or 0 if ``only_statistics``."""
    stale: int = 0
    """Number of environment steps left out because the weights that acted are too old."""
    no_room: int = 0
    """Number of environment steps left out because the replay has no ring for their environments."""
    only_statistics: bool = False
    """Whether only the statistics are updated. They had too few observations when the rollout was played."""
    returns: RunningReturns | None = None
    """State of the reward scale after this rollout; None if rewards are not scaled."""
    shared: Batch | None = None
    """``batch`` with more environments, those of other learners (``gossip.experience``); minibatches are then made
    from this batch. None if learners share no experience."""


class Minibatch(NamedTuple):
    """The data of one optimizer step."""

    batch: Batch
    """The batch, as the algorithm has prepared it for its loss."""
    sample: Sample | None = None
    """The sample of the replay from which the batch was made; None without a replay."""
    seed: int = 0
    """Seed of the random numbers that the losses draw."""
    part: Tensor | None = None
    """Indices of the rollout's environments that the batch contains; None for all environments, or with a replay."""


class Minibatches(Carried):
    """A source of minibatches for the optimizer steps of each rollout.

    For each rollout, `Learning` calls `due` for the number of minibatches, then `draw`, then `note_learned` after each
    minibatch, and then `finish`. The arguments ``env_steps`` and ``own_steps`` are the numbers of environment steps
    that all learners, and this learner, have learned from before the rollout. The methods that are implemented here are
    for a source that has no state between two rollouts.
    """

    finish_s: float
    """Seconds for which the update of a rollout may continue after the supervisor has told this learner to leave. After
    that, it ends between two minibatches."""
    replay: Replay | None = None
    """The replay from which minibatches are drawn; None if they are parts of the rollout."""
    target: Target | None = None
    """The target network; None if there is none."""

    def store(self, rollout: int, parts: Sequence[GroupRollout]) -> None:
        """Store a rollout in the replay, if there is one; called before its minibatches are drawn."""

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch after the computations that are made once for all its minibatches, such as advantages."""
        raise NotImplementedError

    def due(self, prepared: Batch, done: int, env_steps: int, own_steps: int) -> int:
        """Return how many minibatches remain for this rollout, of which ``done`` have been learned from."""
        raise NotImplementedError

    def draw(self, prepared: Batch, rollout: int, remaining: int, env_steps: int) -> Iterator[Minibatch]:
        """Yield the remaining minibatches of a rollout. Each is made when it is asked for."""
        raise NotImplementedError

    def note_learned(self, minibatch: Minibatch, taken: bool, metrics: Mapping[str, Tensor]) -> None:
        """Record an optimizer step and its metrics; ``taken`` is False if the step was skipped as not finite."""

    def skipped_steps(self, prepared: Batch, gathered: Gathered) -> int:
        """Return the number of this learner's environment steps for which every optimizer step was skipped.

        ``prepared`` is the batch that was made from the rollout ``gathered``. Steps of other learners are not counted.
        """
        return 0

    def finish(self, learned: int, env_steps: int, own_steps: int) -> dict[str, float]:
        """Record that the update of a rollout is complete; returns metrics for a report.

        ``learned`` is the number of minibatches that were due when this process began or continued the update.
        """
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Return tensors for a checkpoint, by name."""
        return {}

    def save(self, folder: Path) -> dict[str, Any]:
        """Write large state to files in a checkpoint's folder, and return plain numbers; raises OSError."""
        return {}

    def restore(self, saved: Checkpoint, goes_on: bool) -> None:
        """Restore a checkpoint; ``goes_on``: the simulators also continue their games from it."""


class Epochs(Minibatches):
    """Divides a batch at random into ``parts`` minibatches, anew in each of ``epochs`` epochs, as PPO does.

    It is divided along its second dimension: into environments or, if the algorithm's ``prepare`` has flattened the
    batch, into transitions.
    """

    finish_s = 5.0

    def __init__(self, algorithm: Algorithm, network: FlatNetwork, epochs: int, parts: int, seed: int) -> None:
        """Draw the divisions from ``seed`` and the rollout's number only, so that a restarted trainer repeats them."""
        self._algorithm, self._network = algorithm, network
        self._epochs, self._parts, self._seed = epochs, parts, seed
        self._taken = self._skipped = torch.zeros(0, dtype=torch.bool)
        """Which environments of the batch were in an optimizer step that was taken, and which in a skipped one; [B]."""

    @torch.no_grad()
    def prepare(self, batch: Batch) -> Batch:
        """Return the batch as the algorithm's ``prepare`` returns it for the weights before the first epoch."""
        if not self._epochs:
            return batch
        last = self._algorithm.prepared_rows
        return self._algorithm.prepare(batch, self._network.outputs(batch, last) if last else {})

    def due(self, prepared: Batch, done: int, env_steps: int, own_steps: int) -> int:
        """Return the number of minibatches of all epochs, less ``done``."""
        return self._epochs * self._parts_of(prepared) - done

    def draw(self, prepared: Batch, rollout: int, remaining: int, env_steps: int) -> Iterator[Minibatch]:
        """Yield the minibatches, epoch after epoch; with one part per epoch, the minibatch is the batch itself."""
        generator = torch.Generator().manual_seed((self._seed << 32) + rollout)
        environments, parts = prepared.action.shape[1], self._parts_of(prepared)
        self._taken, self._skipped = torch.zeros(2, environments, dtype=torch.bool).unbind()
        total = self._epochs * parts
        chosen: Sequence[Tensor] = ()
        for number in range(total):
            if number % parts == 0:  # an epoch begins
                chosen = torch.randperm(environments, generator=generator).tensor_split(parts)
            if number >= total - remaining:
                part = None if parts == 1 else chosen[number % parts]
                batch = prepared if part is None else prepared.environments(part)
                yield Minibatch(batch, seed=mix(mix(self._seed, rollout), number), part=part)

    def note_learned(self, minibatch: Minibatch, taken: bool, metrics: Mapping[str, Tensor]) -> None:
        """Record for which environments of the batch an optimizer step was taken or skipped."""
        (self._taken if taken else self._skipped)[slice(None) if minibatch.part is None else minibatch.part] = True

    def skipped_steps(self, prepared: Batch, gathered: Gathered) -> int:
        """Do what `Minibatches.skipped_steps` says."""
        alone = self._skipped & ~self._taken
        if gathered.shared is not None:  # the index modulo B is the environment, for a batch [T, B] and for [1, T * B]
            own, all_of_them = gathered.batch.valid.shape[1], gathered.shared.valid.shape[1]
            alone &= torch.arange(len(alone)) % all_of_them < own
        return int(prepared.valid[:, alone.to(prepared.valid.device)].sum()) if alone.any() else 0

    def _parts_of(self, prepared: Batch) -> int:
        """Return the number of minibatches per epoch: ``parts``, but at most the length of the second dimension."""
        return min(self._parts, prepared.action.shape[1])
