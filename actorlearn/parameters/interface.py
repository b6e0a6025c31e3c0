"""The exchange: how one learner's gradient becomes new weights, alone or with others; its calls, values and errors.

Reads and writes nothing; imports torch for the type checker only, because processes without torch read this.

An update (``learning/update.py``) calls the same methods in the same places in every mode: alone, sync (Stooke & Abbeel
2018, section 4.2), async (section 4.3) and gossip (Assran et al. 2019).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from actorlearn.optim.interface import Spread, whole
from actorlearn.parameters.consumed import BEGINNING, Consumed, Position

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from actorlearn.optim.outer import Outer
    from actorlearn.optim.specs import OptimizerSettings
    from actorlearn.wire.endpoints import Endpoints

CARRIED_COUNTS = 6
"""Most numbers of a minibatches' source that are exchanged (``Carried.counts``)."""


class Present(NamedTuple):
    """The learners that there are now, as the newest order lists them."""

    learners: Sequence[int] = ()
    """Their numbers."""
    stays: bool = True
    """Whether learners that leave count as lost; False while the run ends, when learners leave as they finish."""


class Carried:
    """State of the minibatches' source that is exchanged besides weights and optimizer state; by default none."""

    together = 0
    """Number of learners in step, which all take the optimizer steps due for all env steps; 0: each for its own."""

    @property
    def shared_tensors(self) -> Sequence[Tensor]:
        """Tensors that are equal in all learners in step: a joining learner takes them with the weights."""
        return ()

    def counts(self) -> Sequence[int]:
        """Return at most CARRIED_COUNTS integers, which learners exchange on joining and a store keeps."""
        return ()

    def adopt(self, counts: NDArray[np.int64], best: int) -> None:
        """Take the counts of all learners [learners, n] on joining; ``best``: rank of the one that has the weights."""


@dataclass(frozen=True, slots=True)
class Learner:
    """The view that an exchange has of the learner whose gradients it takes."""

    optimizer: OptimizerSettings
    """Numbers of the optimizer, and of its groups."""
    weights: Tensor
    """The whole flat vector: parameters, and then statistics."""
    gradients: Tensor
    """The flat gradient, as long as the parameters alone."""
    alive: Callable[[], bool] = lambda: True
    """Whether to go on waiting; asked at least every 50 ms while the exchange waits for others."""
    present: Callable[[], Present] = Present
    """Mode gossip: the learners that there are now."""
    warn: Callable[[str], None] = lambda text: None
    """Mode gossip: reports a problem of another learner to the user."""
    number: int = 0
    """This learner's number, for good; its rank counts it among those that have joined."""
    consumed: Consumed | None = None
    """Table of the experience that is in the weights; None where it is not kept."""
    spread: Spread = whole
    """Spreads the work of an optimizer step over this learner's cores."""
    endpoints: Endpoints | None = None
    """Endpoints of the processes on all machines of the run; None where there is one machine."""
    carried: Carried = field(default_factory=Carried)
    """Further state of its minibatches' source."""
    outer: Outer | None = None
    """Modes sync and gossip: makes new weights from the mean of the learners' weights; None = the mean itself."""
    networks: Mapping[str, slice] = field(default_factory=dict)
    """Range of the parameters of each network; empty where there is only one (``optim/groups.py``)."""


class PeerLost(RuntimeError):
    """Another learner has died or left during an exchange, which is void; the others continue in a new generation."""


class Stopped(RuntimeError):
    """This process was told to end while it waited for other learners."""


class Disagreement(RuntimeError):
    """Learners that must be equal are not; names them."""


class Stepped(NamedTuple):
    """Outcome of one optimizer step."""

    norm: float
    """l2 norm of the gradient, before clipping."""
    taken: bool
    """Whether it was taken. If not, the gradient was not finite, at this learner or, in mode sync, at another one."""


class Agreed(NamedTuple):
    """The batch that all learners are about to learn; in mode sync the same for each of them."""

    env_steps: int
    """Environment steps that all learners together have learned from once this batch is done."""
    updates: int
    """Updates of all learners once this batch is done; in mode sync the learners' joint batches count as one."""
    draining: bool
    """Whether a learner is leaving, so that no learner learns from this batch."""
    idle: int = 0
    """Steps of the batch in which this learner has no minibatch; it calls `step` for these first.

    In mode sync all learners make as many steps as the one with most minibatches left, and end together."""


