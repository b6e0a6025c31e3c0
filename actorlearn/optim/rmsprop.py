"""RMSProp in all forms of the papers' code, on a flat vector of parameters.

torch.optim.RMSprop is one of them: ``epsilon_inside_root: false`` and ``accumulator_init: 0``.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from actorlearn.optim.interface import Spread, copy_state, whole
from actorlearn.optim.specs import RMSPropSettings


class RMSProp:
    """RMSProp: a step is the gradient, divided by the root of the running mean of its square.

    If ``centered``, the squared running mean of the gradient is subtracted under the root.
    """

    def __init__(self, settings: RMSPropSettings, parameters: Tensor, spread: Spread = whole) -> None:
        """Make the running means, of the length and on the device of the flat `parameters`.

        ``spread`` may divide a step among several cores (`interface.make`).
        """
        self.settings = settings
        self.spread = spread
        self.square = torch.full_like(parameters, settings.accumulator_init)
        self.mean = torch.zeros_like(parameters if settings.centered else parameters[:0])
        self.root = torch.empty_like(self.square)  # scratch, so that a step allocates nothing

    def step(self, parameters: Tensor, gradients: Tensor, learning_rate: float) -> None:
        """Change the parameters in place by one step."""
        self.spread(lambda part: self._step(parameters, gradients, learning_rate, part), len(parameters))

    @torch.no_grad()
    def _step(self, parameters: Tensor, gradients: Tensor, learning_rate: float, part: slice) -> None:
        settings = self.settings
        parameters, gradients, square, mean, root = (
            vector[part] for vector in (parameters, gradients, self.square, self.mean, self.root)
        )
        square.mul_(settings.decay).addcmul_(gradients, gradients, value=1.0 - settings.decay)
        root.copy_(square)
        if settings.centered:
            mean.lerp_(gradients, 1.0 - settings.decay)
            # A variance of 0 may be rounded to a negative number, whose root would be NaN.
            root.addcmul_(mean, mean, value=-1.0).clamp_(min=0.0)
        if settings.epsilon_inside_root:
            root.add_(settings.epsilon).sqrt_()
        else:
            root.sqrt_().add_(settings.epsilon)
        parameters.addcdiv_(gradients, root, value=-learning_rate)

    def state(self) -> dict[str, Tensor]:
        """Return both running means, without a copy; "mean" is empty unless ``centered``."""
        return {"square": self.square, "mean": self.mean}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy the state of a checkpoint into this optimizer."""
        copy_state(state, self.state())
