"""Numbers of a learner's replay, as a topology's section ``replay`` has them. Reads and writes nothing."""

from __future__ import annotations

import msgspec


class ReplaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The defaults are Nature DQN's (Mnih et al. 2015) and, of priorities, those of Schaul et al. 2016."""

    capacity_steps: int = 1_000_000  # transitions, of all environments of a learner
    batch_size: int = 32  # transitions of an update
    base_batch_size: int | None = None  # those that the optimizer's numbers are for; None: batch_size
    ratio: float = 8.0  # times that a step is learned from
    learning_starts_steps: int = 50_000  # agent steps stored before the first update
    prioritised: bool = False
    alpha: float = 0.6  # exponent of priorities
    beta: float = 0.4  # exponent of the weights that make up for them, at step 0
    beta_final: float = 1.0  # reached at total_steps, in a straight line
    save: bool = False  # with every checkpoint
    secondary_batch_size: int = 0  # transitions of an update of the secondary learner; 0: there is none

    @property
    def batches(self) -> float:
        """How many of the batches that the optimizer's numbers are for make one."""
        return self.batch_size / (self.base_batch_size or self.batch_size)
