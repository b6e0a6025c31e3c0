"""The policy of a run, loaded from the run's folder to act in other programs; users call ``actorlearn.load_policy``.

Reads ``policy.json`` (settings of network, algorithm and environment) and a checkpoint. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import gymnasium
import numpy as np
import numpy.typing as npt
import torch

from actorlearn.acting.policy import Policy
from actorlearn.actions import Actions
from actorlearn.algorithms.interface import Algorithm
from actorlearn.envs.construct import spaces_of
from actorlearn.envs.interface import VectorEnv
from actorlearn.envs.make import make as make_environments
from actorlearn.envs.mask_cells import cells_of, without_choice
from actorlearn.envs.observations import MisfitError
from actorlearn.envs.spaces import Spaces
from actorlearn.envs.specs import EnvSettings, GymnasiumSettings
from actorlearn.observation_parts import MASK
from actorlearn.parameters.checkpoint import Checkpoint, choose_and_open, open_found
from actorlearn.parameters.checkpoint_folders import directory_of
from actorlearn.parameters.chosen_checkpoints import NEWEST, choose, directory_of_equals, directory_of_first
from actorlearn.worker.settings import POLICY_FILE, LoadSettings, PolicySettings, read


class LoadedPolicy:
    """A trained policy, which chooses actions for one observation or for N environments at a time."""

    def __init__(self, settings: PolicySettings, env: EnvSettings, checkpoint: Checkpoint, seed: int) -> None:
        """Build the network on the CPU, with the checkpoint's weights."""
        self.settings = settings
        """Shapes, actions, network and algorithm."""
        self.env = env
        """Settings of the environment in which the policy was trained; ``action_mask`` is not auto."""
        self.checkpoint = checkpoint.path
        """Folder of the checkpoint that the weights were read from."""
        self.saved: Mapping[str, Any] = checkpoint.state
        """The plain values (counts, scores, settings) that the checkpoint contains besides its tensors."""
        self.env_steps = int(checkpoint.state["env_steps"])
        """Number of environment steps, of all environments together, that the weights have learned from."""
        self._policy = Policy(settings, "cpu", seed, stream=0)
        self._policy.compute_all_heads()  # the caller may use the network
        self._policy.network.load_state_dict(checkpoint.section("weights"))
        self._state = torch.zeros(0, self._policy.state_size)
        self._moment = 0

    def __repr__(self) -> str:
        network, steps = self.settings.model.name, f"{self.env_steps:,} steps"
        return f"<LoadedPolicy {network} for {self.env.id}: {steps}, from {self.checkpoint}>"

    if not TYPE_CHECKING:  # with this method, type checkers would accept any attribute

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError; for ``predict``, a method of Stable-Baselines3, the text recommends ``act``."""
            if name == "predict":
                raise AttributeError(
                    "a LoadedPolicy has no predict; write act(observation, greedy=True), which returns the action"
                )
            return object.__getattribute__(self, name)  # raises Python's own AttributeError for this name

    @property
    def network(self) -> torch.nn.Module:
        """The network: maps observations [N, …] to heads [N, size] by name (``models/interface.py``)."""
        network: torch.nn.Module = self._policy.network
        return network

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm, whose ``act`` chooses actions from the network's outputs (``algorithms/interface.py``)."""
        return self._policy.algorithm

    @property
    def state_size(self) -> int:
        """Length of a recurrent network's state for each environment; 0: the network is not recurrent."""
        return self._policy.state_size

    def environments(self, count: int = 1, seed: int = 0) -> VectorEnv:
        """Make environments with the settings that the policy was trained with (``envs/interface.py``)."""
        return make_environments(self.env, [seed + number for number in range(count)])

    def act(
        self, observation: Any, *, greedy: bool = False, first: npt.ArrayLike | None = None, action_mask: Any = None
    ) -> Any:
        """Return the action for one observation, or the actions for N environments.

        One observation: pass the observation that ``reset`` or ``step`` of the gymnasium environment returned; it may
        be a Dict or a Tuple. The result is an action for ``step``.

        N environments: pass observations [N, …] of the environments that the method `environments` makes. The result
        is an array of actions [N] for their ``step``, or [N, k] for actions with k parts. With ``env.scale_actions``
        the numbers are from -1 to 1; such an action means ``low + (action + 1) / 2 * (high - low)`` of the Box.

        If the environment gives its valid actions in info, pass ``action_mask=info["action_mask"]``, or N masks for N
        observations. Leave the argument out for observations of `environments`, which already contain their masks.

        Actions are sampled as in evaluations; with ``greedy`` they are the most probable ones. For a recurrent network
        the policy keeps the state of each environment from one call to the next. ``first``, a bool or bools [N], says
        whether an observation begins a game. By default it is True in the first call and when N changes, and otherwise
        False. Raises ValueError for observations of another shape, and TypeError for floats if the network takes uint8.
        """
        self._check_mask(action_mask)
        if not isinstance(observation, Mapping | tuple):
            observation = self._with_masks(np.asarray(observation), action_mask)
            if observation.ndim and observation.shape[1:] == self.settings.observation_shape:
                return self._act(observation, greedy, first)
        begins = None if first is None else [bool(first)]
        if self._reads_info and action_mask is None:
            raise ValueError("action_mask: the policy needs the valid actions: pass action_mask=info['action_mask']")
        if isinstance(self.env, GymnasiumSettings):
            action = self._act(_row(self._spaces, observation, action_mask), greedy, begins)
            return self._spaces.actions.taken(action, 1)[0]
        rows = self._with_masks(np.asarray(observation)[np.newaxis], None if action_mask is None else [action_mask])
        return self._act(rows, greedy, begins)[0]

    def play(
        self, env: gymnasium.Env[Any, Any], episodes: int = 1, *, greedy: bool = False, seed: int = 0
    ) -> list[float]:
        """Play ``episodes`` whole games in ``env``, and return the sum of the rewards of each.

        ``seed`` is the seed of the first game. Raises ValueError if the observations of ``env`` have another shape than
        in training.
        """
        scores = []
        for episode in range(episodes):
            observation, info = env.reset(seed=seed if episode == 0 else None)
            score, over, first = 0.0, False, True
            while not over:
                mask = info.get(MASK) if self._reads_info else None
                action = self.act(observation, greedy=greedy, first=first, action_mask=mask)
                observation, reward, terminated, truncated, info = env.step(action)
                score, over, first = score + float(reward), bool(terminated or truncated), False
            scores.append(score)
        return scores

    @cached_property
    def _spaces(self) -> Spaces:
        """The spaces of the gymnasium environment in which the policy was trained; it is made once to read them."""
        settings = cast("GymnasiumSettings", self.env)
        return Spaces.of(
            settings.id,
            *spaces_of(settings),
            scale_actions=settings.scale_actions,
            action_mask=settings.action_mask,
        )

    @property
    def _reads_info(self) -> bool:
        mask = self.settings.action_mask
        return mask is not None and mask.source == "info"

    def _with_masks(self, observation: npt.NDArray[Any], action_mask: Any) -> npt.NDArray[Any]:
        """Return N observations, with their N masks appended. Observations of another shape are returned unchanged."""
        mask, actions = self.settings.action_mask, self.settings.actions
        if action_mask is None or not mask or not observation.ndim:
            return observation
        if observation.shape[1:] == self.settings.observation_shape:
            raise ValueError("action_mask: these observations already contain their masks; leave the argument out")
        if observation.shape[1:] != mask.observation_shape:
            return observation
        count = len(observation)
        valid = _cells(action_mask, actions, (count,))
        return np.concatenate([observation.reshape(count, -1), valid.astype(observation.dtype)], axis=1)

    def _check_mask(self, action_mask: Any) -> None:
        """Raise ValueError if the argument ``action_mask`` is given, but the policy does not use masks from info."""
        if action_mask is not None and not self._reads_info:
            has_mask = self.settings.action_mask is not None
            reason = "expects masks of valid actions in the observations" if has_mask else "was trained without masks"
            raise ValueError(f"action_mask: the policy {reason}; leave the argument out")

    def _act(self, found: npt.NDArray[Any], greedy: bool, first: npt.ArrayLike | None) -> npt.NDArray[Any]:
        shape = self.settings.observation_shape
        if found.shape[1:] != shape:
            raise ValueError(
                f"observation has shape {list(found.shape)}; it must have N rows of shape {list(shape)}, or be one "
                "observation of the environment"
            )
        if mask := self.settings.action_mask:
            valid = found[:, -mask.length :] > 0
            if without_choice(self.settings.actions, valid).any():
                raise ValueError(
                    f"{mask} has no valid action; each observation must have at least one, except the last of a game"
                )
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


