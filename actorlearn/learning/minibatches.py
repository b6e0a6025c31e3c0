"""Minibatches: the parts that a rollout is learned from, one for each optimizer step.

They come from the rollout's own batch, in epochs and parts (`Epochs`), or from a replay (``learning/replay.py``). Reads
batches; writes nothing. Refuses to know: how a step is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from actorlearn.algorithms.interface import Algorithm, Batch
from actorlearn.learning.network import Network
from actorlearn.parameters.checkpoint import Checkpoint
from actorlearn.parameters.interface import Carried

if TYPE_CHECKING:
    from actorlearn.replay.buffer import Replay, Sample


class Minibatch(NamedTuple):
    """The experience that one optimizer step is made from."""

    batch: Batch
    """Prepared: as the algorithm's loss reads it."""
    sample: Sample | None = None
    """The same as it lies in the replay, where it was drawn from one."""


class Minibatches:
    """A source of minibatches; called by `Learning`, in the order of these methods, once for each rollout.

    What is defined here suits a source that keeps nothing from one rollout to the next.
    """

    finish_s: float
    """Time for what is left of a rollout once it is time to end; then it is broken off between two minibatches."""
    replay: Replay | None = None
    """The replay they are drawn from; None: they are parts of the batch."""
    carried = Carried()
    """State that other learners take over when they join."""
    together = 0
    """Learners in step, which count the env steps of all and so take as many optimizer steps; 0: each its own."""

    def prepare(self, batch: Batch) -> Batch:
        """Return what all minibatches of the rollout have in common, worked out once."""
        raise NotImplementedError

    def count_due(self, env_steps: int, own_steps: int) -> None:
        """Hear how many steps were learned from before the rollout, by all learners and by this one alone."""

    def remaining(self, prepared: Batch, done: int) -> int:
        """Return how many minibatches remain; ``done`` optimizer steps by this rollout are taken already."""
        raise NotImplementedError

    def draw(self, prepared: Batch, rollout: int, done: int, env_steps: int) -> Iterator[Minibatch]:
        """Yield those that remain, each of which is made when it is asked for."""
        raise NotImplementedError

    def note_learned(self, minibatch: Minibatch, taken: bool, metrics: dict[str, Tensor]) -> None:
        """Note what came of a minibatch: the metrics of its optimizer step; ``taken`` is False if nothing changed."""

    def finish(self) -> dict[str, float]:
        """Finish the rollout, of which no minibatch remains; returns metrics for a report."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Return tensors for a checkpoint, by name."""
        return {}

    def save(self, folder: Path) -> dict[str, Any]:
        """Write what is too long for tensors into a checkpoint's folder, and return plain numbers; raises OSError."""
        return {}

    def restore(self, saved: Checkpoint, goes_on: bool) -> None:
        """Take back what ``tensors`` and ``save`` gave; ``goes_on``: simulators do so too, where they stood."""


class Epochs(Minibatches):
    """A batch, ``epochs`` times over, each time in ``parts`` of its environments that are drawn anew."""

    finish_s = 5.0

    def __init__(self, algorithm: Algorithm, network: Network, epochs: int, parts: int, seed: int) -> None:
        """Draw the parts by ``seed`` and by the number of the rollout alone: who takes over one draws the same."""
        self._algorithm, self._network = algorithm, network
        self._epochs, self._parts, self._seed = epochs, parts, seed

    @torch.no_grad()
    def prepare(self, batch: Batch) -> Batch:
        """Return the batch as the algorithm prepares it, by the weights before the first epoch."""
        if not self._epochs:
            return batch
        last = self._algorithm.prepared_rows
        return self._algorithm.prepare(batch, self._network.outputs(batch, last) if last else {})

    def remaining(self, prepared: Batch, done: int) -> int:
        """Return all parts of all epochs, less those that are done."""
        return self._epochs * self._parts_of(prepared) - done

    def draw(self, prepared: Batch, rollout: int, done: int, env_steps: int) -> Iterator[Minibatch]:
        """Yield one part after the other, epoch after epoch; a single part is the batch itself."""
        generator = torch.Generator().manual_seed((self._seed << 32) + rollout)
        environments, parts = prepared.action.shape[1], self._parts_of(prepared)
        epochs = (torch.randperm(environments, generator=generator).tensor_split(parts) for _ in range(self._epochs))
        for chosen in islice(chain.from_iterable(epochs), done, None):
            yield Minibatch(prepared if parts == 1 else prepared.environments(chosen))

    def _parts_of(self, prepared: Batch) -> int:
        """Parts along the second dimension: no more than that is long."""
        return min(self._parts, prepared.action.shape[1])