class Joined(NamedTuple):
    """The weights that a learner has joined with."""

    env_steps: int
    """Environment steps that all learners together have learned from, in these weights."""
    updates: int
    """Updates that all learners together have made, in these weights."""
    position: Position | None = None
    """The position from which this learner continues with these weights; None where it is not recorded with them.

    Rollouts before it are in the weights, and steps beyond its ``used`` are not: no rollout is learned twice, and steps
    lost with an earlier incarnation of this learner can be counted."""


class Exchange(ABC):
    """Turns one learner's gradient into new weights; owns the optimizer, changes the flat weights in place.

    A mode must implement

    ====================  ==========================================================================================
    ``state, restore``    the optimizer's state, to and from a checkpoint
    ``join``              called once, after `restore` and before all others: take common weights
    ``agree``             called before each batch: announce it, and agree with the other learners
    ``merge``             called once a batch, where observations are normalised: update the statistics
    ``step``              called for each minibatch: from a gradient to new weights
    ``settle``            called after the last step of a batch
    ====================  ==========================================================================================

    and inherits defaults of the other methods, which wait for no learner and take nothing between batches.
    """

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's state, for a checkpoint."""

    @abstractmethod
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy a checkpoint's `state` in; called before `join`."""

    @abstractmethod
    def join(self, env_steps: int, updates: int, position: Position = BEGINNING) -> Joined:
        """Take the weights and optimizer state common to all learners; called once, after `restore`, before the others.

        The totals are those of this learner's own checkpoint (0, 0 for a new run), its position that of its account.
        """

    @abstractmethod
    def agree(
        self, env_steps: int, optimizer_steps: int, position: Position = BEGINNING, draining: bool = False
    ) -> Agreed:
        """Announce a batch before it is learned, and return the learners' totals. In mode sync it waits for all.

        `optimizer_steps`: number of calls of `step` to come. `position`: that of this learner, whose `rollout` the
        batch is. `draining`: this learner leaves, with or without a batch.
        Raises PeerLost, Stopped and Disagreement.
        """

    @abstractmethod
    def merge(self, moments: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Change the statistics behind the parameters by a batch's moments; once a batch, after `agree`.

        It is not repeated for a batch that was broken off after it.
        `combine(statistics, moments)` does that in place for one learner's moments. In mode sync it is called for every
        learner's, in the same order everywhere.
        """

    @abstractmethod
    def step(self, gradients: Tensor, learning_rates: Sequence[float], usable: bool = True) -> Stepped:
        """Take one optimizer step with a gradient that may be overwritten. `usable`: the loss was finite.

        There is a learning rate for each parameter group (``optim/groups.py``); with one network there is one group.
        """

    def mean(self, number: float) -> float:
        """Return the mean of a number over the learners that take the next step together; called before `step`.

        In mode sync it is the same for all, which call it as often; elsewhere it is this learner's own number.
        """
        return number

    @abstractmethod
    def settle(self) -> None:
        """Count a batch after its last step, and pass on changes that other learners have not got yet."""

    def ending(self, asked: bool) -> bool:
        """Whether to break a batch off, between two of its steps. `asked`: this learner was told to end.

        In mode sync all do so at the same step, and then have the same weights; raises PeerLost and Stopped.
        """
        return asked

    def break_off(self) -> None:
        """Take back steps of an unfinished batch that no other learner's weights have; called when it is broken off.

        Only mode sync with local steps has such steps: the batch continues from the exchange before them.
        """
        return

    def pull(self) -> bool:
        """Take other learners' changes, between batches; True when the weights changed."""
        return False

    def metrics(self) -> dict[str, Any]:
        """Return metrics of the time since the last call, for a report; ``metrics/registry.py`` says what each is."""
        return {}

    def close(self) -> None:
        """Leave the exchange; no other method may be called afterwards. A second call does nothing."""
        return
