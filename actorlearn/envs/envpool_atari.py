"""Atari games through EnvPool: an alternative to ale-py's vector environment (``envs/atari.py``), with the same keys.

Ids are ale-py's with a prefix: envpool:ALE/Pong-v5. Shapes and meanings are those of ale-py. Both programs use ALE, sum
rewards over skipped frames, take the maximum of the last two frames in gray, and resize by area with rounding. After
the same number of no-ops all steps of a game are bit-identical, except the last one. Random games have similar lengths,
scores and observations. ``tests/envs/test_envpool_atari.py`` tests both. The programs differ in:

    |                       | ale-py 0.12.1                        | EnvPool 1.2.5                                  |
    |-----------------------|--------------------------------------|------------------------------------------------|
    | no-ops at the start   | 0 … noop_max                         | 1 … noop_max; so noop_max must be 1 or more    |
    | `fire_on_reset`       | FIRE is one of the no-ops            | FIRE is the last of the no-ops                 |
    | frames before a       | black                                | copies of the first; made black here           |
    | game's first          |                                      |                                                |
    | newest frame of a     | may lag by a frame                   | may be that of the previous step               |
    | game's last step      |                                      |                                                |
    | preset ba3c           | supported                            | not supported: frames are always pooled        |
    | screens of more than  | whole                                | without the lines below the 210th              |
    | 210 lines             |                                      |                                                |

These games have screens of 214 to 250 lines: Adventure, Air Raid, Carnival, Journey Escape, Keystone Kapers, King Kong,
Klax, Laser Gates, Mr. Do!, Pac-Man, Pooyan, Sir Lancelot and Space War. EnvPool does not have Combat, Joust, Maze Craze
and Warlords.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from actorlearn.envs import atari
from actorlearn.envs.envpool_env import Pooled, known
from actorlearn.envs.history import KEEPS_MEMORY
from actorlearn.envs.interface import EnvSpec
from actorlearn.envs.specs import EnvPoolAtariSettings

UNLIMITED_STEPS = 2**30
"""Value of EnvPool's time limit for games that have none: years of play, and below the overflow of a 32-bit counter."""

Array = npt.NDArray[Any]


class EnvPoolAtari(Pooled):
    """B games of one ROM, played by EnvPool."""

    def __init__(
        self,
        settings: EnvPoolAtariSettings,
        seeds: Sequence[int],
        beat: Callable[[], object] = lambda: None,
        **options: Any,
    ) -> None:
        preset = atari.PRESETS[settings.preset]
        self._lines, self._stack = preset.lines, settings.stack
        options |= {
            "task_id": _name(settings.id),
            "img_height": preset.render_height,
            "img_width": preset.render_width,
            "stack_num": settings.stack,
            "frame_skip": settings.frame_skip,
            "noop_max": settings.noop_max,
            "repeat_action_probability": settings.repeat_action_probability,
            "full_action_space": settings.full_action_space,
            "use_fire_reset": settings.fire_on_reset,
            "max_episode_steps": min(settings.time_limit_steps or UNLIMITED_STEPS, UNLIMITED_STEPS),
            "episodic_life": False,
            "reward_clip": False,
        }
        super().__init__(settings.id, spec(settings), seeds, options, beat)

    def _taken(self, action: Array) -> Array:
        return action.astype(np.int32, copy=False)

    def _converted(self, observation: Array, info: dict[str, Any]) -> Array:
        """Return the lines of screens [n, stack, height, width] that the preset keeps.

        Frames before a game's first frame become black.
        """
        observation = observation[:, :, self._lines]
        black = self._stack - 1 - info["elapsed_step"]
        for i in np.flatnonzero(black > 0).tolist():
            observation[i, : black[i]] = 0
        return observation

    def _ends(self, terminated: Array, truncated: Array, info: dict[str, Any]) -> tuple[Array, Array]:
        over = info["terminated"].astype(np.bool_)
        return over, truncated & ~over


make, make_rendered = EnvPoolAtari, partial(EnvPoolAtari, render_mode="rgb_array")


def spec(settings: EnvPoolAtariSettings) -> EnvSpec:
    """Return the `EnvSpec`, which is that of ale-py for the same game."""
    known(f"envpool:ALE/{_name(settings.id)}")
    game = settings.id.removeprefix("envpool:")
    found = atari.spec(msgspec.structs.replace(settings, id=game))
    return msgspec.structs.replace(found, inexact=_inexact(settings, atari.rom(game)))


def _name(env_id: str) -> str:
    """Return EnvPool's name of a game; one name has other capital letters than ale-py's."""
    return env_id.removeprefix("envpool:ALE/").replace("TicTacToe3D", "TicTacToe3d")


def _inexact(settings: EnvPoolAtariSettings, rom: str) -> str:
    """Return the reason why a run with these games cannot be resumed exactly; "" if it can."""
    if settings.repeat_action_probability > 0:
        return (
            "EnvPool cannot restore a game with sticky actions; ale-py can, for an env.id without the prefix envpool:"
        )
    if rom in KEEPS_MEMORY:
        return (
            f"a game of {rom} depends on the games before it, so EnvPool cannot restore it; ale-py can, "
            "for an env.id without the prefix envpool:"
        )
    return ""
