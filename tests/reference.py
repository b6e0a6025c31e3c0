"""The mathematics of the library in its slowest and most obvious form, for comparison; one number at a time."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, copysign, e, exp, floor, log, pi, sqrt

import msgspec
import numpy as np
import torch
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.settings import AlgorithmSettings
from actorlearn.optim.specs import OptimizerSettings


def outcome(batch: Batch, settings: AlgorithmSettings, t: int, b: int) -> tuple[float, float, bool]:
    """Reward, discount and whether sums stop, of valid transition t of environment b."""
    reward, discount = float(batch.reward[t, b]), settings.discount
    if settings.reward_clip is not None:
        reward = min(max(reward, -settings.reward_clip), settings.reward_clip)
    if batch.terminated[t, b]:
        discount = 0.0
    if batch.life_lost[t, b] and settings.life_loss_terminal:
        discount = 0.0
    if batch.truncated[t, b] and not settings.bootstrap_on_truncation:
        discount = 0.0
    stops = discount == 0.0 or bool(batch.truncated[t, b]) or t == len(batch.reward) - 1
    return reward, discount, stops


def n_step_return(batch: Batch, value: Tensor, settings: AlgorithmSettings, t: int, b: int) -> float:
    """Sum gamma^k r forward from valid transition t of environment b; value is [T+1, B]."""
    total, weight, stops = 0.0, 1.0, False
    while not stops:
        reward, discount, stops = outcome(batch, settings, t, b)
        total += weight * reward
        weight *= discount
        t += 1
    return total + weight * float(value[t, b]) if weight else total


def vtrace_target(batch: Batch, value: Tensor, ratio: Tensor, settings: AlgorithmSettings, t: int, b: int) -> float:
    """Sum the corrected errors forward (Espeholt et al. 2018, equation 1); value is [T+1, B], ratio [T, B]."""
    total, weight, stops = float(value[t, b]), 1.0, False
    while not stops:
        reward, discount, stops = outcome(batch, settings, t, b)
        error = reward + discount * float(value[t + 1, b]) - float(value[t, b])
        total += weight * min(settings.rho_clip, float(ratio[t, b])) * error
        weight *= discount * settings.gae_lambda * min(settings.c_clip, float(ratio[t, b]))
        t += 1
    return total


def effective_sample_size(ratios: list[float]) -> float:
    """Share of a sample that is worth as much as all of it by these weights."""
    return sum(ratios) ** 2 / (len(ratios) * sum(w**2 for w in ratios))


def gae(batch: Batch, value: Tensor, settings: AlgorithmSettings, t: int, b: int) -> float:
    """Sum (gamma lambda)^k times the errors forward (Schulman et al. 2016, equation 16); value is [T+1, B]."""
    total, weight, stops = 0.0, 1.0, False
    while not stops:
        reward, discount, stops = outcome(batch, settings, t, b)
        total += weight * (reward + discount * float(value[t + 1, b]) - float(value[t, b]))
        weight *= discount * settings.gae_lambda
        t += 1
    return total


def log_prob_and_entropy(outputs: Mapping[str, Tensor], action: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy of one row: discrete actions from probabilities, Box ones number by number."""
    if "logits" in outputs:
        probabilities = outputs["logits"].exp() / outputs["logits"].exp().sum()
        return probabilities[action].log(), -sum(p * p.log() for p in probabilities)
    log_prob = entropy = torch.zeros((), dtype=torch.float64)
    for mean, log_std, x in zip(outputs["mean"], outputs["log_std"], action, strict=True):
        std = log_std.exp()
        log_prob = log_prob - ((x - mean) / std) ** 2 / 2 - (2 * pi * std**2).log() / 2
        entropy = entropy + (2 * pi * e * std**2).log() / 2
    return log_prob, entropy


def valid_transitions(batch: Batch) -> list[tuple[int, int]]:
    """Row and environment of those that count."""
    return [(t, b) for t, b in np.ndindex(*batch.valid.shape) if batch.valid[t, b]]


