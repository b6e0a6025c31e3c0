"""The interface of an algorithm: the batch that it learns from, five methods, and the number `prepared_rows`.

An algorithm's settings, and its spec, which describes the algorithm without importing it, are in ``settings.py``. The
spec says whether the algorithm learns from rollouts or from a replay buffer ("a replay").

A rollout is a `Batch` of T transitions of B environments. Transition t is:

    observation[t] --action[t]--> reward[t], terminated[t], truncated[t], life_lost[t], observation[t+1]

If transition t ends a game (an episode), `observation[t+1]` is the final observation of this game. The following
transition is the environment's reset, which ignores the action. There `valid` is False, and algorithms must not learn
from it. `valid` is also False while an environment waits for the next rollout, and for actions that were chosen by
weights older than `max_policy_lag` allows.

A minibatch drawn from a replay is a `Batch` of B items. An item is one transition, or a sequence of L transitions for
algorithms whose `AlgorithmSpec` sets ``sequences``. The shapes are:

    item         observation, first   other tensors   observation
    transition   [2, B, ...]          [1, B, ...]     [0]: before the action; [1]: `n_step` agent steps later, or the
                                                      final observation of the game
    sequence     [L + n_step, B, ...] [L, B, ...]     all up to the last from which a return bootstraps

The reward is the sum of up to `n_step` discounted rewards, each clipped before. The columns are "discount" and
"weight", and for sequences "reached" (`q_learning` and `r2d1` describe these columns).
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


PRIORITY = "priority"
"""Name of the metric by which a prioritised replay draws items (`Algorithm.loss`); it is not reported."""


@dataclass(frozen=True, slots=True)
class Batch:
    """T transitions of B environments on one device: `action[t]` led from `observation[t]` to `observation[t+1]`."""

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
    """Further tensors by name, [T, B, ...]: those that `Algorithm.act` or `Algorithm.prepare` returned.

    With a recurrent network also "state" [1, B, S], the network's state before the first observation."""

    @classmethod
    def plain(cls, observation: Tensor, action: Tensor, reward: Tensor, **others: Any) -> Batch:
        """Return a batch in which all transitions are valid and have lag 0, and no game begins or ends.

        ``others`` are further fields, such as ``columns``, or replace these values.
        """
        no = reward.new_zeros(reward.shape).bool()
        rows = {"terminated": no, "truncated": no, "life_lost": no, "valid": ~no, "policy_lag": no.long()}
        first = observation.new_zeros(observation.shape[:2]).bool()
        return cls(**{"observation": observation, "action": action, "reward": reward, "first": first, **rows, **others})

    def environments(self, chosen: Tensor) -> Batch:
        """Return the part of the batch for some environments; ``chosen`` [N]: their indices in the second dimension.

        The indices may be on another device than the batch.
        """
        indices = chosen.to(self.action.device)
        # index_select, not [:, indices]: 256 of 2,048 observations of Atari take 0.2 ms instead of 4.2 on one core.
        return self.map(lambda tensor: tensor.index_select(1, indices))

    def parted(self, columns: Mapping[str, Tensor]) -> Batch:
        """Return the batch with these columns, without its last observation, and flattened to [1, T * B, ...].

        The epochs can then draw minibatches of single transitions. A batch with the column "state" is not flattened,
        because a recurrent network needs the transitions in their order; it stays [T, B, ...].
        """
        rows = replace(self, observation=self.observation[:-1], first=self.first[:-1], columns=columns)
        return rows if "state" in columns else rows.transitions()

    def transitions(self) -> Batch:
        """Return the batch flattened to [1, T * B, ...]; `observation` and `first` must be [T, B], not [T+1, B]."""
        return self.map(lambda tensor: tensor.flatten(0, 1)[None])

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors of the batch, also those of ``columns``, by name."""
        return {**{name: getattr(self, name) for name in Batch.__slots__ if name != "columns"}, **self.columns}

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """Return a batch of the results of ``change`` for each tensor."""
        changed = {name: change(tensor) for name, tensor in self.tensors().items()}
        columns = {name: changed.pop(name) for name in self.columns}
        return Batch(**changed, columns=columns)


class Algorithm(Protocol):
    """A learning algorithm, made from its settings: rules for acting and a loss, as functions of network outputs.

    Network outputs are called heads; ``outputs`` maps the name of each head to a tensor. An algorithm keeps no state
    between calls except the tensors of `KeepsState`, and takes all random numbers from the generator that it is given.
    """

    prepared_rows: int
    """Number of last observations of a batch (of T + 1) whose outputs `prepare` needs; 0: `prepare` needs none."""

    def heads(self, actions: Actions) -> dict[str, int]:
        """Return the name and size of each network output for this action space.

        It is called before all other methods, so an algorithm can store the action space here.
        """

    def columns(self, actions: Actions) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return the columns that `act` returns besides the action: name -> (numpy dtype, shape per environment)."""

    def act(self, outputs: Mapping[str, Tensor], generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        """Choose actions for N environments from outputs [N, size]; with `greedy`, without random numbers.

        Returns "action" and each name in `columns`, [N, ...]. Actions are int64 [N] if the space is Discrete, int64
        [N, k] if it is MultiDiscrete with k parts, and float32 [N, n] if it is a Box of n numbers.

        If the environment has masks of valid actions, the output "action_mask" is 1 for each valid choice, and no other
        may be chosen. `policies.policy` obeys it; ``observation_parts.py`` describes masks.
        """

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Compute what stays constant during the epochs, such as advantages; return the batch that the epochs use.

        It is called once for each batch, before the epochs, without gradient. ``outputs`` [prepared_rows, B, size]
        belong to the last observations. The result may have more columns and another first dimension than
        ``batch``. Each epoch divides it into minibatches along the second dimension.

        For a minibatch from a replay, ``outputs`` belong to all observations but the first: "target.<head>" from the
        target network and, if `prepared_rows` is not 0, "<head>" from the network itself.
        """

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Return the scalar loss of a minibatch, and metrics by name, which are detached scalars.

        `lazy_metrics.LazyMetrics` computes them only if they are read.

        ``outputs`` come from one forward pass on all observations of the minibatch, and have the same first two
        dimensions. `progress`, from 0 to 1, is the completed share of `schedule_steps`; values that change along the
        run are computed from it. On a GPU it may be a tensor of shape [] (`learning.losses.CapturedLoss`).

        For a minibatch from a replay, the metric "priority" may be [1, B]: the error of each item. A prioritised replay
        draws an item with a probability in proportion to a power of its priority.
        """


@runtime_checkable
class ReadsSomeHeads(Protocol):
    """An algorithm whose `act` reads only some outputs.

    When acting, a network with a separate encoder for each output then computes only these. Other networks compute all
    outputs.
    """

    def acting_heads(self, actions: Actions) -> Collection[str]:
        """Return the names of the outputs that `act` reads; `act` may receive other outputs too."""


@runtime_checkable
class KeepsState(Protocol):
    """An algorithm with state besides the weights, such as a moving average, which `loss` or `losses` changes.

    Checkpoints include the state. If an optimizer step is skipped, for example because its gradient is not finite, its
    change of the state is undone. In mode sync the states of all learners are averaged at every optimizer step, as
    their gradients are. With local steps, and in other modes, each learner has its own state.
    """

    state: dict[str, Tensor]
    """Float32 tensors by name, made in ``__init__``; the tensor of a single number has shape [].

    `loss` and `losses` change the tensors in place (`copy_`, `add_`, `lerp_`), by detached tensors. The trainer moves
    them to its device. `prepare` may read them. `act` sees the initial values, because other processes call it."""


@runtime_checkable
class Bootstraps(Protocol):
    """An algorithm whose `loss` only bootstraps from the last observations, and needs no gradient of their outputs."""

    bootstrap_rows: int
    """Number of these observations; 0: none. On a CPU, a forward pass without gradient for them saves time."""


Networks = Mapping[str, "Callable[..., Mapping[str, Tensor]]"]
"""Networks by name. Calling one with observations [N, *shape], actions [N, n], or both, returns {head: [N, size]}.

"actor" is the network that chooses actions. Extra networks have the names that `extra_networks` returns. The target
network of NAME is "target.NAME"."""


@runtime_checkable
class MultiNetworkAlgorithm(Protocol):
    """An algorithm with several networks: an actor, which chooses actions, and others, such as critics.

    It has the methods of an `Algorithm`, with `losses` instead of `loss`; `heads` returns the actor's outputs. `losses`
    calls the networks itself, so `prepare` gets no outputs for a minibatch from a replay.
    """

    def extra_networks(self, actions: Actions) -> Mapping[str, ExtraNetwork]:
        """Return descriptions of the networks besides the actor, by name; called after each call of `heads`."""

    def losses(
        self, networks: Networks, batch: Batch, generator: torch.Generator, progress: float
    ) -> tuple[dict[str, Tensor], Mapping[str, Tensor]]:
        """Return a scalar loss for each network by name, and detached metrics as `Algorithm.loss` does.

        The gradient of a loss changes only the parameters of the network of the same name, even if the loss depends on
        other networks too. Target networks compute no gradient. Random numbers come only from ``generator``.
        """
