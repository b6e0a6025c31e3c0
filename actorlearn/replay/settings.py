"""Settings of a learner's replay buffer: the section ``replay`` of a topology."""

from __future__ import annotations

from typing import Annotated, Self

import msgspec
from msgspec import Meta

Transitions = Annotated[int, Meta(ge=1, le=65_536)]
Exponent = Annotated[float, Meta(ge=0, le=10)]


class ReplaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The replay. The defaults follow Nature DQN (Mnih et al. 2015), and for priorities Schaul et al. (2016)."""

    capacity_steps: Annotated[
        int, Meta(ge=1, le=10**9, description="transitions that the replay holds, of all environments of a learner")
    ] = 1_000_000
    batch_size: Annotated[
        Transitions, Meta(description="transitions or sequences in a minibatch, drawn with replacement")
    ] = 32
    sequence_steps: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="transitions of a sequence that are learned from; 1 = single transitions are drawn, as dqn, "
            "c51 and sac require",
        ),
    ] = 1
    burn_in_steps: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000,
            description="r2d1: transitions of a sequence before those that are learned from; the network only passes "
            "over them, to bring its recurrent state up to date",
        ),
    ] = 0
    sequence_every: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="r2d1: steps from the start of a sequence to the start of the next; if less than "
            "sequence_steps, sequences overlap",
        ),
    ] = 1
    base_batch_size: Annotated[
        Transitions | None,
        Meta(
            description="batch_size for which learning_rate and Adam's epsilon were chosen. If batch_size is "
            "another number, learning_rate is scaled as learners.rate_scaling says, and epsilon is "
            "multiplied by base_batch_size / batch_size; null = batch_size"
        ),
    ] = None
    ratio: Annotated[
        float,
        Meta(
            gt=0,
            le=10_000,
            description="how often each step is learned from on average: batch_size x minibatches / steps",
        ),
    ] = 8.0
    learning_starts_steps: Annotated[
        int,
        Meta(
            ge=1,
            le=10**9,
            description="agent steps of each learner before learning starts; ratio counts only the steps after these, "
            "and the minibatches for them are learned with the next rollout",
        ),
    ] = 50_000
    prioritised: Annotated[
        bool, Meta(description="draw transitions in proportion to priority^alpha instead of uniformly")
    ] = False
    alpha: Annotated[Exponent, Meta(description="prioritised: exponent of priorities; 0 = uniform")] = 0.6
    beta: Annotated[Exponent, Meta(description="prioritised: exponent of the importance weights at step 0")] = 0.4
    beta_final: Annotated[
        Exponent,
        Meta(
            description="prioritised: exponent of the importance weights at schedule_steps, reached linearly; 1 = "
            "fully corrected"
        ),
    ] = 1.0
    save: Annotated[
        bool,
        Meta(
            description="save the replay with every checkpoint, so that a resumed run has it; makes checkpoints large"
        ),
    ] = False
    secondary_batch_size: Annotated[
        int,
        Meta(
            ge=0,
            le=65_536,
            description="minibatch size of a secondary network that learns from the same replay and never acts; 0 = "
            "there is none",
        ),
    ] = 0

    @property
    def sequence_rows(self) -> int:
        """Number of transitions of a sequence, including burn-in: L in ``replay/rows.py``."""
        return self.burn_in_steps + self.sequence_steps

    @property
    def batch_steps(self) -> int:
        """Number of transitions from which the network learns with one minibatch."""
        return self.batch_size * self.sequence_steps

    @property
    def batches(self) -> float:
        """Ratio of the minibatch's size to ``base_batch_size``, for which the optimizer's settings were chosen.

        Learning rates are scaled by it. It is 1 without ``base_batch_size``.
        """
        return self.batch_size / (self.base_batch_size or self.batch_size)

    def of_secondary(self) -> Self:
        """Return the settings of the secondary network (``secondary_batch_size``)."""
        return msgspec.structs.replace(
            self,
            batch_size=self.secondary_batch_size,
            base_batch_size=self.base_batch_size or self.batch_size,
            save=False,  # the primary learner saves the replay
        )
