"""Algorithms with state besides the weights: those that declare it, and those that do not."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.returns import mean_over
from actorlearn.algorithms.sac import SAC

Outputs = Mapping[str, Tensor]
Loss = tuple[Tensor, dict[str, Tensor]]
RATE = 0.1
TIMES: list[int] = []


class Declares(A2C):
    """Subtracts a moving average of rewards, which it declares, and counts its updates."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.state = {"baseline": torch.zeros(()), "updates": torch.zeros(2)}

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> Loss:
        found = super().loss(outputs, replace(batch, reward=batch.reward - self.state["baseline"]), progress)
        self.state["baseline"].lerp_(mean_over(batch.valid, batch.reward), RATE)
        self.state["updates"] += 1
        return found


class Hides(A2C):
    """Subtracts a moving average of rewards, which it does not declare."""

    baseline = 0.0

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> Loss:
        found = super().loss(outputs, replace(batch, reward=batch.reward - self.baseline), progress)
        self.baseline += RATE * (float(mean_over(batch.valid, batch.reward)) - self.baseline)
        return found


class DeclaresMore(Declares):
    """Has a state of which a checkpoint of its base class knows nothing."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.state["more"] = torch.zeros(3)


class Replaces(Declares):
    """Replaces a tensor of its state, so that the one that is saved stays as it was."""

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> Loss:
        found = super().loss(outputs, replace(batch, reward=batch.reward - self.state["baseline"]), progress)
        self.state["baseline"] = self.state["baseline"] + mean_over(batch.valid, batch.reward)
        return found


class Counts(A2C):
    """Counts in a list of its own; the loss does not depend on the count for a long time."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.inner = {"numbers": [count(), 0]}

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> Loss:
        loss, metrics = super().loss(outputs, batch, progress)
        return (loss * 2 if next(self.inner["numbers"][0]) > 1_000 else loss), metrics


class CountsForAll(A2C):
    """Counts in its module."""

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> Loss:
        loss, metrics = super().loss(outputs, batch, progress)
        TIMES.append(1)
        return loss * len(TIMES), metrics


class Draws(A2C):
    """Draws from the global generator of torch."""

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> Loss:
        loss, metrics = super().loss(outputs, batch, progress)
        return loss * (1 + torch.rand(())), metrics


class DrawsFromPython(A2C):
    """Draws from the global generator of Python and numpy."""

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> Loss:
        loss, metrics = super().loss(outputs, batch, progress)
        return loss * (1 + random.random() + np.random.rand()), metrics


class DrawsFromItsOwn(A2C):
    """Draws from a generator of its own."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.chance = torch.Generator().manual_seed(0)

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> Loss:
        loss, metrics = super().loss(outputs, batch, progress)
        return loss * (1 + torch.rand((), generator=self.chance)), metrics


class CountsActions(A2C):
    """Counts how often it acts, which is never saved."""

    acted = 0

    def act(self, outputs: Outputs, generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        self.acted += 1
        return super().act(outputs, generator, greedy)


class HiddenTemperature(SAC):
    """Has several networks, and scales their losses by a sum that it hides."""

    def losses(self, networks: Any, batch: Batch, *rest: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        losses, metrics = super().losses(networks, batch, *rest)
        self.total = getattr(self, "total", 1.0) + float(batch.reward.abs().mean())
        return {name: loss * self.total for name, loss in losses.items()}, metrics


class Caches(A2C):
    """Keeps a constant that it computes once."""

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> Loss:
        if not hasattr(self, "one"):
            self.one = torch.ones(3)
        loss, metrics = super().loss(outputs, batch, progress)
        return loss * self.one.mean(), metrics


class Prepares(Declares):
    """Changes its state where a batch is prepared."""

    def prepare(self, batch: Batch, outputs: Outputs) -> Batch:
        self.state["updates"] += 1
        return super().prepare(batch, outputs)


class Acts(Declares):
    """Changes its state where it acts."""

    def act(self, outputs: Outputs, generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        self.state["updates"] += 1
        return super().act(outputs, generator, greedy)


class DeclaresNumbers(A2C):
    """Declares a number that is no tensor."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.state = {"baseline": 0.0}


class DeclaresMuch(A2C):
    """Declares more numbers than the network has weights."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.state = {"table": torch.zeros(1_000_000)}


class KeepsGradients(Declares):
    """Changes its state by a tensor with a gradient."""

    def loss(self, outputs: Outputs, batch: Batch, progress: float) -> Loss:
        found = super().loss(outputs, batch, progress)
        self.state["baseline"].lerp_(outputs["value"].mean(), RATE)
        return found


HIDDEN = {
    Hides: "an update changes the algorithm's attribute baseline, and checkpoints do not contain it; declare it in",
    Counts: "an update changes the algorithm's attribute inner, ",
    DrawsFromItsOwn: "an update changes the algorithm's attribute chance, ",
    CountsActions: "an update changes the algorithm's attribute acted, ",
    HiddenTemperature: "an update changes the algorithm's attribute total, ",
    CountsForAll: "a second object with the same declared state learns differently",
    Replaces: "a second object with the same declared state learns differently",
    Draws: "an update draws from a global random generator",
    DrawsFromPython: "an update draws from a global random generator",
}
"""Algorithms that a resumed run would not continue exactly, and the reason that is given."""
REFUSED = {
    Prepares: "prepare changes the algorithm's state 'updates'; only loss or losses may change it",
    Acts: "act changes the algorithm's state 'updates'; only loss or losses may change it",
    DeclaresNumbers: "the algorithm's state is {'baseline': 0.0}; it must map names to float32 tensors",
    KeepsGradients: "the algorithm's state has a gradient; change it in place, with detached tensors",
}
"""Algorithms that are refused, and the reason that is given."""
