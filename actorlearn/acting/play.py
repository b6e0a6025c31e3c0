"""Plays the policy in policy.onnx, which is in the same folder as this file: python play.py [GAMES [SEED]].

Needs numpy and onnxruntime; to play games also gymnasium and the environment's package.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

POLICY = Path(__file__).with_name("policy.onnx")


class OnnxPolicy:
    """A trained policy that chooses the most probable action, for N games at a time."""

    def __init__(self, file: Path = POLICY) -> None:
        self.session = onnxruntime.InferenceSession(file)
        self.about = json.loads(self.session.get_modelmeta().custom_metadata_map["actorlearn"])
        self.state: Any = None

    def act(self, observation: Any, first: Any) -> Any:
        """Return actions [N, …] for observations [N, …]; first [N] says which of these begin a game."""
        given = {"observation": np.asarray(observation, self.about["dtype"])}
        if size := self.about["state_size"]:  # a recurrent network's memory of each game
            given["first"] = np.asarray(first, np.bool_)
            given["state"] = np.zeros((len(first), size), np.float32) if self.state is None else self.state
        action, *_, after = self.session.run(None, given)  # the outputs between are the network's heads
        self.state = after if size else None
        return action


def play(policy: OnnxPolicy, games: int, seed: int) -> list[float]:
    """Play whole games, the first from this seed, and return their scores."""
    env: Any = None
    scores: list[float] = []
    for code, kwargs in policy.about["made_by"]:  # the environment, then its wrappers
        module, _, name = code.partition(":")
        env = getattr(import_module(module), name)(*(() if env is None else (env,)), **kwargs)
    for game in range(games):
        (observation, _), score, first, over = env.reset(seed=None if game else seed), 0.0, True, False
        while not over:
            action = policy.act(np.asarray(observation)[None], [first])[0]
            observation, reward, ended, cut, _ = env.step(action)
            score, first, over = score + float(reward), False, ended or cut
        scores.append(score)
    return scores


if __name__ == "__main__":
    player = OnnxPolicy()
    if player.about["not_made"]:
        sys.exit(
            f"this program cannot make the environment: {player.about['not_made']}; pass observations to OnnxPolicy.act"
        )
    games, seed = map(int, [*sys.argv[1:], *("10", "0")[len(sys.argv) - 1 :]])
    told = play(player, games, seed)
    print(f"{len(told)} games: mean score {np.mean(told):.2f}, standard deviation {np.std(told):.2f}")
