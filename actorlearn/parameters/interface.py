"""The interface of an exchange, the part of a learner that turns its gradient into new weights.

Each mode has its own exchange: alone, sync (Stooke & Abbeel 2018, section 4.2), async (section 4.3) and gossip (Assran
et al. 2019). Except in mode alone, it combines gradients or weights with those of other learners. An update
(``learning/update.py``) calls the same methods in the same order in every mode.

torch is imported for the type checker only, because processes without torch import this module.
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
"""Largest number of integers that `Carried.counts` may return."""


class Present(NamedTuple):
    """The learners that are in the run now, as the supervisor has listed them last."""

    learners: Sequence[int] = ()
    """Numbers of the learners."""
    stays: bool = True
    """Whether learners stay until the run ends. It is False while the run ends, when learners leave as they finish."""


class Carried:
    """State of a replay that learners exchange besides weights and optimizer state; this base class has none."""

    together = 0
    """Number of learners in mode sync. Each of them takes the optimizer steps that are due for the environment steps of
    all. 0: each learner takes only those due for its own steps."""

    @property
    def shared_tensors(self) -> Sequence[Tensor]:
        """Tensors that are equal in all learners in mode sync without local steps. A joining learner may copy them."""
        return ()

    def counts(self) -> Sequence[int]:
        """Return at most CARRIED_COUNTS integers, which learners send each other when they join."""
        return ()

    def adopt(self, counts: NDArray[np.int64], best: int) -> None:
        """Continue from the counts of joining learners, ``counts`` [learners, n].

        ``best`` is the rank of the learner whose weights all learners take.
        """

    def keep(self) -> None:
        """Record that the optimizer steps taken so far are final. `go_back` returns to the state before the next one.

        An exchange calls it if it may undo later steps.
        """

    def go_back(self) -> None:
        """Return to the state before the first minibatch since `keep`, because its step was undone."""


@dataclass(frozen=True, slots=True)
class Learner:
    """The parts of a learner that its exchange uses."""

    optimizer: OptimizerSettings
    """Settings of the optimizer and of its parameter groups."""
    weights: Tensor
    """The flat vector of all weights: parameters, then statistics of normalisation."""
    gradients: Tensor
    """The flat vector of gradients, as long as the parameters."""
    alive: Callable[[], bool] = lambda: True
    """Called at least every 50 ms while the exchange waits for others; returns False if it must stop waiting."""
    present: Callable[[], Present] = Present
    """Mode gossip: returns the present learners."""
    warn: Callable[[str], None] = lambda text: None
    """Mode gossip: reports a problem of another learner to the user."""
    number: int = 0
    """This learner's number, which never changes; its rank is its index among the learners that have joined."""
    consumed: Consumed = field(default_factory=lambda: Consumed(1))
    """Table of the experience, by the number of each learner, from which the weights have learned."""
    spread: Spread = whole
    """Divides the work of an optimizer step among this learner's cores."""
    endpoints: Endpoints | None = None
    """Addresses of the processes on all machines of the run; None if all learners are on one machine."""
    carried: Carried = field(default_factory=Carried)
    """State of the learner's source of minibatches."""
    outer: Outer | None = None
    """Modes sync and gossip: the outer optimizer, which computes new weights from the mean of the learners' weights;
    None = the mean is the new weights."""
    state: Tensor | None = None
    """State of the algorithm (`KeepsState`) as one flat vector, which the learner changes after each step; None if it
    has none."""
    networks: Mapping[str, slice] = field(default_factory=dict)
    """Range of each network's parameters in the flat vector; empty if there is only one network
    (``optim/groups.py``)."""


NEAR_END = 10
"""Learners begin to ask for exact counts of steps when each has at most this many batches left, so that the run ends in
time."""


class PeerLost(RuntimeError):
    """Another learner died or left during a joint operation, which then has no effect on any learner."""


class Stopped(RuntimeError):
    """A wait for other learners or parameter servers was broken off, usually because this process was told to end."""


class Disagreement(RuntimeError):
    """Learners in mode sync have different weights."""


class Stepped(NamedTuple):
    """Result of one optimizer step (`Exchange.step`)."""

    norm: float
    """L2 norm of the gradient before clipping."""
    taken: bool
    """Whether the step was taken. If not, the loss or the gradient was not finite, in this learner or, in mode sync, in
    another one."""


class Agreed(NamedTuple):
    """Result of `Exchange.agree` for the next batch. In mode sync all learners get the same values, except ``idle``."""

    env_steps: int
    """Number of environment steps that all learners together have learned from when this batch is done."""
    updates: int
    """Number of updates of all learners when this batch is done. In mode sync, the batches of all learners together
    count as one update."""
    draining: bool
    """Whether this learner or, in mode sync, any learner is leaving, so that this batch is not learned from."""
    idle: int = 0
    """Number of optimizer steps for which this learner has no minibatch; it calls `step` for these first.

    In mode sync all learners take as many steps as the learner with the most remaining minibatches."""


