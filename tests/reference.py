"""The mathematics of the library in its slowest and most obvious form, for comparison; one number at a time."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from actorlearn.algorithms.interface import AlgorithmSettings, Batch
from actorlearn.optim.interface import OptimizerSettings


def n_step_return(batch: Batch, value: Tensor, settings: AlgorithmSettings, t: int, b: int) -> float:
    """Sum gamma^k r forward from valid transition t of environment b; value is [T+1, B]."""
    horizon = batch.action.shape[0]
    total, weight = 0.0, 1.0
    for k in range(t, horizon):
        reward = float(batch.reward[k, b])
        if settings.reward_clip is not None:
            reward = min(max(reward, -settings.reward_clip), settings.reward_clip)
        total += weight * reward
        weight *= settings.discount
        if batch.terminated[k, b]:
            return total
        if batch.life_lost[k, b] and settings.life_loss_terminal:
            return total
        if batch.truncated[k, b] and not settings.bootstrap_on_truncation:
            return total
        if batch.truncated[k, b] or k == horizon - 1:
            return total + weight * float(value[k + 1, b])
    raise AssertionError("the last transition of a block ends every return")


def a2c_loss(logits: Tensor, value: Tensor, batch: Batch, settings: AlgorithmSettings) -> Tensor:
    """Average the three terms over valid transitions in a double loop; logits [T+1, B, A], value [T+1, B]."""
    horizon, environments = batch.action.shape
    known = value.detach()  # targets and advantages are numbers: no gradient flows through them
    total, count = torch.zeros((), dtype=logits.dtype), 0
    for t in range(horizon):
        for b in range(environments):
            if not batch.valid[t, b]:
                continue
            count += 1
            probabilities = logits[t, b].exp() / logits[t, b].exp().sum()
            target = n_step_return(batch, known, settings, t, b)
            advantage = target - float(known[t, b])
            policy_term = -probabilities[batch.action[t, b]].log() * advantage
            value_term = (target - value[t, b]) ** 2
            entropy = -sum(p * p.log() for p in probabilities)
            total = total + policy_term + settings.value_cost * value_term - settings.entropy_cost * entropy
    return settings.loss_scale * total / max(count, 1)


def rmsprop(
    parameters: list[float], gradients: list[list[float]], rates: list[float], settings: OptimizerSettings
) -> list[float]:
    """Apply RMSProp to each number by itself; gradients and rates are per step."""
    result = []
    for i, parameter in enumerate(parameters):
        square, mean = settings.accumulator_init, 0.0
        for gradient, rate in zip(gradients, rates, strict=True):
            g = gradient[i]
            square = settings.decay * square + (1.0 - settings.decay) * g * g
            mean = settings.decay * mean + (1.0 - settings.decay) * g
            variance = max(square - mean * mean, 0.0) if settings.centered else square
            inside = settings.epsilon_inside_root
            root = sqrt(variance + settings.epsilon) if inside else sqrt(variance) + settings.epsilon
            parameter -= rate * g / root
        result.append(parameter)
    return result


def adam(
    parameters: list[float], gradients: list[list[float]], rates: list[float], settings: OptimizerSettings
) -> list[float]:
    """Apply Adam to each number by itself: the paper's algorithm 1, or its epsilon-hat form."""
    beta1, beta2 = settings.betas
    result = []
    for i, parameter in enumerate(parameters):
        m = v = 0.0
        for t, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
            m = beta1 * m + (1.0 - beta1) * gradient[i]
            v = beta2 * v + (1.0 - beta2) * gradient[i] ** 2
            if settings.epsilon_hat:
                corrected = rate * sqrt(1.0 - beta2**t) / (1.0 - beta1**t)
                parameter -= corrected * m / (sqrt(v) + settings.epsilon)
            else:
                parameter -= rate * (m / (1.0 - beta1**t)) / (sqrt(v / (1.0 - beta2**t)) + settings.epsilon)
        result.append(parameter)
    return result
