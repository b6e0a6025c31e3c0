"""Policies: distributions over actions that are computed from network outputs.

A policy is a softmax for Discrete actions, one softmax for each part of MultiDiscrete actions, and a Gaussian for Box
actions. If the network has the output "action_mask", invalid choices get probability 0 (``observation_parts.py``). The
leading dimensions, written as …, are [N] when acting and [T, B] when learning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import log, pi

import torch
from torch import Tensor

from actorlearn.actions import Actions
from actorlearn.algorithms.interface import Batch
from actorlearn.observation_parts import MASK

LEAST = -1e9
"""Logit or value of an invalid action. Its probability is exactly 0, and 0 times its finite logarithm is not NaN."""


def without_invalid(outputs: Mapping[str, Tensor], scores: Tensor) -> Tensor:
    """Return ``scores`` (logits or values, […, A]) with `LEAST` for each action that the outputs' mask forbids."""
    mask = outputs.get(MASK)
    return scores if mask is None else scores.masked_fill(mask == 0, LEAST)


def heads(actions: Actions) -> dict[str, int]:
    """Return the names and sizes of the network outputs from which `policy` makes a distribution."""
    if isinstance(actions, tuple):
        return {"mean": actions[0], "log_std": actions[0]}
    return {"logits": actions if isinstance(actions, int) else sum(actions.sizes)}


def policy(outputs: Mapping[str, Tensor], parts: Sequence[int] = ()) -> ActionDistribution:
    """Return the distribution that these outputs describe; `parts`: number of choices of each MultiDiscrete part."""
    if "logits" in outputs:
        logits = without_invalid(outputs, outputs["logits"])
        return MultiCategorical(logits, parts) if parts else Categorical(logits)
    return Gaussian(outputs["mean"], outputs["log_std"])


def played_actions(batch: Batch) -> Tensor:
    """Return a batch's actions, with 0 for invalid transitions.

    Actions of invalid transitions may be arbitrary numbers, which would be wrong indices or give NaN.
    """
    valid = batch.valid.view(*batch.valid.shape, *[1] * (batch.action.ndim - batch.valid.ndim))
    return batch.action.where(valid, 0)


class Categorical:
    """The distribution softmax(logits) over actions 0 … A-1, for logits […, A]."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    @cached_property
    def log_policy(self) -> Tensor:
        """Logarithms of all probabilities […, A]."""
        return self.logits.log_softmax(-1)

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw an action from each distribution: int64 […].

        If e ~ Exponential(1) for each action, argmax(p / e) has distribution p. It equals argmax(logits - log e),
        because the softmax's denominator does not change the argmax. This needs no softmax and, unlike
        torch.multinomial, does not wait for the device.
        """
        noise = torch.empty_like(self.logits).exponential_(generator=generator)
        return (self.logits - noise.log_()).argmax(-1)

    def greedy(self) -> Tensor:
        """Return the most probable actions, int64 […]; of equally probable ones the first."""
        return self.logits.argmax(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Return the logarithm of each action's probability: […]."""
        return self.log_policy.gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy -sum p log p in nats: […]."""
        return -(self.log_policy.exp() * self.log_policy).sum(-1)


class MultiCategorical:
    """Distribution of a MultiDiscrete action: an independent softmax for each of its k parts."""

    def __init__(self, logits: Tensor, sizes: Sequence[int]) -> None:
        """Use logits […, sum of ``sizes``], those of part 0 first; ``sizes``: number of choices of each part."""
        self.parts = [Categorical(of_part) for of_part in torch.split(logits, list(sizes), -1)]

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw an action from each distribution: int64 […, k]."""
        return torch.stack([part.sample(generator) for part in self.parts], -1)

    def greedy(self) -> Tensor:
        """Return the most probable choice of each part: int64 […, k]."""
        return torch.stack([part.greedy() for part in self.parts], -1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Return the logarithm of each action's probability, […]: the sum over its parts."""
        chosen = zip(self.parts, action.unbind(-1), strict=True)
        return torch.stack([part.log_prob(choice) for part, choice in chosen], -1).sum(-1)

    def entropy(self) -> Tensor:
        """Return the entropy in nats, […]: the sum over the parts of an action."""
        return torch.stack([part.entropy() for part in self.parts], -1).sum(-1)


class Gaussian:
    """Independent normal distributions of the n numbers of a Box action.

    A drawn action may be outside the bounds of the Box, and the environment then clips it. The recorded action and its
    density are those before clipping.
    """

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        """Use means and logarithms of the standard deviations, each […, n]."""
        self.mean = mean
        self.log_std = log_std

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw an action from each distribution: float32 […, n]."""
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        return self.mean + self.log_std.exp() * noise

    def greedy(self) -> Tensor:
        """Return the means, […, n]."""
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        """Return the logarithm of each action's density: […]."""
        distance = (action - self.mean) * (-self.log_std).exp()  # number of standard deviations
        return -(0.5 * distance.square() + self.log_std + 0.5 * log(2.0 * pi)).sum(-1)

    def entropy(self) -> Tensor:
        """Return the differential entropy in nats: […]."""
        return (self.log_std + 0.5 * (1.0 + log(2.0 * pi))).sum(-1)


ActionDistribution = Categorical | MultiCategorical | Gaussian
"""A distribution of actions for each observation."""