def _row(spaces: Spaces, observation: Any, action_mask: Any) -> npt.NDArray[Any]:
    """Return one observation, with its mask appended, as a batch [1, …].

    Raises ValueError if the observation or the mask does not fit the environment's spaces.
    """
    layout, masks = spaces.layout, spaces.masks
    dtype = np.uint8 if layout.dtype == np.uint8 else np.float32
    row = np.zeros((1, *layout.shape), dtype)
    try:
        layout.store(observation, row, 0)
        if masks is None:
            return row
        valid = _cells(action_mask, masks.actions) if masks.source == "info" else masks.read(observation, {})
    except MisfitError as error:
        name, value, rule = error.args
        shown = " ".join(repr(value).split())[:200]
        parts = isinstance(observation, Mapping | tuple)
        rows = "" if parts else f"; for N environments pass N rows of shape {list(layout.shape)}"
        raise ValueError(f"{name} is {shown}; {rule}{rows}") from None
    return np.concatenate([row.reshape(1, -1), valid[np.newaxis].astype(dtype)], axis=1)


def _cells(action_mask: Any, actions: Actions, batch: tuple[int, ...] = ()) -> npt.NDArray[np.bool_]:
    """Return the argument ``action_mask`` as bools, by `cells_of`; its value is added to the text of errors."""
    try:
        return cells_of(action_mask, actions, batch)
    except ValueError as error:
        raise ValueError(f"action_mask is {action_mask!r:.200}; {error}") from None


def load(run_dir: str | PathLike[str], learner: int | None, seed: int, at: str | int = NEWEST) -> LoadedPolicy:
    """Load a run's policy; see ``actorlearn.load_policy``."""
    folder = Path(run_dir)
    if not (folder / POLICY_FILE).is_file():
        raise ValueError(f"{folder} is not the folder of a run: it has no {POLICY_FILE}; {_hint_for(folder)}")
    settings = read(folder / POLICY_FILE, LoadSettings)
    root = folder / "checkpoints"

    def directory() -> Path:
        if not learner and not settings.own_weights:
            return directory_of_equals(root, at)
        return directory_of_first(root, at, settings.behind_steps) if learner is None else directory_of(root, learner)

    checkpoint = choose_and_open(lambda: choose(directory(), at), open_found)
    return LoadedPolicy(settings.policy, settings.env, checkpoint, seed)


def _hint_for(folder: Path) -> str:
    """Return advice for a path that is not a run's folder: the runs whose names begin with it, or a general rule."""
    beside = folder.parent.iterdir() if folder.name and folder.parent.is_dir() else ()
    runs = sorted(str(path) for path in beside if path.name.startswith(folder.name) and (path / POLICY_FILE).is_file())
    if not runs:
        return "name a folder under runs/"
    return f"did you mean {' or '.join(runs[:3])}?"
