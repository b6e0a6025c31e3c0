"""A secondary learner: it learns beside the one that acts, from the same replay, and never acts itself.

Reads: the primary's replay. Writes: weights of its own, published in a segment of their own. Refuses to know: how the
replay is filled.

It is the experiment of Stooke & Abbeel (2018), section 5.4.2 and figures 6 to 8: two networks start equal and use
experience at the same rate, with minibatches of different sizes; does the one that does not act keep pace?
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.parameters.checkpoint import Checkpoint
from actorlearn.parameters.published import WeightSink

if TYPE_CHECKING:
    from actorlearn.learning.update import Learning

NAME = "secondary"


@dataclass(frozen=True)
class Secondary:
    """A learner of its own and where its weights are published; its primary calls it, and reports and saves it."""

    learning: Learning
    published: WeightSink

    def pass_over(self, batch: Batch, env_steps: int, rollout: int, going_on: Callable[[], bool]) -> dict[str, float]:
        """Learn from as many transitions as the primary; optimizer steps that are not finite are skipped."""
        metrics = self.learning.pass_over(batch, env_steps, rollout, going_on)
        del metrics["replay_transitions"]
        return _named(metrics)

    def metrics(self) -> dict[str, Any]:
        """Return its metrics by names of their own."""
        return _named(self.learning.metrics())

    def publish(self, env_steps: int) -> None:
        """Publish its weights."""
        self.learning.publish(self.published, env_steps)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that it changes, by names of their own."""
        return {f"{NAME}.{name}": own for name, own in self.learning.tensors().items()}

    def save(self, folder: Path) -> dict[str, Any]:
        """Return its state; the replay is the primary's to write."""
        return {NAME: self.learning.save(folder)}

    def restore(self, saved: Checkpoint, goes_on: bool) -> None:
        """Restore the saved state."""
        self.learning.restore(replace(saved, tensors=saved.section(NAME), state=saved.state[NAME]), goes_on)


def _named(metrics: dict[str, Any]) -> dict[str, Any]:
    return {f"{NAME}_{name}": value for name, value in metrics.items()}
