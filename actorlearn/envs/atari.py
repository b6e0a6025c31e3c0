"""Atari games through ale-py's C++ vector environment. The only file that imports ale_py.

Reads: EnvSettings, one seed per environment, actions. Writes: rows; one copy from ALE's array into `row.observation`.
Refuses to know: blocks, clipping of rewards, what a lost life means for learning.

A preset is how a screen becomes an observation. Every preset sums rewards over the skipped frames, takes the maximum
of the last two of them, grayscale, and resizes by area (ale-py offers no other way). What it does not reproduce:

    | preset        | observation      | of               | differs from that paper's code in                      |
    |---------------|------------------|------------------|--------------------------------------------------------|
    | dqn           | [stack, 84, 84]  | Mnih 2015        | area, not bilinear resize; gray is ALE's own palette,  |
    |               |                  |                  | not the luminance of the maximum over RGB              |
    | paac          | [stack, 84, 84]  | Clemente 2017    | area, not nearest resize; a game starts with stack-1   |
    |               |                  |                  | black frames, not with a history filled by 16 frames   |
    |               |                  |                  | of no-ops. Pixels are those of dqn                     |
    | stooke-abbeel | [stack, 104, 80] | Stooke 2018,     | no NOOP, FIRE, UP at a game's start and after each     |
    |               |                  | accel_rl         | lost life, and the history is not blanked there        |

Of all presets: a new game's first frame is not pooled and the frames before it are black. `noop_max` counts emulator
frames and includes 0. With `fire_on_reset`, FIRE is one frame, and counts as one of the no-ops.

Facts of ale-py 0.12.1 this file works around, each with a test:

* `life_loss_info=True` reports a lost life as `terminated`, and hides a truncation in the same step. So it stays off,
  `terminated` is game over alone, and lives are compared here (lost = fewer than before and not 0, ale-py's own rule
  and that of baselines' EpisodicLife).
* An action out of range makes `step` wait for ever: it is refused here.
* `noop_max=n` draws from 0 … n-1, so it gets one more.
* The step a game ends in (over or truncated) stops before the last frame is taken: its final observation is pooled
  from the step's frames before that and the observation before, so it may lag by a frame.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import ale_py
import numpy as np
import numpy.typing as npt
from ale_py import roms
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode

from actorlearn.actions import drawn
from actorlearn.envs.interface import EnvSettings, EnvSpec, Row, check_actions, seed31

UNLIMITED_FRAMES = 2**30
"""Months of play, and far from where ALE's 32-bit counter overflows."""


@dataclass(frozen=True)
class Preset:
    """Size of the resized screen, and how many of its upper lines are kept."""

    render_height: int
    render_width: int
    kept_lines: int


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "dqn": Preset(84, 84, 84),
        "paac": Preset(84, 84, 84),
        # 210x160 halved is 105x80; without its last line that is accel_rl's two bottom lines cropped, then halved.
        "stooke-abbeel": Preset(105, 80, 104),
    }
)


