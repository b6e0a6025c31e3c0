"""Recurrent replay DQN, not distributed, "R2D1": R2D2 (Kapturowski et al. 2019) as in rlpyt (Stooke and Abbeel 2019).

A minibatch has B sequences of L transitions from the replay buffer. Each transition has its own n-step return, which
bootstraps from a later observation of the sequence, or from one of the n after it. The columns of a batch are:

    reached    [L, B]: index of the observation from whose value the return bootstraps, 1 … L - 1 + n
    discount   [L, B]: factor of this value: gamma^m after m steps, 0 at a terminal state
    weight     [L, B]: weight of the sequence in the loss: from prioritised sampling, or 1
    state      [1, B, S]: state of the network before observation 0, recorded when acting or computed by the burn-in

The network learns h(return) instead of the return. h is an increasing function that compresses large values (`rescale`;
Pohlen et al. 2018), so the choice of the best action is the same, and rewards need no clipping. The loss is half the
squared error, averaged over all steps of all sequences.

Differences from the paper:

    network      The network does not receive the last action and reward. Its dueling heads have no hidden layer.
    sequences    A sequence may continue after the end of a game, where the state is set to zero. In the paper a
                 sequence ends there; rlpyt does not learn from the steps after it.
    priorities   A new sequence gets the largest priority so far (Schaul et al. 2016). In the paper actors compute it
                 from errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.lazy_metrics import LazyMetrics
from actorlearn.algorithms.policies import played_actions
from actorlearn.algorithms.q_learning import LEAST_PRIORITY, QLearning
from actorlearn.algorithms.returns import mean_over
from actorlearn.algorithms.specs.r2d1 import R2D1Settings


class R2D1(QLearning):
    """Recurrent DQN: learns the rescaled expected return of each action from sequences in a replay buffer."""

    Settings = R2D1Settings
    settings: R2D1Settings

    def __init__(self, settings: R2D1Settings) -> None:
        super().__init__(settings, numbers=1)
        self.prepared_rows = 0  # also with `double`: `loss` gets the outputs of all rows, and selects actions by them

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Add "following" [L - 1 + n, B, A]: the target network's action values of all observations but the first."""
        target = {name.removeprefix("target."): output for name, output in outputs.items()}
        return replace(batch, columns={**batch.columns, "following": self.values(target)})

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, LazyMetrics]:
        """Return the loss, its terms and the priorities [1, B], for outputs [L + n, B, size]."""
        values = self.values(outputs)
        if values.shape[:-1] != batch.first.shape:
            raise ValueError(
                f"{self.settings.name}: the network's outputs have shape {tuple(values.shape[:-1])} (steps x "
                f"sequences), but the batch has {tuple(batch.first.shape)}: run the network on the whole prepared "
                "observation"
            )
        valid = batch.valid
        q = values[: len(valid)].gather(-1, played_actions(batch)[..., None]).squeeze(-1)  # [L, B]
        target = self._target(values.detach(), batch)
        distance = (target - q).where(valid, 0.0)
        metrics = LazyMetrics(
            lambda: {
                "q_mean": mean_over(valid, self._returns(q)),
                "target_mean": mean_over(valid, self._returns(target)),
                "error_mean": mean_over(valid, distance.abs()),
                "priority": self._priority(distance.detach().abs(), valid),
            }
        )
        return self.total(batch, 0.5 * distance.square()), metrics

    def _target(self, values: Tensor, batch: Batch) -> Tensor:
        """Return the targets h(r + discount * h^-1(value of the state reached)), [L, B]; h(r) where discount is 0."""
        following, discount = batch.columns["following"], batch.columns["discount"]
        best = (values[1:] if self.settings.double else following).argmax(-1, keepdim=True)
        value = following.gather(-1, best).squeeze(-1)  # [L - 1 + n, B]
        reached = value.gather(0, batch.columns["reached"] - 1)
        target = batch.reward + (discount * self._returns(reached)).where(discount != 0.0, 0.0)
        epsilon = self.settings.rescale_epsilon
        return target if epsilon is None else rescale(target, epsilon)

    def _returns(self, values: Tensor) -> Tensor:
        """Convert the network's values to expected returns: h^-1(value), of the same shape."""
        epsilon = self.settings.rescale_epsilon
        return values if epsilon is None else unscale(values, epsilon)

    def _priority(self, distance: Tensor, valid: Tensor) -> Tensor:
        """Return each sequence's priority, eta * max + (1 - eta) * mean of its absolute errors [L, B]: [1, B]."""
        eta, steps = self.settings.priority_eta, valid.sum(0, keepdim=True).clamp(min=1)
        mean = distance.sum(0, keepdim=True) / steps
        return (eta * distance.amax(0, keepdim=True) + (1.0 - eta) * mean).clamp(min=LEAST_PRIORITY)


def rescale(x: Tensor, epsilon: float) -> Tensor:
    """Return h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x (Pohlen et al. 2018, proposition A.1)."""
    return x.sign() * ((x.abs() + 1.0).sqrt() - 1.0) + epsilon * x


def unscale(x: Tensor, epsilon: float) -> Tensor:
    """Return h^-1(x), the inverse of `rescale`.

    u = sqrt(|h^-1(x)| + 1) is the root of epsilon u^2 + u = |x| + 1 + epsilon, computed in a form that is accurate for
    a small epsilon and for 0.
    """
    least = x.abs() + 1.0 + epsilon
    u = 2.0 * least / ((1.0 + 4.0 * epsilon * least).sqrt() + 1.0)
    return x.sign() * (u.square() - 1.0)
