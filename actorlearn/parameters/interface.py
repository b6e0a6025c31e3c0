"""The interface of an exchange, which turns one learner's gradient into new weights, alone or with other learners.

Reads and writes nothing. Imports torch for the type checker only, because processes without torch import this module.

An update (``learning/update.py``) calls the same methods in the same order in every mode: alone, sync (Stooke & Abbeel
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
"""Largest number of counts that the source of minibatches exchanges (``Carried.counts``)."""


class Present(NamedTuple):
    """The present learners, as the newest order lists them."""

    learners: Sequence[int] = ()
    """Numbers of the learners."""
    stays: bool = True
    """Whether learners that leave count as lost; False while the run ends, when learners leave as they finish."""


class Carried:
    """State of the source of minibatches that is exchanged besides weights and optimizer state; by default none."""

    together = 0
    """Number of learners in lock-step. Each takes all optimizer steps due for the environment steps of all. 0: each
    learner takes only those due for its own."""

    @property
    def shared_tensors(self) -> Sequence[Tensor]:
        """Tensors that are equal in all learners in lock-step; a joining learner copies them with the weights."""
        return ()

    def counts(self) -> Sequence[int]:
        """Return at most CARRIED_COUNTS integers, which learners exchange on joining and a store keeps."""
        return ()

    def adopt(self, counts: NDArray[np.int64], best: int) -> None:
        """Take the counts of all learners [learners, n] on joining; ``best``: rank of the learner that gave weights."""


@dataclass(frozen=True, slots=True)
class Learner:
    """The learner whose gradients an exchange takes, as the exchange sees it."""

    optimizer: OptimizerSettings
    """Settings of the optimizer and of its parameter groups."""
    weights: Tensor
    """The whole flat vector: parameters, then statistics."""
    gradients: Tensor
    """The flat gradient, as long as the parameters."""
    alive: Callable[[], bool] = lambda: True
    """Whether to go on waiting; called at least every 50 ms while the exchange waits for others."""
    present: Callable[[], Present] = Present
    """Mode gossip: returns the present learners."""
    warn: Callable[[str], None] = lambda text: None
    """Mode gossip: reports a problem of another learner to the user."""
    number: int = 0
    """This learner's number, which never changes; its rank is its index among the learners that have joined."""
    consumed: Consumed | None = None
    """Table of the experience that the weights contain; None if it is not kept."""
    spread: Spread = whole
    """Spreads the work of an optimizer step over this learner's cores."""
    endpoints: Endpoints | None = None
    """Endpoints of the processes on all machines of the run; None if the exchange's settings have no host."""
    carried: Carried = field(default_factory=Carried)
    """Further state of the learner's source of minibatches."""
    outer: Outer | None = None
    """Modes sync and gossip: computes new weights from the mean of the learners' weights; None = the mean itself."""
    state: Tensor | None = None
    """State of the algorithm's own, one flat vector; None if it has none. The learner changes it after each step."""
    networks: Mapping[str, slice] = field(default_factory=dict)
    """Range of the parameters of each network; empty if there is only one network (``optim/groups.py``)."""


NEAR_END = 10
"""Learners ask for exact totals when each has about this number of batches left before the run's last step."""


class PeerLost(RuntimeError):
    """Another learner died or left during an exchange, which has no effect; the others begin a new generation."""


class Stopped(RuntimeError):
    """This process was told to end while it waited for other learners."""


class Disagreement(RuntimeError):
    """Learners in lock-step have different weights."""


class Stepped(NamedTuple):
    """Outcome of one optimizer step."""

    norm: float
    """l2 norm of the gradient, before clipping."""
    taken: bool
    """Whether the step was taken. If not, the gradient was unusable, here or, in mode sync, at another learner."""


class Agreed(NamedTuple):
    """Result of `agree` about the batch to learn next; in mode sync, `idle` alone differs between the learners."""

    env_steps: int
    """Environment steps that all learners together have learned from once this batch is done."""
    updates: int
    """Updates of all learners once this batch is done; in mode sync a batch of all learners counts as one update."""
    draining: bool
    """Whether this learner or, in mode sync, any learner is leaving, so that this batch is not learned."""
    idle: int = 0
    """Number of steps of the batch in which this learner has no minibatch; it calls `step` for these first.

    In mode sync all learners make as many steps as the learner with most remaining minibatches, and end together."""


