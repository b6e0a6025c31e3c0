"""A secondary learner: it learns beside the one that acts, from the same replay, and never acts itself.

Reads: the primary's replay. Writes: weights of its own, published in a segment of their own. Refuses to know: how the
replay is filled.

It is the experiment of Stooke & Abbeel (2018), section 5.4.2 and figures 6 to 8: of two networks that start equal and
use up experience at the same rate, with minibatches of different sizes, does the one that does not choose it keep pace?
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.learning.replay import ReplayLearning
from actorlearn.memory.shared import Segment
from actorlearn.parameters import checkpoint
from actorlearn.parameters.interface import Place
from actorlearn.parameters.published import Published
from actorlearn.replay.buffer import Replay
from actorlearn.worker.settings import TrainerReplay, TrainerSettings


class WithSecondary(ReplayLearning):
    """The learner that acts, which learns as if it were alone, and the secondary one after it in each rollout."""

    def __init__(
        self,
        settings: TrainerSettings,
        of_replay: TrainerReplay,
        replay: Replay,
        place: Callable[[], Place] = Place,
        beat: Callable[[], object] = lambda: None,
    ) -> None:
        """Build both: of the same weights and the same replay, each with minibatches of its own size and draws."""
        primary = of_replay.settings
        super().__init__(settings, primary, replay, place, beat)
        numbers = msgspec.structs.replace(
            primary,
            batch_size=primary.secondary_batch_size,
            base_batch_size=primary.base_batch_size or primary.batch_size,
        )
        self.secondary = ReplayLearning(settings, numbers, replay, beat=beat, stream=[1], prioritises=False)
        assert of_replay.secondary is not None  # with batches of its own it publishes weights of its own
        self._published = Published(Segment.open(of_replay.secondary.file))

    def updates_from(self, prepared: Batch, env_steps: int, own_steps: int) -> int:
        """Minibatches of the primary that are due; those of the secondary are as many transitions."""
        self.secondary.updates_from(prepared, env_steps, own_steps)
        return super().updates_from(prepared, env_steps, own_steps)

    def pass_over(
        self, batch: Batch, env_steps: int, rollout: int, going_on: Callable[[], bool] = lambda: True
    ) -> dict[str, float]:
        """Learn from all minibatches that are due; of the secondary, updates that are not finite are only skipped."""
        metrics = super().pass_over(batch, env_steps, rollout, going_on)
        beside = self.secondary.pass_over(batch, env_steps, rollout, going_on)
        del beside["replay_transitions"]
        return {**metrics, **_named(beside)}

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of both."""
        return {**super().metrics(), **_named(self.secondary.metrics())}

    def publish(self, published: Published, env_steps: int) -> int:
        """Publish the weights of both, each where it belongs."""
        self.secondary.publish(self._published, env_steps)
        return super().publish(published, env_steps)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that learning changes, of both."""
        return {**super().tensors(), **{f"secondary.{name}": own for name, own in self.secondary.tensors().items()}}

    def state(self) -> dict[str, Any]:
        """Return the short state of both."""
        return {**super().state(), "secondary": self.secondary.state()}

    def restore(self, saved: checkpoint.Checkpoint, goes_on: bool = False) -> None:
        """Take back both."""
        super().restore(saved, goes_on)
        own = saved.section("secondary"), saved.state["secondary"]
        self.secondary.restore(checkpoint.Checkpoint(saved.path, *own), goes_on)


def _named(metrics: dict[str, Any]) -> dict[str, Any]:
    return {f"secondary_{name}": value for name, value in metrics.items()}