def reduced(terms: list[Tensor], settings: AlgorithmSettings) -> Tensor:
    """The sum or the mean of what the transitions add, scaled."""
    total = sum(terms, torch.zeros((), dtype=torch.float64))
    return settings.loss_scale * (total if settings.reduction == "sum" else total / max(len(terms), 1))


def a2c_loss(outputs: Mapping[str, Tensor], batch: Batch, settings: AlgorithmSettings) -> Tensor:
    """The three terms, one transition after another; outputs are [T+1, B, size]."""
    value = outputs["value"].squeeze(-1)
    known = value.detach()  # targets and advantages are numbers: no gradient flows through them
    terms = []
    for t, b in valid_transitions(batch):
        log_prob, entropy = log_prob_and_entropy({k: v[t, b] for k, v in outputs.items()}, batch.action[t, b])
        advantage = gae(batch, known, settings, t, b)
        target = advantage + float(known[t, b])
        error = (target - value[t, b]) ** 2
        terms.append(-log_prob * advantage + settings.value_cost * error - settings.entropy_cost * entropy)
    return reduced(terms, settings)


def impala_loss(outputs: Mapping[str, Tensor], batch: Batch, settings: AlgorithmSettings) -> Tensor:
    """The same with V-trace; outputs are [T+1, B, size]."""
    value = outputs["value"].squeeze(-1)
    known = value.detach()
    terms, ratio = [], torch.zeros(batch.valid.shape, dtype=torch.float64)
    chosen = {
        (t, b): log_prob_and_entropy({k: v[t, b] for k, v in outputs.items()}, batch.action[t, b])
        for t, b in valid_transitions(batch)
    }
    for (t, b), (log_prob, _) in chosen.items():
        ratio[t, b] = exp(float(log_prob.detach()) - float(batch.columns["log_prob"][t, b]))
    for (t, b), (log_prob, entropy) in chosen.items():
        rho = min(settings.rho_clip, float(ratio[t, b]))
        advantage = rho * vtrace_advantage(batch, known, ratio, settings, t, b)
        error = (vtrace_target(batch, known, ratio, settings, t, b) - value[t, b]) ** 2
        terms.append(-log_prob * advantage + settings.value_cost * error - settings.entropy_cost * entropy)
    return reduced(terms, settings)


def vtrace_advantage(batch: Batch, value: Tensor, ratio: Tensor, settings: AlgorithmSettings, t: int, b: int) -> float:
    """The advantage of an action whoever chose it: its reward, and V-trace's target of what follows, less the value."""
    reward, discount, stops = outcome(batch, settings, t, b)
    following = float(value[t + 1, b])
    if not stops:
        corrected = vtrace_target(batch, value, ratio, settings, t + 1, b)
        following = settings.gae_lambda * corrected + (1 - settings.gae_lambda) * following
    return reward + discount * following - float(value[t, b])


def proximal_log_prob(settings: AlgorithmSettings, acted: float, before: float, now: float, lag: int) -> float:
    """Log-probability of an action by the policy that PPO's ratio is taken to."""
    if settings.proximal == "behaviour":
        return acted
    if settings.proximal == "recomputed":
        return before
    alpha = 1 / (lag + 1)
    return alpha * acted + (1 - alpha) * now


