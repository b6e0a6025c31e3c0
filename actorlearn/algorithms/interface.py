"""The interface of an algorithm: the batch that it learns from, and five methods with the number `prepared_rows`.

Reads and writes nothing. An algorithm's settings and spec, known before it is made, are in ``settings.py``; its spec
says whether it learns from rollouts or from a replay.

A `Batch` is in action -> outcome order (the shift from rows is done once, in `processes/batches.py`). Transition t is:

    observation[t] --action[t]--> reward[t], terminated[t], truncated[t], life_lost[t], observation[t+1]

The transition after a game's end is the environment's reset: its action was ignored, `valid` is False, and it counts
for nothing. The same is true while a game waits for the next block, and of actions that were chosen by weights too old.
`observation[t+1]` of a transition that ended a game is the game's final observation.

A minibatch of a replay is a batch of B items. A transition has two rows, of which row 1 is `n_step` agent steps after
row 0, or the end of the game: observation and first [2, B, ...], everything else [1, B]. A sequence of L transitions,
for those whose `AlgorithmSpec` says so, has all rows up to the last that a return reaches: [L + n_step, B, ...] and
[L, B]. The reward is the n-step return of rewards clipped one by one, the columns are "discount", "weight" and
"reached", the row at which the return ends (see `q_learning` and `r2d1`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from actorlearn.actions import Actions
    from actorlearn.extra_networks import ExtraNetwork


@dataclass(frozen=True, slots=True)
class Batch:
    """T transitions of B environments, in action -> outcome order, all on one device."""

    observation: Tensor  # [T+1, B, *shape]
    action: Tensor  # [T, B] int64, [T, B, k] int64 of MultiDiscrete, or [T, B, n] float32 of Box
    reward: Tensor  # [T, B] float32, raw or, with normalize_reward, scaled
    terminated: Tensor  # [T, B] bool
    truncated: Tensor  # [T, B] bool
    life_lost: Tensor  # [T, B] bool
    first: Tensor  # [T+1, B] bool: the row's observation is the first of a game
    valid: Tensor  # [T, B] bool
    policy_lag: Tensor  # [T, B] int64: updates by which the acting weights were older than those that learn
    columns: Mapping[str, Tensor] = field(default_factory=dict)
    """The algorithm's own, [T, B, ...]; of recurrent networks also "state" before row 0, [1, B, S]."""

    def environments(self, chosen: Tensor) -> Batch:
        """The part of the batch that some environments made; chosen: indices into the second dimension."""
        # index_select and not [:, chosen]: 256 of 2,048 observations of Atari take 0.2 ms and not 4.2, on one core.
        columns = {name: column.index_select(1, chosen) for name, column in self.columns.items()}
        parts = {name: getattr(self, name).index_select(1, chosen) for name in Batch.__slots__ if name != "columns"}
        return Batch(**parts, columns=columns)

    def parted(self, columns: Mapping[str, Tensor]) -> Batch:
        """The batch with these columns and without its last row, as one row of T * B transitions, to be learned from.

        With the column "state" of a recurrent network, which needs their order, it stays T rows.
        """
        rows = replace(self, observation=self.observation[:-1], first=self.first[:-1], columns=columns)
        return rows if "state" in columns else rows.transitions()

    def transitions(self) -> Batch:
        """The same as one row of T * B transitions, for what needs no order; observation and first must have T rows."""
        columns = {name: column.flatten(0, 1)[None] for name, column in self.columns.items()}
        rows = {name: getattr(self, name).flatten(0, 1)[None] for name in Batch.__slots__ if name != "columns"}
        return Batch(**rows, columns=columns)


class Algorithm(Protocol):
    """A learning algorithm; pure but for the generator it is handed. Constructed from its settings."""

    prepared_rows: int
    """Rows at the end of a batch whose outputs `prepare` needs; 0 = none."""

    def heads(self, actions: Actions) -> dict[str, int]:
        """Name and size of each network output; called by every role that makes a network, before it does.

        So an algorithm has been told its actions before it acts or learns.
        """

    def columns(self, actions: Actions) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Name -> (numpy dtype name, shape of one cell) of what `act` writes besides the action.

        Called once, when the blocks' layout is planned.
        """

    def act(self, outputs: Mapping[str, Tensor], generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        """Choose "action", int64 [N] or [N, k] or float32 [N, n], and the cells of `columns`, from outputs [N, size].

        Called by inference servers for each batch of rows, and by evaluators; `greedy` draws nothing.
        """

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Return the batch that the epochs learn from, which may have other rows and more columns.

        Called by the trainer once for each batch, before its epochs, without gradient; outputs are
        [prepared_rows, B, size]. Epochs are cut into minibatches along the second dimension of what is returned.

        Of a replay's minibatch the outputs are those of all rows but the first: "target.<head>" of the target network
        and, if `prepared_rows`, "<head>" of the network itself.
        """

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the scalar to descend and detached scalar metrics, from outputs [rows, B, size] of one forward pass.

        Called by the trainer for each minibatch of a prepared batch, before `backward`; the rows are those of its
        observation. `progress` is the share of `schedule_steps` that is done, in [0, 1], for scheduled values.

        Of a replay's minibatch one metric may be no scalar: "priority" [1, B], how much each item was wrong, which
        prioritised replay draws by once it has raised it to its exponent.
        """


@runtime_checkable
class ReadsSomeHeads(Protocol):
    """An algorithm that acts by some of its network's outputs: those with a trunk of their own are then left out."""

    def acting_heads(self, actions: Actions) -> Collection[str]:
        """Name the outputs that `act` reads; it gets these at least, and perhaps others."""


@runtime_checkable
class Bootstraps(Protocol):
    """An algorithm whose `loss` takes outputs of a minibatch's last rows for constants: values to bootstrap from."""

    bootstrap_rows: int
    """Number of these rows; 0 = none. On a CPU no gradient is computed for them."""


Networks = Mapping[str, "Callable[..., Mapping[str, Tensor]]"]
"""Networks by name, each called with what it reads, observations [N, *shape] and actions [N, n]: {head: [N, size]}.

"actor" chooses actions, extra networks have their own names, and those of the target network begin with "target."."""


@runtime_checkable
class MultiNetworkAlgorithm(Protocol):
    """An algorithm with networks besides its actor, such as critics, and in place of `loss` a loss for each network.

    It has the other methods of an `Algorithm`; `heads` are the actor's. `losses` calls the networks itself, so
    `prepare` gets no outputs for a replay's minibatch.
    """

    def extra_networks(self, actions: Actions) -> Mapping[str, ExtraNetwork]:
        """Return the networks besides the actor by name; called where `heads` is, after it."""

    def losses(
        self, networks: Networks, batch: Batch, generator: torch.Generator, progress: float
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return a scalar loss for each network, by its name, and detached metrics as `loss` does.

        The gradient of a loss goes to the parameters of its network alone, whatever others it was made with. Equal
        generators draw alike. The target network's passes have no gradient.
        """
