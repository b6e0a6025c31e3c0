"""Policies as distributions over actions, given by network outputs: softmax over choices, Gaussian over Box actions.

Reads outputs by head. With the output "action_mask" the policy has only the valid choices (``action_mask.py``). The
leading dimensions, written as …, are [N] when acting and [rows, B] when learning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import log, pi

import torch
from torch import Tensor

from actorlearn.action_mask import MASK
from actorlearn.actions import Actions
from actorlearn.algorithms.interface import Batch

LEAST = -1e9
"""Logit or value of an invalid action. Its probability is exactly 0, and 0 times its finite logarithm is not NaN."""


def without_invalid(outputs: Mapping[str, Tensor], scores: Tensor) -> Tensor:
    """Return logits or values […, A] in which the actions that the outputs' mask forbids have `LEAST`."""
    mask = outputs.get(MASK)
    return scores if mask is None else scores.masked_fill(mask == 0, LEAST)


def heads(actions: Actions) -> dict[str, int]:
    """Return the name and size of each output of a policy."""
    if isinstance(actions, tuple):
        return {"mean": actions[0], "log_std": actions[0]}
    return {"logits": actions if isinstance(actions, int) else sum(actions.sizes)}


def policy(outputs: Mapping[str, Tensor], parts: Sequence[int] = ()) -> ActionDistribution:
    """Return the policy of these outputs; `parts`: numbers of choices of a MultiDiscrete action's parts."""
    if "logits" in outputs:
        logits = without_invalid(outputs, outputs["logits"])
        return MultiCategorical(logits, parts) if parts else Categorical(logits)
    return Gaussian(outputs["mean"], outputs["log_std"])


def played_actions(batch: Batch) -> Tensor:
    """Return the actions of a batch, with 0 for invalid transitions, whose actions may be any numbers."""
    valid = batch.valid.view(*batch.valid.shape, *[1] * (batch.action.ndim - batch.valid.ndim))
    return batch.action.where(valid, 0)


class Categorical:
    """softmax(logits) over actions 0 … A-1."""

    def __init__(self, logits: Tensor) -> None:
        """Use logits […, A]."""
        self.logits = logits

    @cached_property
    def log_policy(self) -> Tensor:
        """Logarithms of all probabilities […, A]."""
        return self.logits.log_softmax(-1)

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw one action per row: int64 […].

        argmax(p / e) with e ~ Exponential(1) has distribution p. With logarithms no softmax is needed, because a
        constant per row does not change the argmax. This takes four small operations, and unlike torch.multinomial it
        does not wait for the device.
        """
        noise = torch.empty_like(self.logits).exponential_(generator=generator)
        return (self.logits - noise.log_()).argmax(-1)

    def greedy(self) -> Tensor:
        """Return the most probable action of each row; of equal ones that with the lowest index."""
        return self.logits.argmax(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Return the logarithm of each action's probability: […]."""
        return self.log_policy.gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return -sum p log p of each row, in nats: […]."""
        return -(self.log_policy.exp() * self.log_policy).sum(-1)


class MultiCategorical:
    """Independent softmaxes over the choices of each of k parts of an action."""

    def __init__(self, logits: Tensor, sizes: Sequence[int]) -> None:
        """Use logits […, sum of sizes], those of part 0 first."""
        self.parts = [Categorical(of_part) for of_part in torch.split(logits, list(sizes), -1)]

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw one action per row, part by part: int64 […, k]."""
        return torch.stack([part.sample(generator) for part in self.parts], -1)

    def greedy(self) -> Tensor:
        """Return the most probable choice of each part."""
        return torch.stack([part.greedy() for part in self.parts], -1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Return the logarithm of each action's probability: the sum over its parts."""
        chosen = zip(self.parts, action.unbind(-1), strict=True)
        return torch.stack([part.log_prob(choice) for part, choice in chosen], -1).sum(-1)

    def entropy(self) -> Tensor:
        """Return the entropy of each row: the sum over its parts."""
        return torch.stack([part.entropy() for part in self.parts], -1).sum(-1)


class Gaussian:
    """Independent normal distributions over the n numbers of a Box action, which may be outside its bounds.

    The environment clips actions; the recorded action and its density are those before clipping.
    """

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        """Use means and logarithms of the standard deviations, each […, n]."""
        self.mean = mean
        self.log_std = log_std

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw one action per row: float32 […, n]."""
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        return self.mean + self.log_std.exp() * noise

    def greedy(self) -> Tensor:
        """Return the means."""
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        """Return the logarithm of each action's density: […]."""
        distance = (action - self.mean) * (-self.log_std).exp()  # in standard deviations
        return -(0.5 * distance.square() + self.log_std + 0.5 * log(2.0 * pi)).sum(-1)

    def entropy(self) -> Tensor:
        """Return the differential entropy of each row, in nats: […]."""
        return (self.log_std + 0.5 * (1.0 + log(2.0 * pi))).sum(-1)


ActionDistribution = Categorical | MultiCategorical | Gaussian
"""The distribution of actions for each row of some outputs."""