def ppo_loss(
    outputs: Mapping[str, Tensor],
    batch: Batch,
    settings: AlgorithmSettings,
    clip: float,
    before: Mapping[str, Tensor],
) -> Tensor:
    """The clipped terms of a batch; outputs are [T, B, size], those before the pass [T+1, B, size], or of row T."""
    known = torch.cat([batch.columns["value"], before["value"][-1:, :, 0]])
    first = dict.fromkeys(valid_transitions(batch), 0.0)
    if settings.passes_before:
        for t, b in first:
            first[t, b] = float(log_prob_and_entropy({k: v[t, b] for k, v in before.items()}, batch.action[t, b])[0])
    terms, ratio = [], torch.zeros(batch.valid.shape, dtype=torch.float64)
    for (t, b), log_prob in first.items():
        ratio[t, b] = exp(log_prob - float(batch.columns["log_prob"][t, b]))
    if settings.advantages == "vtrace":
        known, cut = before["value"].squeeze(-1), msgspec.structs.replace(settings, rho_clip=1.0, c_clip=1.0)
        advantages = {(t, b): vtrace_advantage(batch, known, ratio, cut, t, b) for t, b in first}
        targets = {(t, b): vtrace_target(batch, known, ratio, cut, t, b) for t, b in first}
    else:
        advantages = {(t, b): gae(batch, known, settings, t, b) for t, b in first}
        targets = {(t, b): advantage + float(known[t, b]) for (t, b), advantage in advantages.items()}
    mean = sum(advantages.values()) / max(len(advantages), 1)
    deviation = sqrt(sum((x - mean) ** 2 for x in advantages.values()) / max(len(advantages), 1))
    for (t, b), advantage in advantages.items():
        target, value, old = targets[t, b], outputs["value"][t, b, 0], float(known[t, b])
        if settings.normalize_advantage:
            advantage = (advantage - mean) / (deviation + 1e-8)
        log_prob, entropy = log_prob_and_entropy({k: v[t, b] for k, v in outputs.items()}, batch.action[t, b])
        acted, lag = float(batch.columns["log_prob"][t, b]), int(batch.policy_lag[t, b])
        proximal = proximal_log_prob(settings, acted, first[t, b], float(log_prob.detach()), lag)
        weight, new = exp(proximal - acted), (log_prob - proximal).exp()
        weight = weight if settings.weight_clip is None else min(weight, settings.weight_clip)
        gain = weight * min(new * advantage, min(max(new, 1 - clip), 1 + clip) * advantage)
        error = (target - value) ** 2
        if settings.value_clip is not None:
            moved = min(max(value - old, -settings.value_clip), settings.value_clip)
            error = max(error, (target - (old + moved)) ** 2)
        terms.append(-gain + settings.value_cost * error - settings.entropy_cost * entropy)
    return reduced(terms, settings)


def vaco_loss(
    outputs: Mapping[str, Tensor], batch: Batch, settings: AlgorithmSettings, before: Mapping[str, Tensor]
) -> Tensor:
    """V-trace's advantages by the outputs [T+1, B, size] before the epochs, and no gain beyond the limit; [T, B, size].

    With the limit kept or a move toward the acting policy, a transition gains its ratio to the policy before the epochs
    times its advantage.
    """
    known = before["value"].squeeze(-1)
    old, ratio = dict[tuple[int, int], float](), torch.ones(batch.valid.shape, dtype=torch.float64)
    for t, b in valid_transitions(batch):
        old[t, b] = float(log_prob_and_entropy({k: v[t, b] for k, v in before.items()}, batch.action[t, b])[0])
        ratio[t, b] = exp(old[t, b] - float(batch.columns["log_prob"][t, b]))
    advantages = {}
    for t, b in old:
        rho = min(settings.rho_clip, float(ratio[t, b]))
        advantages[t, b] = rho * vtrace_advantage(batch, known, ratio, settings, t, b)
    mean = sum(advantages.values()) / max(len(advantages), 1)
    deviation = sqrt(sum((x - mean) ** 2 for x in advantages.values()) / max(len(advantages), 1))

    chosen = {
        (t, b): log_prob_and_entropy({k: v[t, b] for k, v in outputs.items()}, batch.action[t, b]) for t, b in old
    }
    ahead = {at: exp(float(chosen[at][0].detach()) - float(batch.columns["log_prob"][at])) - 1 for at in old}
    beyond = sum(map(abs, ahead.values())) / max(len(ahead), 1) > settings.variation_limit
    terms = []
    for (t, b), (log_prob, entropy) in chosen.items():
        advantage = advantages[t, b]
        if settings.normalize_advantage:
            advantage = (advantage - mean) / (deviation + 1e-8)
        gain = 0.0 if beyond and advantage * ahead[t, b] > 0 else (log_prob - old[t, b]).exp() * advantage
        error = (vtrace_target(batch, known, ratio, settings, t, b) - outputs["value"][t, b, 0]) ** 2
        terms.append(-gain + settings.value_cost * error - settings.entropy_cost * entropy)
    return reduced(terms, settings)


