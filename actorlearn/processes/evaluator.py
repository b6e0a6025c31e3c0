"""Plays whole games with frozen weights and reports raw scores; training never waits for it.

Reads: published weights, one version per evaluation. Writes: ``Evaluated`` messages. Refuses to know: blocks, rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from actorlearn.envs.interface import EnvSettings, empty_row
from actorlearn.envs.make import make
from actorlearn.processes.inference import Policy
from actorlearn.processes.role import POLL_MS, Role
from actorlearn.processes.settings import EvaluatorSettings
from actorlearn.wire.channel import Waiter
from actorlearn.wire.messages import Evaluated

SETTINGS = EvaluatorSettings
ENVIRONMENTS = 8
"""Most games played side by side."""


def play(policy: Policy, env: EnvSettings, episodes: int, greedy: bool, seed: int) -> Iterator[float | None]:
    """Yield raw scores of exactly ``episodes`` whole games, and None after each step so that a caller can breathe.

    The games are dealt to the environments beforehand. Taking the first to finish instead would favour short games.
    """
    count = min(episodes, ENVIRONMENTS)
    left = np.array([len(range(i, episodes, count)) for i in range(count)])
    games = make(env, [seed + i for i in range(count)])
    row = empty_row(games.spec, count)
    memory = [torch.zeros(count, policy.state_size), torch.from_numpy(row.first)] if policy.state_size else []
    returns = np.zeros(count)
    games.reset(row)
    moment = 0
    while left.any():
        chosen = policy.choose(torch.from_numpy(row.observation), moment, greedy, *memory)
        memory[:1] = [chosen["state"]] if memory else []
        games.step(chosen["action"].cpu().numpy(), row)
        moment += 1
        returns += row.reward
        for i in np.flatnonzero((row.terminated | row.truncated) & (left > 0)):
            yield float(returns[i])
            left[i] -= 1
        returns[row.terminated | row.truncated] = 0.0
        yield None
    games.close()


def run(settings: EvaluatorSettings) -> None:
    """Evaluate the newest weights every ``every_steps`` steps, until told to stop."""
    role = Role(settings)
    torch.set_num_threads(settings.threads)
    policy = Policy(settings.policy, settings.weights, "cpu", settings.seed, stream=settings.index)
    waiter = Waiter(None, role.control.dealer)
    next_steps = settings.every_steps
    role.hello()
    while role.alive():
        if role.control.ordered:
            role.control.applied()
        if not (policy.ready() and policy.env_steps >= next_steps):
            waiter.wait(POLL_MS)
            role.timings.add("wait")
            continue
        next_steps = policy.env_steps + settings.every_steps
        returns = _evaluate(settings, role, policy)
        if returns is None:
            break
        role.control.send(
            Evaluated(name=settings.name, policy_version=policy.version, env_steps=policy.env_steps, returns=returns)
        )
    role.control.close()


def _evaluate(settings: EvaluatorSettings, role: Role, policy: Policy) -> list[float] | None:
    returns = []
    for score in play(policy, settings.env, settings.episodes, settings.greedy, settings.seed + policy.version):
        if score is not None:
            returns.append(score)
        elif not role.alive():
            return None
        role.timings.add("simulate")
    return returns


def summary(returns: list[float]) -> dict[str, Any]:
    """Mean, spread and extremes of raw scores."""
    scores = np.array(returns)
    return {
        "episodes": len(returns),
        "mean": float(scores.mean()),
        "std": float(scores.std(ddof=1)) if len(returns) > 1 else 0.0,
        "min": float(scores.min()),
        "max": float(scores.max()),
        "returns": returns,
    }
