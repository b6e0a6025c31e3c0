"""Categorical DQN, "C51": a distribution of the return for each action (Bellemare et al. 2017).

The distribution is over K fixed returns, the atoms, from `value_min` to `value_max`. With `double`, `dueling`,
`n_step: 3`, prioritised replay and a noisy network this is Rainbow (Hessel et al. 2018). With epsilon-greedy
exploration instead of the noise it is eps-Rainbow (Stooke & Abbeel 2018).

The loss is the cross-entropy of the predicted distribution with the target distribution, projected onto the atoms. The
priority of a transition is KL(target || prediction): the cross-entropy minus the target's entropy. As in accel_rl, the
code of Stooke & Abbeel, it is clipped to [1e-6, 1e6]. Logarithms of probabilities come from log_softmax; accel_rl takes
them of probabilities clipped at 1e-6.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.lazy_metrics import LazyMetrics
from actorlearn.algorithms.q_learning import LEAST_PRIORITY, QLearning
from actorlearn.algorithms.returns import mean_over
from actorlearn.algorithms.specs.c51 import C51Settings

MOST_PRIORITY = 1e6


class C51(QLearning):
    """Categorical DQN: learns a distribution over K returns (atoms) for each action, whose logits the network returns.

    Dueling heads are combined before the softmax.
    """

    Settings = C51Settings
    settings: C51Settings

    def __init__(self, settings: C51Settings) -> None:
        super().__init__(settings, numbers=settings.atoms)

    def expected(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Return the expected return of each action, […, A], also of invalid ones."""
        return self.mean(self.per_action(outputs).softmax(-1))

    def mean(self, probability: Tensor) -> Tensor:
        """Return the means […] of distributions […, K]."""
        return (probability * self._support(probability)).sum(-1)

    def targets(self, batch: Batch, following: Tensor) -> Tensor:
        """Return the distribution of r + discount * Z(s', best action), projected onto the atoms: [1, B, K]."""
        values, discount = self._support(following), batch.columns["discount"].unsqueeze(-1)
        return project(following.softmax(-1), batch.reward.unsqueeze(-1) + discount * values, values)

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, LazyMetrics]:
        """Return the loss, its terms and the priorities [1, B], for outputs [1, B, size]."""
        logits = self.numbers_of_played(outputs, batch)  # [1, B, atoms]
        target = batch.columns["target"].where(batch.valid.unsqueeze(-1), 0.0)
        error = -(target * logits.log_softmax(-1)).sum(-1)  # [1, B]
        divergence = error - entropy(target)
        metrics = LazyMetrics(
            lambda: {
                "q_mean": mean_over(batch.valid, self.mean(logits.softmax(-1))),
                "target_mean": mean_over(batch.valid, self.mean(target)),
                "error_mean": mean_over(batch.valid, divergence),
                "priority": divergence.clamp(LEAST_PRIORITY, MOST_PRIORITY).where(batch.valid, 0.0),
            }
        )
        return self.total(batch, error), metrics

    def _support(self, like: Tensor) -> Tensor:
        settings = self.settings
        return support(settings.atoms, settings.value_min, settings.value_max, like.device)


# Distributions of returns over fixed atoms, as pure functions --------------------------------------------------------


def support(atoms: int, smallest: float, largest: float, device: torch.device) -> Tensor:
    """Return the values of the atoms, evenly spaced: [K]."""
    return torch.linspace(smallest, largest, atoms, device=device)


def project(probability: Tensor, place: Tensor, values: Tensor) -> Tensor:
    """Project a distribution over J returns ``place`` onto K evenly spaced atoms ``values`` [K]; return […, K].

    ``probability`` and ``place`` are […, J]. Each probability is divided between the two nearest atoms; the nearer one
    gets more. A return outside the atoms' range counts as the nearest end of the range (algorithm 1 of the paper).

    Atom k gets the share max(0, 1 - distance) of each probability, with the distance in atoms. This needs J * K numbers
    per transition. Adding at indices needs only 2 J, but on a GPU it adds in no fixed order, so results would differ.
    """
    step = (values[-1] - values[0]) / (len(values) - 1)
    position = (torch.minimum(torch.maximum(place, values[0]), values[-1]) - values[0]) / step  # […, J], 0 to K - 1
    atom = torch.arange(len(values), dtype=position.dtype, device=position.device)
    part = (1.0 - (position.unsqueeze(-1) - atom).abs()).clamp(min=0.0)  # […, J, K]
    return (probability.unsqueeze(-1) * part).sum(-2)


def entropy(probability: Tensor) -> Tensor:
    """Return -sum p log p in nats, […]; an atom with probability 0 adds 0."""
    return -torch.xlogy(probability, probability).sum(-1)
