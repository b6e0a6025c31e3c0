"""The interface of an algorithm: the batch that it learns from, five methods, and the number `prepared_rows`.

Reads and writes nothing. Algorithms' settings and specs, which exist before an algorithm is made, are in
``settings.py``. The spec says whether the algorithm learns from rollouts or from a replay.

A `Batch` is in action -> outcome order (`processes/batches.py` shifts the rows). Transition t is:

    observation[t] --action[t]--> reward[t], terminated[t], truncated[t], life_lost[t], observation[t+1]

The transition after a game's end is the environment's reset: its action was ignored, `valid` is False, and algorithms
must not learn from it. The same holds while a game waits for the next block, and for actions chosen by weights that
were too old. `observation[t+1]` of a transition that ended a game is the game's final observation.

A minibatch of a replay is a batch of B items. A transition has two rows: row 1 is `n_step` agent steps after row 0, or
at the end of the game. Its observation and first are [2, B, ...], everything else [1, B]. A sequence of L transitions,
for algorithms whose `AlgorithmSpec` sets ``sequences``, has all rows up to the last that a return reaches: [L + n_step,
B, ...] and [L, B]. The reward is the n-step sum of rewards that were clipped one by one. The columns are "discount",
"weight" and "reached", the row at which the return ends (see `q_learning` and `r2d1`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

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
    """The algorithm's columns, [T, B, ...]; with a recurrent network also "state" before row 0, [1, B, S]."""

    @classmethod
    def plain(cls, observation: Tensor, action: Tensor, reward: Tensor, **others: Any) -> Batch:
        """Return a batch whose transitions are valid and have lag 0, without a game's begin or end.

        ``others``: fields with other values, and columns.
        """
        no = reward.new_zeros(reward.shape).bool()
        rows = {"terminated": no, "truncated": no, "life_lost": no, "valid": ~no, "policy_lag": no.long()}
        first = observation.new_zeros(observation.shape[:2]).bool()
        return cls(**{"observation": observation, "action": action, "reward": reward, "first": first, **rows, **others})

    def environments(self, chosen: Tensor) -> Batch:
        """Return the part of the batch with some environments; ``chosen``: indices into the second dimension."""
        # index_select, not [:, chosen]: 256 of 2,048 observations of Atari take 0.2 ms instead of 4.2 on one core.
        return self._changed(lambda tensor: tensor.index_select(1, chosen))

    def parted(self, columns: Mapping[str, Tensor]) -> Batch:
        """Return the batch with these columns and without its last row, as one row of T * B transitions.

        With the column "state" of a recurrent network, which needs the order of transitions, it keeps T rows.
        """
        rows = replace(self, observation=self.observation[:-1], first=self.first[:-1], columns=columns)
        return rows if "state" in columns else rows.transitions()

    def transitions(self) -> Batch:
        """Return the batch as one row of T * B transitions, without their order; observation and first need T rows."""
        return self._changed(lambda tensor: tensor.flatten(0, 1)[None])

    def _changed(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """Return the batch with each tensor replaced by its change."""
        columns = {name: change(column) for name, column in self.columns.items()}
        others = {name: change(getattr(self, name)) for name in Batch.__slots__ if name != "columns"}
        return Batch(**others, columns=columns)


class Algorithm(Protocol):
    """A learning algorithm; pure except for the generator that it receives. It is made from its settings.

    Its only state is that of `KeepsState`, and the parameters of its networks.
    """

    prepared_rows: int
    """Number of rows at the end of a batch whose outputs `prepare` needs; 0: none."""

    def heads(self, actions: Actions) -> dict[str, int]:
        """Return the name and size of each network output; called before a network is made.

        An algorithm can therefore store its actions here, before it acts or learns.
        """

    def columns(self, actions: Actions) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return the columns that `act` writes besides the action: name -> (numpy dtype name, shape of one cell).

        Called once, when the layout of blocks is planned.
        """

    def act(self, outputs: Mapping[str, Tensor], generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        """Choose "action", int64 [N] or [N, k] or float32 [N, n], and the cells of `columns`, from outputs [N, size].

        If the environment has masks, the output "action_mask" of every row is 1 for valid choices, and no other may be
        chosen (``action_mask.py``; `policies.policy` does this).
        Called for each batch of rows, and by evaluators; with `greedy` it draws no random numbers.
        """

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Return the batch from which the epochs learn; it may have other rows and more columns.

        The trainer calls this once for each batch, before its epochs, without gradient. Outputs are
        [prepared_rows, B, size]. Epochs divide the result into minibatches along its second dimension.

        For a minibatch of a replay the outputs are those of all rows but the first: "target.<head>" of the target
        network and, if `prepared_rows`, "<head>" of the network itself.
        """

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss and detached scalar metrics, from outputs [rows, B, size] of one forward pass.

        The trainer calls this for each minibatch of a prepared batch, before `backward`; the rows are those of its
        observation. `progress` is the completed share of `schedule_steps`, in [0, 1], for scheduled values.

        For a minibatch of a replay one metric may have other dimensions: "priority" [1, B], the error of each item.
        A prioritised replay draws items in proportion to a power of it.
        """


@runtime_checkable
class ReadsSomeHeads(Protocol):
    """An algorithm that needs only some outputs for acting; others with a separate trunk are then not computed."""

    def acting_heads(self, actions: Actions) -> Collection[str]:
        """Return the names of the outputs that `act` reads; it may receive others too."""


@runtime_checkable
class KeepsState(Protocol):
    """An algorithm with state besides the weights, such as a moving average, which `loss` or `losses` changes.

    The state is saved in checkpoints and restored. It changes with an optimizer step: if the step is not taken, the
    change is dropped. In mode sync the state becomes the mean of the learners' states at each step, as the gradient is
    the mean of their gradients. With local steps, and in other modes, each learner has its own state.
    """

    state: dict[str, Tensor]
    """Float32 tensors by name, made in ``__init__``; a number is a tensor of shape [].

    `loss` and `losses` change them in place (`copy_`, `add_`, `lerp_`), by detached tensors. A learner moves them to
    its device. `prepare` may read them. `act` gets the initial values, because it is called in other processes."""


@runtime_checkable
class Bootstraps(Protocol):
    """An algorithm whose `loss` uses the outputs of a minibatch's last rows as constants, to bootstrap from."""

    bootstrap_rows: int
    """Number of last rows whose outputs are constants; 0: none. On a CPU no gradient is computed for them."""


Networks = Mapping[str, "Callable[..., Mapping[str, Tensor]]"]
"""Networks by name; each is called with its inputs, observations [N, *shape] and actions [N, n]: {head: [N, size]}.

"actor" chooses actions, extra networks have their own names, and names of target networks begin with "target."."""


@runtime_checkable
class MultiNetworkAlgorithm(Protocol):
    """An algorithm with networks besides its actor, such as critics, and a loss for each network instead of `loss`.

    It has the other methods of an `Algorithm`; `heads` returns the actor's outputs. `losses` calls the networks itself,
    so `prepare` gets no outputs for a minibatch of a replay.
    """

    def extra_networks(self, actions: Actions) -> Mapping[str, ExtraNetwork]:
        """Return the networks besides the actor by name; called after each call of `heads`."""

    def losses(
        self, networks: Networks, batch: Batch, generator: torch.Generator, progress: float
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return a scalar loss for each network, by its name, and detached metrics as `loss` does.

        The gradient of a loss changes only the parameters of its network, even if the loss depends on others. Equal
        generators must give equal results. Passes of target networks have no gradient.
        """
