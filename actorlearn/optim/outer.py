"""Outer optimizers: what several optimizer steps have come to is taken as one gradient, for a step of its own.

Learners take H steps by themselves and then average their weights. The change from the weights of the last exchange to
this mean is the outer gradient. Reads the mean, writes parameters and its own state; knows no other learner.

    none       the mean itself: local SGD, of which GALA's mixing is a case
    nesterov   DiLoCo (Douillard et al. 2023, arXiv 2311.08105, algorithm 1): 0.7 with momentum 0.9
    momentum   NoLoCo (Kolehmainen et al. 2025, arXiv 2506.10911), its learners in random pairs: 0.7 with momentum 0.5

NoLoCo adds to the outer gradient a pull, gamma, of the weights of a learner's last exchange toward the mean of the
pair's. The paper leaves gamma in a range; its code takes the outer learning rate, as here. Then the two terms together
are the distance to the mean of the pair's present weights, and one message of weights is enough.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from actorlearn.optim.interface import copy_state
from actorlearn.optim.specs import OuterSettings


class Outer:
    """The weights of the last exchange, and the momentum of the outer gradients since the first."""

    def __init__(self, settings: OuterSettings, parameters: Tensor) -> None:
        """Begin at the flat ``parameters``, without momentum; both vectors are on their device."""
        self.settings = settings
        self.anchor = parameters.clone()
        """The weights that the last exchange led to, from which the next local steps began."""
        self.velocity = torch.zeros_like(parameters if settings.rule != "none" else parameters[:0])

    @torch.no_grad()
    def begin(self, parameters: Tensor) -> None:
        """Begin anew at these parameters, with the momentum as it is."""
        self.anchor.copy_(parameters)

    @torch.no_grad()
    def step(self, parameters: Tensor) -> None:
        """Change ``parameters`` in place, from the mean of the learners' to those that all continue from."""
        s = self.settings
        if s.rule != "none":
            gradient = self.anchor - parameters
            self.velocity.mul_(s.momentum).add_(gradient)
            change = self.velocity if s.rule == "momentum" else gradient.add_(self.velocity, alpha=s.momentum)
            torch.sub(self.anchor, change, alpha=s.learning_rate, out=parameters)
        self.anchor.copy_(parameters)

    def state(self) -> dict[str, Tensor]:
        """Return the tensors to save in a checkpoint, not copied."""
        return {"anchor": self.anchor, "velocity": self.velocity}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy a checkpoint's state in; raises ValueError where it is of another model or rule."""
        copy_state(state, self.state())
