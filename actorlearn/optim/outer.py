"""Outer optimizers: they treat the result of several optimizer steps as one gradient, and take a step with it.

Learners take H steps alone and then average their weights. The change from the weights of the last exchange to this
mean is the outer gradient. Reads the mean; writes parameters and its state.

    none       the mean itself: local SGD, of which GALA's mixing is a case
    nesterov   DiLoCo (Douillard et al. 2023, arXiv 2311.08105, algorithm 1): rate 0.7 with momentum 0.9
    momentum   NoLoCo (Kolehmainen et al. 2025, arXiv 2506.10911), learners in random pairs: rate 0.7 with momentum 0.5

NoLoCo adds a term to the outer gradient, with the factor gamma: the distance from the weights of a learner's last
exchange to the pair's mean of these. The paper gives a range for gamma; its code uses the outer learning rate, as here.
The two terms together are then the distance to the mean of the pair's present weights, and one message with weights is
enough.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from actorlearn.optim.interface import copy_state
from actorlearn.optim.specs import OuterSettings


class Outer:
    """The weights after the last exchange, and the momentum of the outer gradients."""

    def __init__(self, settings: OuterSettings, parameters: Tensor) -> None:
        """Begin at the flat ``parameters``, without momentum; both vectors are on their device."""
        self.settings = settings
        self.anchor = parameters.clone()
        """The weights after the last exchange, from which the next local steps began."""
        self.velocity = torch.zeros_like(parameters if settings.rule != "none" else parameters[:0])

    @torch.no_grad()
    def begin(self, parameters: Tensor) -> None:
        """Begin again at these parameters, with the present momentum."""
        self.anchor.copy_(parameters)

    @torch.no_grad()
    def step(self, parameters: Tensor) -> None:
        """Change ``parameters`` in place, from the mean of the learners' weights to the weights after the exchange."""
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
        """Copy a checkpoint's state into this one; raises ValueError for another model or rule."""
        copy_state(state, self.state())