class Joined(NamedTuple):
    """Step counts that belong to the weights with which a learner has joined the others (`Exchange.join`)."""

    env_steps: int
    """Number of environment steps of all learners that these weights have learned from."""
    updates: int
    """Number of updates of all learners that these weights contain."""
    position: Position | None = None
    """The position from which this learner continues with these weights; None if it is not known.

    The weights have learned from the rollouts before it, and from ``used`` of this learner's environment steps at most.
    So no rollout is learned from twice, and steps that were lost at a restart can be counted."""


class Exchange(ABC):
    """Turns one learner's gradients into new weights. It has the optimizer, and changes the flat weights in place.

    A mode must implement the abstract methods. They are called in this order: once `restore` and `join`; for each batch
    `agree`, `merge` if observations are normalised, `step` for each minibatch, and `settle`. The other methods are
    implemented here for a mode in which learners do not wait for each other.
    """

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's state, for a checkpoint."""

    @abstractmethod
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore the optimizer's state from a checkpoint; called before `join`."""

    @abstractmethod
    def join(self, env_steps: int, updates: int, position: Position = BEGINNING) -> Joined:
        """Take over the weights and optimizer state that learners share; called once, before the first batch.

        The arguments are those of this learner's checkpoint: environment steps and updates of all learners (0, 0 for a
        new run), and the rollout from which this learner continues.
        """

    @abstractmethod
    def agree(
        self, env_steps: int, optimizer_steps: int, position: Position = BEGINNING, draining: bool = False
    ) -> Agreed:
        """Announce the next batch to the other learners, and return the counts of all. In mode sync it waits for all.

        The batch has `env_steps` environment steps of this learner, and `step` will be called `optimizer_steps` times.
        `position.rollout` is the number of the batch's rollout. If `draining`, this learner leaves and does not learn
        from a batch; in modes in which learners do not wait for each other, it gets the newest counts, and weights that
        have learned from all counted steps if learners share them, except local steps that other learners have not
        exchanged yet. Raises PeerLost, Stopped and Disagreement.
        """

    @abstractmethod
    def merge(self, moments: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Merge the moments of a batch's observations into the statistics, which are the last elements of the weights.

        It is called once for each batch, after `agree`, also if the batch is interrupted later and continued.
        `combine(statistics, moments)` merges one learner's moments in place. In mode sync it is called for the moments
        of every learner, in the same order in all learners.
        """

    @abstractmethod
    def step(self, gradients: Tensor, learning_rates: Sequence[float], usable: bool = True) -> Stepped:
        """Take one optimizer step with the flat vector `gradients`, which may be overwritten.

        There is a learning rate for each parameter group (``optim/groups.py``); with one network there is one group.
        `usable` is False if the loss was not finite.
        """

    def mean(self, numbers: Tensor) -> Tensor:
        """Return the mean of a vector over the learners that take the next step together; called before `step`.

        In mode sync all learners must call it, and get the same mean. In other modes it returns `numbers`.
        """
        return numbers

    @abstractmethod
    def settle(self) -> None:
        """Count a batch as learned, after its last step, and send results that other learners do not have yet."""

    early = False
    """Whether the learner calls `bring` before `agree`, so that `agree` can also send the first moments or gradient.

    Learners on several machines thus save a network round trip."""

    def bring(self, moments: Tensor | None = None, gradients: Tensor | None = None) -> None:
        """Take the argument of the first `merge` or, without a `merge`, of the first `step`, before `agree` is called.

        It is called only if `early`. If the loss is not finite, the gradient is set to nan.
        """
        return

    saving = False
    """Whether this learner's next checkpoint is due by time, for a new best score or on request; set before `agree`.

    In mode sync, `agree` sets it if a checkpoint is due for any learner, so that all save at the same update."""
    saves = 0
    """Number of saves requested so far, as this learner knows it; set before `agree`.

    In mode sync, `agree` sets it to the highest number that a learner knows, because all save together."""

    def ending(self, asked: bool) -> bool:
        """Return whether to stop a batch before its last step. `asked`: this learner was told to end.

        Called between two optimizer steps. In mode sync all learners stop at the same step. Raises PeerLost and
        Stopped.
        """
        return asked

    def break_off(self) -> None:
        """Undo local steps that were not exchanged; called when a batch is stopped before its last step.

        Only mode sync undoes them: the batch later continues from the last exchange.
        """
        return

    def learned(self, end_steps: int) -> int:
        """Return the newest known number of environment steps that all learners have learned from.

        It is called before each batch, and does not change the weights. In modes where `agree` returns exact counts,
        the result is 0. Near `end_steps`, the last step of the run, learners that do not share memory send each other
        their counts more often, so that they end in time.
        """
        return 0

    def shared_changes(self) -> int:
        """Return how many changes to weights that learners share this learner's weights contain, by all learners.

        Of several checkpoints with the same environment steps, a run continues from the one with the most. The result
        is 0 if no weights are shared, or if each learner's changes are in the shared weights before it counts them.
        """
        return 0

    def pull(self) -> bool:
        """Fetch other learners' changes of the weights between two batches; returns whether the weights changed."""
        return False

    def metrics(self) -> dict[str, Any]:
        """Return metrics for a report, since the last call; ``metrics/registry.py`` describes each."""
        return {}

    def close(self) -> None:
        """Leave the other learners. No other method may be called afterwards; a second call does nothing."""
        return
