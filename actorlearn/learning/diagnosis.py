"""Measures symptoms of learning problems: dead units, constant or huge inputs, rewards of 0, unchanging weights.

Reads rollouts, minibatches and the network; writes nothing. The metrics are judged by the rules in
``launch/reports/health.py``. An update only counts its nonzero rewards. A report also makes one forward pass of a few
rows. For the network of Mnih et al. 2015, a report takes 10 ms on one core of a Xeon of 2023, which is 0.5 % of the
2 seconds between two reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import log

import torch
from torch import Tensor, nn

from actorlearn.actions import Actions, MultiDiscrete
from actorlearn.algorithms.interface import Batch
from actorlearn.models.interface import unroll
from actorlearn.models.masked import without_mask
from actorlearn.observation_parts import ActionMask
from actorlearn.worker.passes import FlatNetwork

ROWS = 256
"""Largest number of observations in the forward pass of a report."""
IMAGE_ROWS = 32
"""The same for observations that are images."""
SATURATED = 0.99
"""Absolute output above which a tanh unit counts as dead: it passes less than 2 % of a gradient."""


class Diagnosis:
    """Measures symptoms of learning problems of one learner, such as dead units, between two reports."""

    def __init__(self, network: FlatNetwork, actions: Actions, mask: ActionMask | None = None) -> None:
        """Observe this network. The largest possible entropy is computed from ``actions`` and the masks."""
        self._network, self._actions, self._mask = network, actions, mask
        self._rewarded: Tensor | int = 0
        """Number of steps with a reward other than 0; kept on the device, so that no update waits for it."""
        self._steps = 0
        self._before: Tensor | None = None
        """Parameters at the last report."""

    def note_rollout(self, rollout: Batch) -> None:
        """Count the rewards and nonzero rewards of a rollout."""
        self._rewarded = self._rewarded + rollout.reward.count_nonzero()
        self._steps += rollout.reward.numel()

    def row(self, batch: Batch, entropy: float | None) -> dict[str, float]:
        """Return the metrics since the last call; makes a forward pass over a part of the newest minibatch, ``batch``.

        ``entropy`` is that of the policy, if it is known.
        """
        row: dict[str, float] = {}
        if self._steps:
            row["rewards_nonzero"] = float(self._rewarded) / self._steps
            self._rewarded = self._steps = 0
        if entropy is not None and (most := most_entropy(self._actions, self._valid_choices(batch))):
            row["entropy_share"] = entropy / most
        return row | self._change() | examine(self._network.module, batch)

    def _valid_choices(self, batch: Batch) -> Tensor | None:
        """Return the masks of valid actions [N, n] of a batch's valid time steps; None if there are none."""
        if self._mask is None or not batch.valid.any():
            return None
        cells = batch.observation[: len(batch.valid), ..., -self._mask.length :]
        return cells[batch.valid] > 0

    def _change(self) -> dict[str, float]:
        """Return the L2 norm of the parameters' change since the last call, divided by the parameters' norm.

        The first call returns an empty dict.
        """
        now, before = self._network.parameters, self._before
        if before is None:
            self._before = now.clone()
            return {}
        change = float(torch.linalg.vector_norm(before.sub_(now)) / torch.linalg.vector_norm(now).clamp(min=1e-30))
        before.copy_(now)
        return {"weights_change": change}


def most_entropy(actions: Actions, valid: Tensor | None = None) -> float | None:
    """Return the largest entropy that a policy can have, in nats; None for a Box, whose entropy has no upper bound.

    It is the entropy of uniformly distributed actions. With masks ``valid`` [N, n], only valid actions count, and the
    result is the mean over the N rows.
    """
    if isinstance(actions, tuple):
        return None
    sizes = actions.sizes if isinstance(actions, MultiDiscrete) else (actions,)
    if valid is None:
        return sum(map(log, sizes))
    choices = torch.stack([part.sum(-1) for part in torch.split(valid, list(sizes), -1)]).clamp(min=1)
    return float(choices.float().log().sum(0).mean())


@torch.no_grad()
def examine(module: nn.Module, batch: Batch) -> dict[str, float]:
    """Return metrics of a network and its inputs, from a forward pass over a few observations of a batch.

    The pass draws no random numbers, so it does not change training. A recurrent network passes over whole sequences,
    from the state that is stored with their first time step.
    """
    observation = batch.observation
    rows = IMAGE_ROWS if observation.dim() > 4 else ROWS
    if "state" in batch.columns:  # whole sequences, at least one
        some = max(1, rows // len(observation))
        observation, state, first = observation[:, :some], batch.columns["state"][0][:some], batch.first[:, :some]
    else:
        flat = observation.flatten(0, 1)
        observation, state, first = flat[:: -(-len(flat) // rows) | 1][None], None, None
    seen = without_mask(module, observation.flatten(0, 1))
    constant = (seen == seen[:1]).flatten(1).all(0).float().mean()
    with watched(module) as watch:
        unroll(module, observation, state, first)
    row = {"observations_constant": float(constant)}
    if watch.largest is not None:
        row["inputs_largest"] = float(watch.largest)
    if watch.dead:
        row["dead_units"] = max(float(dead.float().mean()) for dead in watch.dead.values())
    return row


class ForwardWatch:
    """Records inputs of the first layer, and dead units, during one forward pass."""

    def __init__(self) -> None:
        self.largest: Tensor | None = None
        """Largest absolute input of the first layer."""
        self.dead: dict[nn.Module, Tensor] = {}
        """For each activation function of the network, which of its units are dead: bools [units].

        A unit of a convolution is a channel. A ReLU is dead if it is 0 for all rows, a tanh if it is saturated."""

    def before_layer(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        """Record the largest absolute input of the first layer; bytes of images are scaled to numbers from 0 to 1."""
        if self.largest is None:
            read = inputs[0]
            self.largest = read.abs().max() / 255.0 if read.dtype == torch.uint8 else read.float().abs().max()

    def after_function(self, function: nn.Module, inputs: object, output: Tensor) -> None:
        """Record which units are dead for all inputs and, if the function is called repeatedly, in all calls."""
        if output.dim() < 2:
            return
        units = output.transpose(0, 1).flatten(1)
        dead = (units == 0).all(1) if isinstance(function, nn.ReLU) else (units.abs() > SATURATED).all(1)
        before = self.dead.get(function)
        self.dead[function] = dead if before is None else before & dead


@contextmanager
def watched(module: nn.Module) -> Iterator[ForwardWatch]:
    """Return a context manager that observes the layers of a network in all passes within its ``with`` block."""
    watch, hooks = ForwardWatch(), []
    try:
        for layer in module.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                hooks.append(layer.register_forward_pre_hook(watch.before_layer))
            elif isinstance(layer, nn.ReLU | nn.Tanh):
                hooks.append(layer.register_forward_hook(watch.after_function))
        yield watch
    finally:
        for hook in hooks:
            hook.remove()
