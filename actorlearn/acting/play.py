"""Plays the policy in policy.onnx, which is in the same folder as this file: python play.py [GAMES [SEED]].

Needs numpy and onnxruntime; to play games also gymnasium and the environment's package, or cloudpickle if
environment.pickle is in the same folder. Reading environment.pickle runs its code, so get it from someone you trust.
"""

from __future__ import annotations

import hashlib
import json
import sys
from functools import reduce
from importlib import import_module
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

POLICY = Path(__file__).with_name("policy.onnx")


class OnnxPolicy:
    """A trained policy in an ONNX file. It chooses the most probable action, for one game or for N games at a time."""

    def __init__(self, file: Path = POLICY) -> None:
        self.session = onnxruntime.InferenceSession(file)
        self.about = json.loads(self.session.get_modelmeta().custom_metadata_map["actorlearn"])
        self.state: Any = None

    def act(self, observation: Any, first: Any = False, action_mask: Any = None) -> Any:
        """Return the action for an observation of the environment, or actions [N, …] for a batch of N observations.

        ``first``, a bool or bools [N], says whether an observation begins a game; recurrent networks need it. If the
        environment gives masks of valid actions in info, pass ``action_mask=info["action_mask"]``.
        """
        rows, single = self.rows(observation)
        given = {"observation": rows}
        if source := self.about.get("action_mask"):
            found = action_mask if source == "info" else observation["action_mask"]
            if found is None:
                raise ValueError("the policy needs the valid actions: pass action_mask=info['action_mask']")
            given["action_mask"] = _cells(found, single)
        if size := self.about["state_size"]:  # a recurrent network's memory of each game
            kept = self.state is not None and len(self.state) == len(rows)
            given["first"] = np.array(np.broadcast_to(first, len(rows)), np.bool_)
            given["state"] = self.state if kept else np.zeros((len(rows), size), np.float32)
        action, *_, after = self.session.run(None, given)  # the outputs between are the network's heads
        self.state = after if size else None
        return action[0] if single else action

    def rows(self, observation: Any) -> tuple[Any, bool]:
        """Return the network's input [N, …], and whether the argument is one observation rather than a batch of N."""
        shape = self.session.get_inputs()[0].shape[1:]
        parts = self.about["parts"] or [{"keys": [], "shape": shape, "scale": 1}]
        values = [np.asarray(reduce(getitem, part["keys"], observation)) for part in parts]
        single = values[0].ndim == len(parts[0]["shape"])
        batch = [value[None] for value in values] if single else values
        columns = [_columns(part, value, len(batch[0])) for part, value in zip(parts, batch, strict=True)]
        return np.concatenate(columns, 1).reshape(-1, *shape).astype(self.about["dtype"]), single


def _cells(mask: Any, single: bool) -> Any:
    """Convert one mask, or N masks, to bools [N, n].

    A mask is one sequence of its n bools, or a list or tuple with the bools of each part of an action.
    """
    if not single and isinstance(mask, tuple) and all(isinstance(part, np.ndarray) and part.ndim == 2 for part in mask):
        return np.concatenate(mask, 1).astype(np.bool_)
    return np.array([np.hstack([*one]) for one in ([mask] if single else mask)], np.bool_)


def _columns(part: Any, value: Any, count: int) -> Any:
    """Convert one part of N observations to the columns [N, n] that it has in the network's input.

    Numbers are scaled, and choices of a Discrete or MultiDiscrete space become one-hot vectors. Raises ValueError for
    another shape.
    """
    if [*value.shape[1:]] != part["shape"] or len(value) != count:
        name = "".join(f"[{key!r}]" for key in part["keys"])
        raise ValueError(f"observation{name} has shape {[*value.shape[1:]]}; it must be {part['shape']}")
    value = value.reshape(count, -1)
    if "scale" in part:
        return value * part["scale"]
    choices = value - part["least"]
    return np.concatenate([choices[:, [i]] == np.arange(size) for i, size in enumerate(part["sizes"])], 1)


def play(policy: OnnxPolicy, games: int, seed: int) -> list[float]:
    """Play whole games, the first with the given seed, and return their scores."""
    env: Any = None
    scores: list[float] = []
    for code, kwargs in policy.about["made_by"]:  # the environment, then its wrappers
        env = _maker(code)(*(() if env is None else (env,)), **kwargs)
    for game in range(games):
        (observation, info), score, first, over = env.reset(seed=None if game else seed), 0.0, True, False
        while not over:
            action = policy.act(observation, first, info.get("action_mask"))
            observation, reward, ended, cut, info = env.step(action)
            score, first, over = score + float(reward), False, ended or cut
        scores.append(score)
    return scores


def _maker(code: str) -> Any:
    """Return the function or class that ``code`` names.

    ``code`` is package.module:name, or file@sha256 for a function that is pickled in a file in this folder.
    """
    module, colon, name = code.partition(":")
    if colon:
        return _imported(module, name)
    import cloudpickle

    file, _, sha256 = code.partition("@")
    data = POLICY.with_name(file).read_bytes()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError(f"{file} was changed after the export, and its code is not run: export the policy again")
    return cloudpickle.loads(data)


def _imported(module: str, name: str) -> Any:
    """Import the object called ``name`` from a module; raises ImportError if that fails."""
    try:
        imported = import_module(module)
    except ModuleNotFoundError as error:
        way_out = f"it needs {error.name}, which is not installed: install it" if error.name else str(error)
        if f"{module}.".startswith(f"{error.name}."):
            way_out = "start this program in the folder that has it, add that folder to PYTHONPATH, or install it"
        raise ImportError(f"the environment's module {module} cannot be imported; {way_out}") from error
    if not hasattr(imported, name):
        way_out = f"use the version of {module} that the policy was trained with"
        raise ImportError(f"the environment's module {module} has no {name}; {way_out}")
    return getattr(imported, name)


if __name__ == "__main__":
    player = OnnxPolicy()
    if player.about["not_made"]:
        sys.exit(
            f"this program cannot make the environment: {player.about['not_made']}; pass observations to OnnxPolicy.act"
        )
    sys.path.append(str(Path.cwd()))  # the environment may be in a module of the user
    games, seed = map(int, [*sys.argv[1:], *("10", "0")[len(sys.argv) - 1 :]])
    try:
        scores = play(player, games, seed)
    except ImportError as error:
        sys.exit(str(error))
    print(f"{len(scores)} games: mean score {np.mean(scores):.2f}, standard deviation {np.std(scores):.2f}")