class Atari:
    """B games of one ROM, stepped by one thread of ALE while this one waits without spinning."""

    def __init__(self, settings: EnvSettings, seeds: Sequence[int]) -> None:
        """One game per seed."""
        preset = _preset(settings)
        self.spec = spec(settings)
        self.count = len(seeds)
        self._seeds = np.array([seed31(seed) for seed in seeds], np.int64)
        frames = settings.time_limit_steps * settings.frame_skip
        self._lines = preset.kept_lines
        self._ended = np.zeros(self.count, np.bool_)
        self._lives = np.zeros(self.count, np.int32)
        self._env: AtariVectorEnv | None = AtariVectorEnv(
            rom(settings.id),
            self.count,
            num_threads=1,
            max_num_frames_per_episode=min(frames or UNLIMITED_FRAMES, UNLIMITED_FRAMES),
            repeat_action_probability=settings.repeat_action_probability,
            full_action_space=settings.full_action_space,
            autoreset_mode=AutoresetMode.NEXT_STEP,
            img_height=preset.render_height,
            img_width=preset.render_width,
            stack_num=settings.stack,
            frameskip=settings.frame_skip,
            noop_max=settings.noop_max + 1,
            life_loss_info=False,
            reward_clipping=False,
            use_fire_reset=settings.fire_on_reset,
        )

    def reset(self, row: Row) -> None:
        """Start every game from its seed; writes first rows."""
        observation, info = self._open().reset(seed=self._seeds)
        self._begin(observation, info, slice(None), row)

    def step(self, action: npt.NDArray[np.integer[Any]], row: Row) -> None:
        """Take action [B]; writes the rows it leads to."""
        env = self._open()
        check_actions(action, self.count, self.spec.actions)
        observation, reward, terminated, truncated, info = env.step(action.astype(np.int64, copy=False))
        row.observation[...] = observation[:, :, : self._lines]  # the one copy: ALE's array is new each step
        row.reward[...] = reward
        row.terminated[...] = terminated
        row.truncated[...] = truncated
        row.first[...] = self._ended
        lives = info["lives"]
        boundary = terminated | truncated
        row.life_lost[...] = (lives < self._lives) & (lives > 0) & ~(boundary | self._ended)
        self._lives = lives
        self._ended = boundary

    def restart(self, chosen: npt.NDArray[np.bool_], row: Row) -> None:
        """Start a new game in the chosen environments; writes their first rows."""
        observation, info = self._open().reset(options={"reset_mask": chosen})
        self._begin(observation, info, chosen, row)

    def _begin(
        self, observation: npt.NDArray[Any], info: dict[str, Any], chosen: slice | npt.NDArray[np.bool_], row: Row
    ) -> None:
        row.observation[chosen] = observation[chosen, :, : self._lines]
        row.reward[chosen] = 0.0
        for flag in (row.terminated, row.truncated, row.life_lost):
            flag[chosen] = False
        row.first[chosen] = True
        self._ended[chosen] = False
        self._lives = info["lives"]

    def random_actions(self, random: np.random.Generator) -> npt.NDArray[np.int64]:
        """Draw one action for each game."""
        return drawn(self.spec.actions, (self.count,), random)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Not yet."""
        raise RuntimeError(self.spec.inexact)

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Not yet."""
        raise RuntimeError(self.spec.inexact)

    def close(self) -> None:
        """Join ALE's thread and free its memory."""
        self._env = None  # AtariVectorEnv.close does nothing; its C++ part ends with the last reference

    def _open(self) -> AtariVectorEnv:
        if self._env is None:
            raise RuntimeError("the environments are closed")
        return self._env


def make(settings: EnvSettings, seeds: Sequence[int]) -> Atari:
    """One game per seed."""
    return Atari(settings, seeds)


def spec(settings: EnvSettings) -> EnvSpec:
    """Shapes and counts; reads the ROM once per process to count its actions."""
    preset = _preset(settings)
    return EnvSpec(
        observation_shape=(settings.stack, preset.kept_lines, preset.render_width),
        observation_dtype="uint8",
        actions=_action_count(rom(settings.id), settings.full_action_space),
        frames_per_step=settings.frame_skip,
        stack=settings.stack,
        inexact="the emulator's state is not kept yet",
    )


@functools.cache
def ids() -> Mapping[str, str]:
    """Every id this file knows, with the ROM it stands for: {"ALE/MsPacman-v5": "ms_pacman", …}."""
    return MappingProxyType({f"ALE/{name.title().replace('_', '')}-v5": name for name in roms.get_all_rom_ids()})


def rom(env_id: str) -> str:
    """The ROM of an id; raises ValueError with the nearest known id."""
    known = ids()
    if env_id in known:
        return known[env_id]
    bare = re.sub(r"^ALE/|-v\d+$|[^A-Za-z0-9]", "", env_id).lower()
    by_name = {re.sub(r"\W", "", known_id[4:-3]).lower(): known_id for known_id in known}
    nearest = difflib.get_close_matches(bare, by_name, n=1, cutoff=0.0)
    raise ValueError(f"env.id: {env_id!r} is not a known game; did you mean {by_name[nearest[0]]!r}?")


@functools.cache
def _action_count(name: str, full_action_space: bool) -> int:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # else every ROM prints a banner
    ale = ale_py.ALEInterface()
    path = roms.get_rom_path(name)
    if path is None:
        raise ValueError(f"env.id: ale-py has no ROM file for {name!r}")
    ale.loadROM(path)
    return len(ale.getLegalActionSet() if full_action_space else ale.getMinimalActionSet())


def _preset(settings: EnvSettings) -> Preset:
    if settings.preset not in PRESETS:
        allowed = ", ".join(PRESETS)
        raise ValueError(f"env.preset: {settings.preset!r} is not a preset; the presets are {allowed}")
    return PRESETS[settings.preset]
