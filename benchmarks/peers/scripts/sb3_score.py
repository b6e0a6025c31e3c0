"""Stable-Baselines3 until a score, run inside a virtual environment of its own by ``benchmarks/peers/scores.py``.

Usage: SECONDS WORK. WORK is JSON: a row of ``scores.yaml`` with the task and a seed. Ends at the score, at the row's
steps or after the seconds. The environments are in this process, one after the other, which is its default. Prints
one JSON line: when the score was reached, after how many steps, and the last score.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from statistics import fmean
from typing import Any

import stable_baselines3
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

GAMES = 100


class UntilScore(BaseCallback):
    """Ends training when the mean of the last 100 games has reached a score, or after some seconds."""

    def __init__(self, score: float, seconds: float) -> None:
        super().__init__()
        self.score, self.ends_s = score, time.monotonic() + seconds
        self.games: deque[float] = deque(maxlen=GAMES)
        self.reached_at: float | None = None

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.games.append(info["episode"]["r"])
                if len(self.games) == GAMES and fmean(self.games) >= self.score:
                    self.reached_at = time.time()
                    return False
        return time.monotonic() < self.ends_s


def main() -> None:
    """Train and print."""
    seconds, work = float(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(work["threads"])
    env = make_vec_env(work["env"], n_envs=work["envs"], seed=work["seed"], env_kwargs=work["kwargs"])
    if work["normalize"]:
        env = VecNormalize(env, gamma=work["arguments"]["gamma"])
    arguments = dict(work["arguments"])
    for name in work["linear"]:
        arguments[name] = _falling(arguments[name])
    policy = dict(work["policy"])
    if "activation_fn" in policy:
        policy["activation_fn"] = getattr(torch.nn, policy["activation_fn"])
    algorithm: Any = getattr(stable_baselines3, work["algorithm"])
    model = algorithm("MlpPolicy", env, seed=work["seed"], device="cpu", policy_kwargs=policy, **arguments)
    until = UntilScore(work["score"], seconds)
    model.learn(work["steps"], callback=until)
    answer = {
        "reached_at": until.reached_at,
        "steps": model.num_timesteps,
        "score": fmean(until.games) if until.games else None,
        "version": stable_baselines3.__version__,
    }
    print(json.dumps(answer), flush=True)


def _falling(start: float) -> Any:
    return lambda left: start * left


if __name__ == "__main__":
    main()