def q_lambda_return(batch: Batch, best: Tensor, settings: AlgorithmSettings, t: int, b: int) -> float:
    """Mix the returns of 1, 2, ... steps, each with the best action's value behind it; best is [T+1, B].

    That of n steps has the share (1 - lambda) lambda^(n - 1), and the longest there is what is left.
    """
    mixed, left, collected, weight, stops = 0.0, 1.0, 0.0, 1.0, False
    while True:
        reward, discount, stops = outcome(batch, settings, t, b)
        collected += weight * reward
        weight *= discount
        t += 1
        n_step = collected + weight * float(best[t, b]) if weight else collected
        if stops:
            return mixed + left * n_step
        mixed += left * (1 - settings.q_lambda) * n_step
        left *= settings.q_lambda


def pqn_loss(outputs: Mapping[str, Tensor], batch: Batch, best: Tensor, settings: AlgorithmSettings) -> Tensor:
    """Half the squared errors of the actions played; outputs are [T, B, size]."""
    terms = []
    for t, b in valid_transitions(batch):
        action = int(batch.action[t, b])
        if settings.dueling:
            advantage = outputs["advantage"][t, b]
            q = outputs["value"][t, b, 0] + advantage[action] - sum(advantage) / len(advantage)
        else:
            q = outputs["q"][t, b, action]
        terms.append((q_lambda_return(batch, best, settings, t, b) - q) ** 2 / 2)
    return reduced(terms, settings)


def n_step_target(rewards: list[float], ends: list[bool], following: list[float], settings: AlgorithmSettings) -> float:
    """The n-step target of a transition, by rewards and ends of the steps from it on, and the value after each."""
    total = 0.0
    for k, (reward, end, value) in enumerate(zip(rewards, ends, following, strict=True)):
        total += settings.discount**k * reward
        if end:
            return total
        if k + 1 == settings.n_step:
            return total + settings.discount**settings.n_step * value
    raise ValueError("fewer steps than n_step, and no end")


def dueling(value: list[float], advantage: list[list[float]]) -> list[list[float]]:
    """Numbers of each action, [actions][numbers] (Wang et al. 2016, equation 9)."""
    means = [sum(action[k] for action in advantage) / len(advantage) for k in range(len(value))]
    return [[value[k] + action[k] - means[k] for k in range(len(value))] for action in advantage]


def q_values(outputs: Mapping[str, Tensor], settings: AlgorithmSettings, b: int) -> list[float]:
    """Value of each action in column b of DQN's outputs [1, B, size]."""
    if settings.dueling:
        advantage = [[x] for x in outputs["advantage"][0, b].tolist()]
        return [q for (q,) in dueling(outputs["value"][0, b].tolist(), advantage)]
    return outputs["q"][0, b].tolist()


def huber(error: float, delta: float) -> float:
    """Half the square, and a straight line beyond delta (Huber 1964)."""
    return error**2 / 2 if abs(error) <= delta else delta * (abs(error) - delta / 2)


def dqn_errors(
    outputs: Mapping[str, Tensor],
    target: Mapping[str, Tensor],
    own: Mapping[str, Tensor],
    batch: Batch,
    settings: AlgorithmSettings,
) -> list[float]:
    """Target less value of each transition: outputs of row 0; of row 1, of the target network and of one's own."""
    errors = []
    for b in range(batch.action.shape[1]):
        following = q_values(target, settings, b)
        judged = q_values(own, settings, b) if settings.double else following
        best = max(range(len(judged)), key=lambda action: judged[action])
        y = float(batch.reward[0, b]) + float(batch.columns["discount"][0, b]) * following[best]
        errors.append(y - q_values(outputs, settings, b)[int(batch.action[0, b])])
    return errors


def weighted(terms: list[float], batch: Batch, settings: AlgorithmSettings) -> float:
    """The loss of a minibatch of replayed transitions, each times its weight."""
    total = sum(float(weight) * term for weight, term in zip(batch.columns["weight"][0], terms, strict=True))
    return settings.loss_scale * (total if settings.reduction == "sum" else total / len(terms))


