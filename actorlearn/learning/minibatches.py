"""A rollout in the form that is learned from, and its minibatches, one for each optimizer step.

Minibatches are parts of the rollout's own batch, in epochs (`Epochs`), or draws from a replay (``learning/replay.py``).
Reads batches; writes nothing. Takes no optimizer steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """One rollout, gathered to be learned from; until it is counted, it may be gathered again."""

    rollout: int
    """Number of the rollout."""
    parts: Sequence[GroupRollout]
    """Blocks of the rollout, in the order of the batch's second dimension."""
    batch: Batch
    """Rows of the rollout; ``valid`` is False for resets and for the steps that are left out (``stale``,
    ``no_room``)."""
    lags: NDArray[np.int64]
    """Policy lag of each valid step."""
    steps: int
    """Number of environment steps to learn from: actions that were carried out, without the steps left out."""
    stale: int = 0
    """Number of environment steps left out because the weights that acted are too old."""
    no_room: int = 0
    """Number of environment steps left out because the replay has no ring for their environments."""
    statistics_steps: int = 0
    """Number of environment steps from which only the statistics of observations are updated."""
    only_statistics: bool = False
    """Whether only the statistics are updated, because they had too few observations when the rollout was played."""
    returns: RunningReturns | None = None
    """State of the reward scale after this rollout; None if rewards are not scaled."""
    shared: Batch | None = None
    """The batch joined with other learners' rows, from which minibatches are then made; None without such rows."""


class Minibatch(NamedTuple):
    """The experience of one optimizer step."""

    batch: Batch
    """The batch, as prepared for the algorithm's loss."""
    sample: Sample | None = None
    """The sample of the replay that it was made from; None without a replay."""
    seed: int = 0
    """Seed of the random numbers that the losses draw."""
    part: Tensor | None = None
    """Indices of the environments of the prepared batch that ``batch`` has; None: all, or ``batch`` is from a
    replay."""


class Minibatches(Carried):
    """A source of minibatches for the optimizer steps of each rollout.

    For each rollout, `Learning` asks how many are ``due``, draws them, notes each that was learned, and finishes.
    ``env_steps`` and ``own_steps`` are the steps learned from before the rollout, by all learners and by this one. The
    defaults here are those of a source without state between rollouts.
    """

    finish_s: float
    """Seconds for which a pass may go on after the order to leave; then it ends between two minibatches."""
    replay: Replay | None = None
    """The replay that minibatches are drawn from; None: they are parts of the batch."""
    target: Target | None = None
    """The target network; None if there is none."""

    def store(self, rollout: int, parts: Sequence[GroupRollout]) -> None:
        """Store a rollout in the replay, if there is one; called before its minibatches are drawn."""

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch with values that all its minibatches share, computed once."""
        raise NotImplementedError

    def due(self, prepared: Batch, done: int, env_steps: int, own_steps: int) -> int:
        """Return how many minibatches remain, if ``done`` optimizer steps of this rollout are in the weights."""
        raise NotImplementedError

    def draw(self, prepared: Batch, rollout: int, remaining: int, env_steps: int) -> Iterator[Minibatch]:
        """Yield the remaining minibatches, each made on demand."""
        raise NotImplementedError

    def note_learned(self, minibatch: Minibatch, taken: bool, metrics: dict[str, Tensor]) -> None:
        """Record the metrics of a minibatch's optimizer step; ``taken`` is False if the step was skipped."""

    def skipped_steps(self, prepared: Batch) -> int:
        """Return the environment steps of the drawn batch that are in skipped optimizer steps alone."""
        return 0

    def finish(self, learned: int, env_steps: int, own_steps: int) -> dict[str, float]:
        """Count a rollout as learned; returns metrics for a report.

        ``learned``: number of minibatches in the pass that ended it.
        """
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Return tensors for a checkpoint, by name."""
        return {}

    def save(self, folder: Path) -> dict[str, Any]:
        """Write large state to files in a checkpoint's folder, and return plain numbers; raises OSError."""
        return {}

    def restore(self, saved: Checkpoint, goes_on: bool) -> None:
        """Restore the state of ``tensors`` and ``save``; ``goes_on``: simulators continue from snapshots, too."""


class Epochs(Minibatches):
    """A batch in ``epochs`` passes, each divided anew into ``parts`` at random.

    A part is some columns of the second dimension: environments, or transitions if ``prepare`` has separated these.
    """

    finish_s = 5.0

    def __init__(self, algorithm: Algorithm, network: FlatNetwork, epochs: int, parts: int, seed: int) -> None:
        """Draw parts from ``seed`` and the rollout's number only, so that a restarted trainer draws the same parts."""
        self._algorithm, self._network = algorithm, network
        self._epochs, self._parts, self._seed = epochs, parts, seed
        self._taken = self._skipped = torch.zeros(0, dtype=torch.bool)
        """Environments of the drawn batch that were in an optimizer step that was taken, or skipped."""

    @torch.no_grad()
    def prepare(self, batch: Batch) -> Batch:
        """Return the batch as the algorithm prepares it, with the weights before the first epoch."""
        if not self._epochs:
            return batch
        last = self._algorithm.prepared_rows
        return self._algorithm.prepare(batch, self._network.outputs(batch, last) if last else {})

    def due(self, prepared: Batch, done: int, env_steps: int, own_steps: int) -> int:
        """Return the number of all parts of all epochs, less ``done``."""
        return self._epochs * self._parts_of(prepared) - done

    def draw(self, prepared: Batch, rollout: int, remaining: int, env_steps: int) -> Iterator[Minibatch]:
        """Yield the parts in order, epoch after epoch; if there is one part, it is the batch itself."""
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

    def note_learned(self, minibatch: Minibatch, taken: bool, metrics: dict[str, Tensor]) -> None:
        """Record which environments were in an optimizer step."""
        (self._taken if taken else self._skipped)[slice(None) if minibatch.part is None else minibatch.part] = True

    def skipped_steps(self, prepared: Batch) -> int:
        """Return the environment steps of the drawn batch that are in skipped optimizer steps alone."""
        alone = self._skipped & ~self._taken
        return int(prepared.valid[:, alone.to(prepared.valid.device)].sum()) if alone.any() else 0

    def _parts_of(self, prepared: Batch) -> int:
        """Return the number of parts along the second dimension, at most its length."""
        return min(self._parts, prepared.action.shape[1])
