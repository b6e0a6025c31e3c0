"""A secondary learner: it learns beside the one that acts, from the same replay, and never acts itself.

Reads: the primary's replay. Writes: weights of its own, published in a segment of their own. Refuses to know: how the
replay is filled.

It is the experiment of Stooke & Abbeel (2018), section 5.4.2 and figures 6 to 8: of two networks that start equal and
use up experience at the same rate, with minibatches of different sizes, does the one that does not choose it keep pace?
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.learning.replay import ReplayLearning
from actorlearn.learning.update import Learning
from actorlearn.memory.shared import Segment
from actorlearn.parameters import checkpoint
from actorlearn.parameters.published import Published
from actorlearn.replay.buffer import Replay
from actorlearn.worker.settings import ReplayPlace, TrainerSettings


def learning_by(settings: TrainerSettings) -> Learning:
    """How this learner learns."""
    if settings.replay is None:
        return Learning(settings)
    kind = WithSecondary if settings.replay.numbers.secondary_batch_size else ReplayLearning
    return kind(settings, settings.replay)


class Secondary(ReplayLearning):
    """Network, target network, loss and optimizer of its own; minibatches of its own size and draws."""

    def __init__(self, settings: TrainerSettings, place: ReplayPlace, replay: Replay) -> None:
        """Start with the weights that the primary starts with."""
        self._shared = replay
        primary = place.numbers
        base = primary.base_batch_size or primary.batch_size
        numbers = msgspec.structs.replace(primary, batch_size=primary.secondary_batch_size, base_batch_size=base)
        super().__init__(settings, msgspec.structs.replace(place, numbers=numbers))
        self.random = np.random.default_rng([settings.seed, settings.learner, 1])

    def _open(self, place: ReplayPlace) -> Replay:
        return self._shared

    def prioritise(self, priority: NDArray[np.floating[Any]]) -> None:
        """Priorities are the primary's."""


class WithSecondary(ReplayLearning):
    """The learner that acts, which learns as if it were alone, and the secondary one after it in each rollout."""

    def __init__(self, settings: TrainerSettings, place: ReplayPlace) -> None:
        """Build both."""
        super().__init__(settings, place)
        self.secondary = Secondary(settings, place, self.replay)
        self._published = Published(Segment.open(Path(place.secondary)))

    def updates_from(self, prepared: Batch, env_steps: int, own_steps: int) -> int:
        """Minibatches of the primary that are due; those of the secondary are as many transitions."""
        self.secondary.updates_from(prepared, env_steps, own_steps)
        return super().updates_from(prepared, env_steps, own_steps)

    def pass_over(self, batch: Batch, env_steps: int, rollout: int) -> dict[str, float]:
        """Learn from all minibatches that are due; of the secondary, updates that are not finite are only skipped."""
        told = super().pass_over(batch, env_steps, rollout)
        self.secondary.beat, self.secondary.going_on = self.beat, self.going_on
        beside = self.secondary.pass_over(batch, env_steps, rollout)
        del beside["replay_transitions"]
        return {**told, **_named(beside)}

    def numbers(self) -> dict[str, Any]:
        """Of both."""
        return {**super().numbers(), **_named(self.secondary.numbers())}

    def publish(self, published: Published, env_steps: int) -> int:
        """Publish the weights of both, each where it belongs."""
        self.secondary.publish(self._published, env_steps)
        return super().publish(published, env_steps)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that learning changes, of both."""
        return {**super().tensors(), **{f"secondary.{name}": own for name, own in self.secondary.tensors().items()}}

    def state(self) -> dict[str, Any]:
        """Of both."""
        return {**super().state(), "secondary": self.secondary.state()}

    def restore(self, saved: checkpoint.Checkpoint, goes_on: bool = False) -> None:
        """Take back both."""
        super().restore(saved, goes_on)
        own = saved.section("secondary"), saved.state["secondary"]
        self.secondary.restore(checkpoint.Checkpoint(saved.path, *own), goes_on)


def _named(numbers: dict[str, Any]) -> dict[str, Any]:
    return {f"secondary_{name}": number for name, number in numbers.items()}