class Joined(NamedTuple):
    """Totals and position that belong to the weights with which a learner has joined."""

    env_steps: int
    """Environment steps that all learners together have learned from, in these weights."""
    updates: int
    """Updates that all learners together have made, in these weights."""
    position: Position | None = None
    """The position from which this learner continues with these weights; None if it is not recorded with them.

    The weights contain the rollouts before it, and no environment steps beyond its ``used``. So no rollout is learned
    twice, and steps lost with an earlier incarnation of this learner can be counted."""


class Exchange(ABC):
    """Turns one learner's gradient into new weights. Owns the optimizer; changes the flat weights in place.

    A mode must implement the abstract methods. They are called in this order: once `restore` and `join`; for each batch
    `agree`, `merge` if observations are normalised, `step` for each minibatch, and `settle`. The defaults of the other
    methods do not wait for other learners, and do not change weights.
    """

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's state, for a checkpoint."""

    @abstractmethod
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Replace the optimizer's state by a checkpoint's `state`; called before `join`."""

    @abstractmethod
    def join(self, env_steps: int, updates: int, position: Position = BEGINNING) -> Joined:
        """Take the weights and optimizer state that learners share; called once, after `restore`, before the others.

        `env_steps` and `updates` are the totals of this learner's own checkpoint (0, 0 for a new run); `position` is
        that of its account.
        """

    @abstractmethod
    def agree(
        self, env_steps: int, optimizer_steps: int, position: Position = BEGINNING, draining: bool = False
    ) -> Agreed:
        """Announce a batch before it is learned, and return the learners' totals. In mode sync it waits for all.

        `optimizer_steps`: number of calls of `step` to come. `position`: this learner's position; its `rollout` is the
        batch. `draining`: this learner leaves, with or without a batch.
        Raises PeerLost, Stopped and Disagreement.
        """

    @abstractmethod
    def merge(self, moments: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Change the statistics behind the parameters by a batch's moments; called once a batch, after `agree`.

        A batch that was broken off after `merge` continues without another merge. `combine(statistics, moments)`
        changes the statistics in place by one learner's moments; in mode sync it is called for the moments of every
        learner, in the same order in all learners.
        """

    @abstractmethod
    def step(self, gradients: Tensor, learning_rates: Sequence[float], usable: bool = True) -> Stepped:
        """Take one optimizer step with a gradient that may be overwritten. `usable`: the loss was finite.

        There is a learning rate for each parameter group (``optim/groups.py``); with one network there is one group.
        """

    def mean(self, numbers: Tensor) -> Tensor:
        """Return the mean of a vector over the learners that take the next step together; called before `step`.

        In mode sync all learners must call it, and get the same mean. In other modes it returns `numbers`.
        """
        return numbers

    @abstractmethod
    def settle(self) -> None:
        """Count a batch after its last step, and pass on changes that other learners do not have yet."""

    early = False
    """Whether `agree` also exchanges what the first `merge` or `step` of the batch is given, if `bring` has it.

    Learners on several machines save a round trip by this."""

    def bring(self, moments: Tensor | None = None, gradients: Tensor | None = None) -> None:
        """Take what the first `merge` or, without one, the first `step` will be given; called before `agree`.

        It is called only if `early`. A gradient that is unusable is not finite.
        """
        return

    saving = False
    """Whether this learner's next checkpoint is due by time; set before `agree`.

    In mode sync, `agree` sets it if a checkpoint is due for any learner, so that all save at the same update."""

    def ending(self, asked: bool) -> bool:
        """Whether to break a batch off, between two of its steps. `asked`: this learner was told to end.

        In mode sync all learners break off at the same step, with the same weights; raises PeerLost and Stopped.
        """
        return asked

    def break_off(self) -> None:
        """Undo steps of an unfinished batch that were not exchanged; called when the batch is broken off.

        Only mode sync with local steps undoes steps: the batch continues from the last exchange.
        """
        return

    def learned(self, end_steps: int) -> int:
        """Return the newest known environment steps that all learners have learned from; called before each batch.

        Near ``end_steps``, learners that do not share memory tell each other more often, so that they end in time. In
        modes where `agree` returns exact totals, the result is 0. The weights stay as they are: trainers publish only
        the changes of `pull` and of batches.
        """
        return 0

    def pull(self) -> bool:
        """Take other learners' changes, between batches; returns whether the weights changed."""
        return False

    def metrics(self) -> dict[str, Any]:
        """Return metrics of the time since the last call, for a report; ``metrics/registry.py`` describes each."""
        return {}

    def close(self) -> None:
        """Leave the exchange; no other method may be called afterwards. A second call does nothing."""
        return
