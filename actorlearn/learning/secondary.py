"""A learner with a secondary one: that learns beside it, from the same replay, and never acts.

Reads: the primary's replay. Writes: weights of its own, published in a segment of their own. Refuses to know: how the
replay is filled.

It is the experiment of Stooke & Abbeel (2018), section 5.4.2 and figures 6 to 8: two networks start equal and use
experience at the same rate, with minibatches of different sizes; does the one that does not act keep pace?
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.learning.update import Learning
from actorlearn.parameters.checkpoint import Checkpoint
from actorlearn.parameters.published import Published

NAME = "secondary"


class LearningWithSecondary(Learning):
    """The primary learner; after each of its own steps of an update it makes the secondary take the same one."""

    secondary: Learning
    secondary_published: Published
    _due = 0
    """Minibatches that the secondary is to learn from in this update."""

    def optimizer_steps_from(
        self, prepared: Batch, env_steps: int, own_steps: int, only_statistics: bool = False, rollout: int = 0
    ) -> int:
        """Count the minibatches that are due for both; returns the primary's."""
        self._due = self.secondary.optimizer_steps_from(prepared, env_steps, own_steps, only_statistics, rollout)
        return super().optimizer_steps_from(prepared, env_steps, own_steps, only_statistics, rollout)

    def pass_over(
        self,
        prepared: Batch,
        env_steps: int,
        rollout: int,
        remaining: int,
        idle: int = 0,
        going_on: Callable[[], bool] | None = None,
    ) -> dict[str, float]:
        """Have both learn from as many transitions; the secondary skips optimizer steps that are not finite."""
        going_on = going_on or self.going_on
        metrics = super().pass_over(prepared, env_steps, rollout, remaining, idle, going_on)
        own = self.secondary.pass_over(prepared, env_steps, rollout, self._due, going_on=going_on)
        del own["replay_transitions"]
        return metrics | _named(own)

    def publish(self, published: Published, env_steps: int) -> int:
        """Publish the weights of both; returns the version of the primary's."""
        self.secondary.publish(self.secondary_published, env_steps)
        return super().publish(published, env_steps)

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of both, the secondary's by names of their own."""
        return super().metrics() | _named(self.secondary.metrics())

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that both change, the secondary's by names of their own."""
        return super().tensors() | {f"{NAME}.{name}": own for name, own in self.secondary.tensors().items()}

    def save(self, folder: Path) -> dict[str, Any]:
        """Return the state of both; the replay is the primary's to write."""
        return super().save(folder) | {NAME: self.secondary.save(folder)}

    def restore(self, saved: Checkpoint, goes_on: bool = False) -> None:
        """Restore the saved state of both."""
        super().restore(saved, goes_on)
        own = replace(saved, tensors=saved.section(NAME), state=saved.state[NAME])
        self.secondary.restore(own, goes_on)


def _named(metrics: dict[str, Any]) -> dict[str, Any]:
    return {f"{NAME}_{name}": value for name, value in metrics.items()}