def projected(probabilities: list[float], reward: float, discount: float, values: list[float]) -> list[float]:
    """Algorithm 1 of Bellemare et al. 2017, line by line; where b is a whole number, all goes to that atom."""
    atoms, smallest, largest = len(values), values[0], values[-1]
    step = (largest - smallest) / (atoms - 1)
    m = [0.0] * atoms
    for j in range(atoms):
        t = min(max(reward + discount * values[j], smallest), largest)
        b = min((t - smallest) / step, atoms - 1.0)
        lower, upper = floor(b), ceil(b)
        if lower == upper:
            m[lower] += probabilities[j]
        else:
            m[lower] += probabilities[j] * (upper - b)
            m[upper] += probabilities[j] * (b - lower)
    return m


def distributions(outputs: Mapping[str, Tensor], settings: AlgorithmSettings, b: int) -> list[list[float]]:
    """Probabilities [actions][atoms] in column b of C51's outputs [1, B, size]."""
    atoms = settings.atoms
    flat = outputs["advantage" if settings.dueling else "q"][0, b].tolist()
    logits = [flat[start : start + atoms] for start in range(0, len(flat), atoms)]
    if settings.dueling:
        logits = dueling(outputs["value"][0, b].tolist(), logits)
    return [[exp(x) / sum(exp(y) for y in action) for x in action] for action in logits]


def c51_errors(
    outputs: Mapping[str, Tensor],
    target: Mapping[str, Tensor],
    own: Mapping[str, Tensor],
    batch: Batch,
    settings: AlgorithmSettings,
) -> list[tuple[float, float]]:
    """Cross-entropy and Kullback-Leibler divergence of each transition; arguments as of `dqn_errors`."""
    step = (settings.value_max - settings.value_min) / (settings.atoms - 1)
    values = [settings.value_min + k * step for k in range(settings.atoms)]
    errors = []
    for b in range(batch.action.shape[1]):
        following = distributions(target, settings, b)
        judged = distributions(own, settings, b) if settings.double else following
        means = [sum(p * z for p, z in zip(action, values, strict=True)) for action in judged]
        best = max(range(len(means)), key=lambda action: means[action])
        reward, discount = float(batch.reward[0, b]), float(batch.columns["discount"][0, b])
        m = projected(following[best], reward, discount, values)
        p = distributions(outputs, settings, b)[int(batch.action[0, b])]
        cross = -sum(m_k * log(p_k) for m_k, p_k in zip(m, p, strict=True))
        errors.append((cross, cross + sum(m_k * log(m_k) for m_k in m if m_k > 0.0)))
    return errors


def noisy_linear(
    x: list[float], weights: Mapping[str, Tensor], noise_in: list[float], noise_out: list[float]
) -> list[float]:
    """One row through a noisy layer, from the unit Gaussian noise itself (Fortunato et al. 2018, equations 9 to 11)."""

    def f(z: float) -> float:
        return copysign(sqrt(abs(z)), z)

    outputs = []
    for j, out in enumerate(noise_out):
        y = float(weights["bias"][j]) + float(weights["bias_deviation"][j]) * f(out)
        for i, into in enumerate(noise_in):
            deviation = float(weights["weight_deviation"][j, i])
            y += (float(weights["weight"][j, i]) + deviation * f(into) * f(out)) * x[i]
        outputs.append(y)
    return outputs


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


def rectification(beta2: float, t: int) -> float:
    """Factor of RAdam on step t (Liu et al. 2020, algorithm 2); 0 while the roots of squares are not to be used."""
    infinite = 2 / (1 - beta2) - 1
    rho = infinite - 2 * t * beta2**t / (1 - beta2**t)
    if rho <= 5:
        return 0.0
    return sqrt((rho - 4) * (rho - 2) * infinite / ((infinite - 4) * (infinite - 2) * rho))


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
            r = rectification(beta2, t) if settings.rectified else 1.0
            rate *= r or 1.0
            if not r:
                parameter -= rate * m / (1.0 - beta1**t)
            elif settings.epsilon_hat:
                corrected = rate * sqrt(1.0 - beta2**t) / (1.0 - beta1**t)
                parameter -= corrected * m / (sqrt(v) + settings.epsilon)
            else:
                parameter -= rate * (m / (1.0 - beta1**t)) / (sqrt(v / (1.0 - beta2**t)) + settings.epsilon)
        result.append(parameter)
    return result


