"""What learners that learn together are to the rest of the system: errors, and the calls of an Exchange.

Reads and writes nothing; imports torch for the type checker only, because processes without torch read this.

An exchange is how one learner's gradient becomes new weights. The trainer calls the same methods in the same places in
every mode: alone, sync (Stooke & Abbeel 2018, section 4.2), async (section 4.3) and gossip (Assran et al. 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from actorlearn.optim.interface import Spread, whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from actorlearn.optim.specs import OptimizerSettings
    from actorlearn.parameters.consumed import Consumed

CONSUMED_WORDS = 4
"""Of eight bytes, that a learner takes in the table of what is in the weights (``parameters/consumed.py``)."""


class Place(NamedTuple):
    """How far a learner is with its own experience."""

    rollout: int = 0
    """The one that is to be learned next, or is being learned."""
    used: int = 0
    """Environment steps of its own that were learned from before it, and are in the weights."""


class Present(NamedTuple):
    """Learners that there are now."""

    numbers: Sequence[int] = ()
    stays: bool = True
    """False while the run ends, and whoever has finished goes."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What a way of learning goes on from, besides weights and what the optimizer remembers; by default nothing."""

    tensors: Sequence[Tensor] = ()
    """The same in all learners in step: who joins takes them along with the weights."""
    counts: Callable[[], Sequence[int]] = tuple
    """At most 6 whole numbers that a learner says when learners join, and that a store keeps with its record."""
    adopt: Callable[[NDArray[np.int64], int], object] = lambda said, best: None
    """Called on joining with those of all, [learners, n], and the rank of the learner whose weights are taken."""


@dataclass(frozen=True, slots=True)
class Learner:
    """What an exchange needs of the learner whose gradients it takes."""

    optimizer: OptimizerSettings
    weights: Tensor
    """The whole flat vector: parameters, and then statistics."""
    gradients: Tensor
    """Of the parameters alone."""
    alive: Callable[[], bool] = lambda: True
    """Called at least every 50 ms while the exchange waits for others; False when it is time to end."""
    present: Callable[[], Present] = Present
    """Mode gossip: the learners that there are now."""
    warn: Callable[[str], None] = lambda text: None
    """Mode gossip: tells a person of what is wrong with another learner and stops nothing."""
    place: Callable[[], Place] = Place
    """Asked before and after learners join, and when they agree."""
    number: int = 0
    """Of this learner, for good; its rank is its place among those that have joined."""
    consumed: Consumed | None = None
    """What is in the weights; None: nobody asks."""
    spread: Spread = whole
    """How the work of an optimizer step is spread over this learner's cores."""
    carried: Carried = Carried()
    """What its way of learning goes on from besides these."""


class PeerLost(RuntimeError):
    """Another learner has gone without a word. What was being exchanged is lost; the next generation starts anew."""


class Stopped(RuntimeError):
    """This process was told to end while it waited for other learners."""


class Disagreement(RuntimeError):
    """Learners that must be equal are not; names them."""


class Stepped(NamedTuple):
    """What one optimizer step came to."""

    norm: float
    """Of the gradient, before clipping."""
    taken: bool
    """False: not finite, here or at another learner that must do the same; nothing was changed."""


class Agreed(NamedTuple):
    """What all learners are about to do; in mode sync the same for each of them."""

    env_steps: int
    """Environment steps that all learners together have learned from once this batch is done."""
    updates: int
    """Batches, likewise; in mode sync the learners' batches of one update count as one."""
    draining: bool
    """A learner is leaving: nobody learns this batch."""


class Exchange(Protocol):
    """How one learner's gradient becomes new weights; owns the optimizer, and changes the flat weights in place."""

    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's state, for a checkpoint."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy a checkpoint's `state` in; called before `join`."""

    def join(self, env_steps: int, updates: int) -> tuple[int, int]:
        """Make weights and optimizer state those of all learners; once, before anything else is asked.

        Takes what the own checkpoint says (0, 0 for a new run); returns what has been learned from in those weights.
        """

    def place(self) -> Place | None:
        """Return where this learner is to go on with its own experience, by the weights it has joined with.

        None: they say nothing of that. Rollouts before it are in those weights, and steps beyond `used` are not, so
        that none is learned twice, and what died with an earlier incarnation of this learner can be counted.
        """

    def agree(self, env_steps: int, optimizer_steps: int, draining: bool = False) -> Agreed:
        """Before a batch is learned: say what is in it, and hear what all do. In mode sync it waits for all.

        `optimizer_steps` is how often `step` will be called. A learner that drains says so, with or without a batch.
        Raises PeerLost, Stopped and Disagreement.
        """

    @property
    def idle(self) -> int:
        """Steps of the batch that was agreed on that others make first: `step` is called for these too.

        In mode sync all make as many as the one with most left to do, and end together.
        """

    def merge(self, moments: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Change the statistics behind the parameters by a batch's moments; once a batch, after `agree`.

        Of a batch that was broken off after this was done, nothing is done again.
        `combine(statistics, moments)` does that in place for one learner's moments. In mode sync it is called for every
        learner's, in the same order everywhere.
        """

    def step(self, gradients: Tensor, learning_rate: float, usable: bool = True) -> Stepped:
        """One optimizer step with a gradient that may be overwritten. `usable`: the loss was finite."""

    def ending(self, told: bool) -> bool:
        """Between two steps of a batch: whether to break it off. `told`: this learner is to.

        In mode sync all do so at the same step, and then have the same weights; raises PeerLost and Stopped.
        """

    def settle(self) -> None:
        """After the last step of a batch: give away what has not been given yet."""

    def pull(self) -> bool:
        """Between batches: take what others have learned, if they may learn alone; True when the weights changed."""

    def metrics(self) -> dict[str, Any]:
        """Return metrics of the time since the last call, for a report; ``metrics/registry.py`` says what each is."""

    def close(self) -> None:
        """Leave; nothing may be asked afterwards."""
