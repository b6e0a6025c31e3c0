"""Outer optimizers, for several learners that exchange weights only after several optimizer steps of their own.

At an exchange the learners average their weights. The difference between the weights after the last exchange and this
mean is the outer gradient, with which the outer optimizer takes a step. The rules are:

    none       the weights become the mean (local SGD; GALA's mixing is an example)
    nesterov   Nesterov momentum, as in DiLoCo (Douillard et al. 2023, arXiv 2311.08105, algorithm 1), which has a
               learning rate of 0.7 and momentum 0.9
    momentum   as in NoLoCo (Kolehmainen et al. 2025, arXiv 2506.10911), in which random pairs of learners exchange,
               with a learning rate of 0.7 and momentum 0.5

NoLoCo's outer gradient has a second term: gamma times the distance from a learner's weights after its last exchange to
the mean of both learners' weights after their last exchanges. The paper gives a range for gamma. The paper's code and
this module use the outer learning rate as gamma. The two terms then add up to the distance to the mean of both
learners' present weights, so a single message of weights is enough.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from actorlearn.optim.interface import copy_state
from actorlearn.optim.specs import OuterSettings


class Outer:
    """The outer optimizer of one learner; its state is the weights after the last exchange, and the momentum."""

    def __init__(self, settings: OuterSettings, parameters: Tensor) -> None:
        """Begin at the flat ``parameters``, without momentum; the state is on the same device."""
        self.settings = settings
        self.anchor = parameters.clone()
        """The weights after the last exchange, from which the next local steps began."""
        self.velocity = torch.zeros_like(parameters if settings.rule != "none" else parameters[:0])

    @torch.no_grad()
    def begin(self, parameters: Tensor) -> None:
        """Begin local steps from these parameters instead of those after the last exchange; the momentum is kept."""
        self.anchor.copy_(parameters)

    @torch.no_grad()
    def step(self, parameters: Tensor) -> None:
        """Replace ``parameters``, the mean of the learners' weights, in place by the weights after an outer step."""
        s = self.settings
        if s.rule != "none":
            gradient = self.anchor - parameters
            self.velocity.mul_(s.momentum).add_(gradient)
            change = self.velocity if s.rule == "momentum" else gradient.add_(self.velocity, alpha=s.momentum)
            torch.sub(self.anchor, change, alpha=s.learning_rate, out=parameters)
        self.anchor.copy_(parameters)

    def state(self) -> dict[str, Tensor]:
        """Return the tensors to save in a checkpoint, without a copy."""
        return {"anchor": self.anchor, "velocity": self.velocity}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy a checkpoint's state into this one; raises ValueError if it is of another network or rule."""
        copy_state(state, self.state())
