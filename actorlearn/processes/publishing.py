"""A learner's weights as others see them: published by version, and told to the rollouts that are opened from then on.

Writes: the weights segment (``parameters/published.py``) and the version by which rollouts are played.
"""

from __future__ import annotations

from dataclasses import dataclass

from actorlearn.learning.update import Learning
from actorlearn.parameters.published import Published
from actorlearn.processes.batches import Batches


@dataclass
class Totals:
    """Counts of what all learners together have learned from."""

    env_steps: int = 0
    updates: int = 0
    """Batches; in mode sync the learners' batches of one update count as one."""


class Publisher:
    """Publishes what was learned."""

    def __init__(self, learning: Learning, published: Published, batches: Batches, totals: Totals) -> None:
        """Publish the weights of ``learning`` to the segment of ``published``."""
        self._learning, self._batches, self._totals = learning, batches, totals
        self.published = published

    @property
    def version(self) -> int:
        """Newest version; -1 before the first."""
        return self.published.version

    def publish(self) -> None:
        """Publish the weights as they are; rollouts that are opened from now on are told this version."""
        version = self._learning.publish(self.published, self._totals.env_steps)
        self._batches.rollouts.published(version, self._totals.env_steps, self._batches.next)
