"""The exchange: how one learner's gradient becomes new weights, alone or with others; its calls, values and errors.

Reads and writes nothing; imports torch for the type checker only, because processes without torch read this.

The trainer calls the same methods in the same places in every mode: alone, sync (Stooke & Abbeel 2018, section 4.2),
async (section 4.3) and gossip (Assran et al. 2019).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from actorlearn.optim.interface import Spread, whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from actorlearn.optim.specs import OptimizerSettings
    from actorlearn.parameters.consumed import Consumed

CONSUMED_WORDS = 4
"""Words of eight bytes in a learner's row of the table of what is in the weights (``parameters/consumed.py``)."""


class Position(NamedTuple):
    """A learner's position in its own experience: where it goes on."""

    rollout: int = 0
    """The rollout that is to be learned next, or is being learned."""
    used: int = 0
    """Environment steps of its own before that rollout that were learned from, and are in the weights."""


class Present(NamedTuple):
    """The learners that there are now, as the newest order lists them."""

    learners: Sequence[int] = ()
    """Their numbers."""
    stays: bool = True
    """Whether those who go are missed; False while the run ends, and whoever has finished goes."""


@dataclass(frozen=True, slots=True)
class Carried:
    """State that a way of learning goes on from, besides weights and the optimizer's; by default none."""

    tensors: Sequence[Tensor] = ()
    """The same in all learners in step: who joins takes them along with the weights."""
    counts: Callable[[], Sequence[int]] = tuple
    """Return at most 6 whole numbers, which a learner says when learners join and a store keeps with its record."""
    adopt: Callable[[NDArray[np.int64], int], object] = lambda said, best: None
    """Take the counts of all learners [learners, n], and the rank of the one whose weights are taken; on joining."""


@dataclass(frozen=True, slots=True)
class Learner:
    """The learner whose gradients an exchange takes, as far as exchanges know it."""

    optimizer: OptimizerSettings
    weights: Tensor
    """The whole flat vector: parameters, and then statistics."""
    gradients: Tensor
    """The flat gradient, as long as the parameters alone."""
    alive: Callable[[], bool] = lambda: True
    """Whether to go on waiting; asked at least every 50 ms while the exchange waits for others."""
    present: Callable[[], Present] = Present
    """Mode gossip: the learners that there are now."""
    warn: Callable[[str], None] = lambda text: None
    """Mode gossip: tells a person of what is wrong with another learner and stops nothing."""
    position: Callable[[], Position] = Position
    """The learner's position by its account; asked before and after learners join, and when they agree."""
    number: int = 0
    """This learner's number, for good; its rank counts it among those that have joined."""
    consumed: Consumed | None = None
    """Table of what is in the weights; None: nobody asks."""
    spread: Spread = whole
    """Spreads the work of an optimizer step over this learner's cores."""
    carried: Carried = Carried()
    """State that its way of learning goes on from besides these."""


class PeerLost(RuntimeError):
    """Another learner has gone without a word. What was being exchanged is lost; the next generation starts anew."""


class Stopped(RuntimeError):
    """This process was told to end while it waited for other learners."""


class Disagreement(RuntimeError):
    """Learners that must be equal are not; names them."""


class Stepped(NamedTuple):
    """Outcome of one optimizer step."""

    norm: float
    """l2 norm of the gradient, before clipping."""
    taken: bool
    """Whether it was taken. If not, the gradient was not finite, here or at another learner that must do the same."""


class Agreed(NamedTuple):
    """The batch that all learners are about to learn; in mode sync the same for each of them."""

    env_steps: int
    """Environment steps that all learners together have learned from once this batch is done."""
    updates: int
    """Batches, likewise; in mode sync the learners' batches of one update count as one."""
    draining: bool
    """Whether a learner is leaving, so that nobody learns this batch."""


class Joined(NamedTuple):
    """The weights that a learner has joined with."""

    env_steps: int
    """Environment steps that all learners together have learned from, in these weights."""
    updates: int
    """Batches, likewise."""
    position: Position | None = None
    """The position at which this learner goes on, by these weights; None where they say nothing of that.

    Rollouts before it are in the weights, and steps beyond its ``used`` are not: so none is learned twice, and what was
    lost with an earlier incarnation of this learner can be counted."""


class Exchange(ABC):
    """The way from one learner's gradient to new weights; owns the optimizer, changes the flat weights in place.

    A mode must write

    ====================  ==========================================================================================
    ``state, restore``    the optimizer's state, to and from a checkpoint
    ``join``              once, before anything else is asked: these weights become those of all
    ``agree``             before each batch: what is in it, and what all do
    ``merge``             once a batch, where observations are normalised: the statistics behind the parameters
    ``step``              for each minibatch: from a gradient to new weights
    ``settle``            after the last step of a batch
    ====================  ==========================================================================================

    and has the others from here, where it waits for nobody and takes nothing between batches.
    """

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's state, for a checkpoint."""

    @abstractmethod
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy a checkpoint's `state` in; called before `join`."""

    @abstractmethod
    def join(self, env_steps: int, updates: int) -> Joined:
        """Make weights and optimizer state those of all learners; once, before anything else is asked.

        Takes what the own checkpoint says of them (0, 0 for a new run).
        """

    @abstractmethod
    def agree(self, env_steps: int, optimizer_steps: int, draining: bool = False) -> Agreed:
        """Say what is in a batch before it is learned, and hear what all do. In mode sync it waits for all.

        `optimizer_steps` is how often `step` will be called. A learner that drains says so, with or without a batch.
        Raises PeerLost, Stopped and Disagreement.
        """

    @abstractmethod
    def merge(self, moments: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Change the statistics behind the parameters by a batch's moments; once a batch, after `agree`.

        Of a batch that was broken off after this was done, nothing is done again.
        `combine(statistics, moments)` does that in place for one learner's moments. In mode sync it is called for every
        learner's, in the same order everywhere.
        """

    @abstractmethod
    def step(self, gradients: Tensor, learning_rate: float, usable: bool = True) -> Stepped:
        """Take one optimizer step with a gradient that may be overwritten. `usable`: the loss was finite."""

    @abstractmethod
    def settle(self) -> None:
        """Count a batch after its last step, and give away what has not been given yet."""

    @property
    def idle(self) -> int:
        """Steps of the batch that was agreed on that others make first: `step` is called for these too.

        In mode sync all make as many as the one with most left to do, and end together.
        """
        return 0

    def ending(self, asked: bool) -> bool:
        """Whether to break a batch off, between two of its steps. `asked`: this learner is to.

        In mode sync all do so at the same step, and then have the same weights; raises PeerLost and Stopped.
        """
        return asked

    def pull(self) -> bool:
        """Take what others have learned, between batches; True when the weights changed."""
        return False

    def metrics(self) -> dict[str, Any]:
        """Return metrics of the time since the last call, for a report; ``metrics/registry.py`` says what each is."""
        return {}

    def close(self) -> None:
        """Leave; once or more often, and nothing else may be asked afterwards."""
        return
