"""A learner with a secondary learner, which learns from the same replay with another batch size, and never acts.

This is the experiment of Stooke & Abbeel (2018), section 5.4.2. It shows whether the secondary learner learns as fast
as the learner that acts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.learning.update import NOTHING, Early, Learning
from actorlearn.parameters.checkpoint import Checkpoint
from actorlearn.parameters.consumed import Position
from actorlearn.parameters.published import Published

SECONDARY = "secondary"
"""Prefix of the names of a secondary learner's metrics and tensors."""


class LearningWithSecondary(Learning):
    """A learner with a second network, which learns from the same replay after each rollout, and never acts.

    The second network does not influence the first.
    """

    def __init__(self, *parts: Any, secondary: Learning, published: Published) -> None:
        super().__init__(*parts)
        self.secondary, self._published = secondary, published
        secondary.going_on = lambda: self.going_on()

    def pass_over(
        self,
        prepared: Batch,
        env_steps: int,
        position: Position,
        remaining: int,
        idle: int = 0,
        early: Early = NOTHING,
    ) -> dict[str, float]:
        """Take this learner's optimizer steps for a rollout, then those of the second network."""
        metrics = super().pass_over(prepared, env_steps, position, remaining, idle, early)
        due = self.secondary.minibatches.due(prepared, 0, env_steps, position.used)
        own = self.secondary.pass_over(prepared, env_steps, position, due)
        del own["replay_transitions"]
        return metrics | _as_secondary(own)

    def publish(self, published: Published, env_steps: int) -> int:
        """Publish the weights of both networks; returns the version of the weights that act."""
        self.secondary.publish(self._published, env_steps)
        return super().publish(published, env_steps)

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of both networks."""
        return super().metrics() | _as_secondary(self.secondary.metrics())

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of both networks."""
        own = {f"{SECONDARY}.{name}": tensor for name, tensor in self.secondary.tensors().items()}
        return super().tensors() | own

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the replay, which both networks share, and return the plain numbers of both."""
        return super().save(folder) | {SECONDARY: self.secondary.save(folder)}

    def restore(self, saved: Checkpoint, goes_on: bool = False) -> None:
        """Restore both networks."""
        super().restore(saved, goes_on)
        own = replace(saved, tensors=saved.section(SECONDARY), state=saved.state[SECONDARY])
        self.secondary.restore(own, goes_on)


def _as_secondary(metrics: dict[str, Any]) -> dict[str, Any]:
    return {f"{SECONDARY}_{name}": value for name, value in metrics.items()}
