"""The policy of a run, loaded from its folder to act outside the run.

Reads ``settings/`` (a simulator's network, algorithm and environment) and a checkpoint. Writes nothing. Users call
``actorlearn.load_policy``.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import torch

from actorlearn.acting.policy import Policy
from actorlearn.algorithms.interface import Algorithm
from actorlearn.envs.interface import VectorEnv
from actorlearn.envs.make import make as make_environments
from actorlearn.envs.specs import ENVIRONMENTS
from actorlearn.parameters.checkpoint import Checkpoint, choose_and_open, open_found
from actorlearn.parameters.checkpoint_folders import directory_of
from actorlearn.parameters.chosen_checkpoints import NEWEST, choose
from actorlearn.registry import open_to
from actorlearn.worker.settings import PolicySettings, read

if TYPE_CHECKING:
    from actorlearn.envs.specs import EnvSettings as Env
else:
    Env = open_to(ENVIRONMENTS)


class _ActingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a simulator's settings from which a policy is built; other fields are ignored."""

    env: Env
    policy: PolicySettings


class LoadedPolicy:
    """A trained policy for N environments at a time."""

    def __init__(self, settings: PolicySettings, env: Env, checkpoint: Checkpoint, seed: int) -> None:
        """Build the network on the CPU, with the checkpoint's weights."""
        self.settings = settings
        """Shapes, actions, network and algorithm."""
        self.env = env
        """Settings of the environment in which it was trained."""
        self.checkpoint = checkpoint.path
        """Folder of the checkpoint with its weights."""
        self.env_steps = int(checkpoint.state["env_steps"])
        """Steps of all environments that its weights have learned from."""
        self._policy = Policy(settings, "cpu", seed, stream=0)
        self._policy.compute_all_heads()  # the caller may use the network
        self._policy.network.load_state_dict(checkpoint.section("weights"))
        self._state = torch.zeros(0, self._policy.state_size)
        self._moment = 0

    @property
    def network(self) -> torch.nn.Module:
        """The network: maps observations [N, …] to heads [N, size] by name (``models/interface.py``)."""
        network: torch.nn.Module = self._policy.network
        return network

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm, which chooses actions from the network's outputs (``algorithms/interface.py``)."""
        return self._policy.algorithm

    @property
    def state_size(self) -> int:
        """Length of a recurrent network's state for each environment; 0: the network is not recurrent."""
        return self._policy.state_size

    def environments(self, count: int = 1, seed: int = 0) -> VectorEnv:
        """Make environments with the settings that it was trained with (``envs/interface.py``)."""
        return make_environments(self.env, [seed + number for number in range(count)])

    def act(
        self, observation: npt.ArrayLike, *, greedy: bool = False, first: npt.ArrayLike | None = None
    ) -> npt.NDArray[Any]:
        """Return actions [N], or [N, k] for actions with k parts, for observations [N, …] of N environments.

        Actions are sampled as in evaluations, or the most probable ones if ``greedy``. They have the form that
        ``environments`` accept: with ``env.scale_actions`` they are from -1 to 1, and an action means
        ``low + (action + 1) / 2 * (high - low)`` of a Box. For a recurrent network the policy stores each environment's
        state from call to call. ``first`` [N] says which environments begin a game; in the first call all do. Raises
        ValueError for another shape, and TypeError for floats if the network takes uint8.
        """
        found, shape = np.asarray(observation), self.settings.observation_shape
        if found.ndim == 0 or found.shape[1:] != shape:
            raise ValueError(f"observation has shape {list(found.shape)}; it must have N rows of shape {list(shape)}")
        rows = torch.from_numpy(found.astype(self.settings.observation_dtype, casting="same_kind"))
        state = begins = None
        if self._policy.state_size:
            anew = len(self._state) != len(rows)
            state = torch.zeros(len(rows), self._policy.state_size) if anew else self._state
            begins = torch.tensor(np.broadcast_to(anew if first is None else np.asarray(first, np.bool_), len(rows)))
        chosen = self._policy.choose(rows, self._moment, greedy, state, begins)
        self._state = chosen.get("state", self._state)
        self._moment += 1
        action: npt.NDArray[Any] = chosen["action"].numpy()
        return action


def load(run_dir: str | PathLike[str], learner: int, seed: int, at: str | int = NEWEST) -> LoadedPolicy:
    """Load a policy; see ``actorlearn.load_policy``."""
    folder = Path(run_dir)
    settings = sorted((folder / "settings").glob("simulator-0.*.json"), key=lambda path: path.stat().st_mtime)
    if not settings:
        raise ValueError(
            f"{folder} is not the folder of a run: it has no settings/simulator-0.*.json; name a folder under runs/"
        )
    own = read(settings[-1], _ActingSettings)
    directory = directory_of(folder / "checkpoints", learner)
    return LoadedPolicy(own.policy, own.env, choose_and_open(lambda: choose(directory, at), open_found), seed)