def cell(recurrence: str, weights: dict[str, Tensor], x: Tensor, state: Tensor) -> Tensor:
    """One step of one environment's "lstm" (state: h, then c) or "gru", a unit at a time, by torch's documentation."""
    size = weights["weight_hh"].shape[1]
    h, c = state[:size], state[size:]

    def drive(gate: int, unit: int, of_state: bool) -> Tensor:
        row, suffix, seen = gate * size + unit, "hh" if of_state else "ih", h if of_state else x
        return (weights[f"weight_{suffix}"][row] * seen).sum() + weights[f"bias_{suffix}"][row]

    new_h, new_c = [], []
    for unit in range(size):
        if recurrence == "lstm":
            i, f, g, o = (drive(gate, unit, False) + drive(gate, unit, True) for gate in range(4))
            new_c.append(f.sigmoid() * c[unit] + i.sigmoid() * g.tanh())
            new_h.append(o.sigmoid() * new_c[-1].tanh())
        else:
            r, z = ((drive(gate, unit, False) + drive(gate, unit, True)).sigmoid() for gate in range(2))
            n = (drive(2, unit, False) + r * drive(2, unit, True)).tanh()
            new_h.append((1.0 - z) * n + z * h[unit])
    return torch.stack(new_h + new_c)


def multi_step_adam(
    start: list[float],
    events: list[tuple[str, int]],
    gradients: list[list[float]],
    rate: float,
    settings: OptimizerSettings,
) -> list[list[float]]:
    """Two learners by appendix A of Stooke & Abbeel (2018), number by number; central parameters, then each learner's.

    An event is a local step by one learner with its gradient, its bringing home what it has accumulated, or its taking
    central values before it has: as if it had made its local steps on them.
    """
    beta1, beta2 = settings.betas
    result: list[list[float]] = [[], [], []]
    for i, value in enumerate(start):
        central = {"theta": value, "m": 0.0, "v": 0.0}
        nothing = {"a_g": 0.0, "a_gg": 0.0, "a_s": 0.0, "n": 0}
        learners = [{**central, **nothing, "t": 0} for _ in range(2)]
        for (event, which), gradient in zip(events, gradients, strict=True):
            own, g = learners[which], gradient[i]
            if event == "step":
                own["t"] += 1
                a = rate * sqrt(1.0 - beta2 ** own["t"]) / (1.0 - beta1 ** own["t"])
                own["m"] = beta1 * own["m"] + (1.0 - beta1) * g
                own["v"] = beta2 * own["v"] + (1.0 - beta2) * g**2
                epsilon = settings.epsilon * (1.0 if settings.epsilon_hat else sqrt(1.0 - beta2 ** own["t"]))
                s = a * own["m"] / (sqrt(own["v"]) + epsilon)
                if settings.rectified:
                    r = rectification(beta2, own["t"])
                    s = r * s if r else rate * own["m"] / (1.0 - beta1 ** own["t"])
                own["theta"] -= s
                own["a_g"] = beta1 * own["a_g"] + g
                own["a_gg"] = beta2 * own["a_gg"] + g**2
                own["a_s"] += s
                own["n"] += 1
                continue
            n = own["n"]
            repeated = {
                "theta": central["theta"] - own["a_s"],
                "m": beta1**n * central["m"] + (1.0 - beta1) * own["a_g"],
                "v": beta2**n * central["v"] + (1.0 - beta2) * own["a_gg"],
            }
            own.update(repeated)
            if event == "home":
                central.update(repeated)
                own.update(nothing)
        for row, found in zip(result, (central, *learners), strict=True):
            row.append(found["theta"])
    return result
