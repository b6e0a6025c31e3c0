"""Atari games through EnvPool: an alternative to ale-py's vector environment (``envs/atari.py``), with the same keys.

Ids are ale-py's behind a prefix: envpool:ALE/Pong-v5. Rows are ale-py's in shape and meaning. Both emulate by ALE, sum
rewards over skipped frames, take the maximum of the last two frames in gray, and resize by area, rounded: after as many
no-ops all rows are the same bit by bit, but for the last of a game. ``tests/envs/test_envpool_atari.py`` shows it, and
that random games are alike in length, in score and in what is seen. They differ in:

    |                       | ale-py 0.12.1                        | EnvPool 1.2.5                                  |
    |-----------------------|--------------------------------------|------------------------------------------------|
    | no-ops at the start   | 0 … noop_max                         | 1 … noop_max; so noop_max must be 1 or more    |
    | `fire_on_reset`       | FIRE is one of the no-ops            | the same, and the last of them                 |
    | frames before a       | black                                | copies of the first; made black here           |
    | game's first          |                                      |                                                |
    | newest frame of a     | may lag by a frame                   | may be that of the step before                 |
    | game's last row       |                                      |                                                |
    | preset ba3c           | the last frame alone                 | always pooled, so it is refused                |
    | screens of more than  | whole                                | without the lines below the 210th              |
    | 210 lines             |                                      |                                                |

Screens of 214 to 250 lines are those of Adventure, Air Raid, Carnival, Journey Escape, Keystone Kapers, King Kong,
Klax, Laser Gates, Mr. Do!, Pac-Man, Pooyan, Sir Lancelot and Space War. EnvPool has no Combat, Joust, Maze Craze and
Warlords.

Reads: EnvPoolAtariSettings, seeds, actions. Writes: rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
"""Years of play, and far from where EnvPool's 32-bit counter overflows."""

Array = npt.NDArray[Any]


class EnvPoolAtari(Pooled):
    """B games of one ROM."""

    def __init__(
        self, settings: EnvPoolAtariSettings, seeds: Sequence[int], beat: Callable[[], object], **options: Any
    ) -> None:
        """One game per seed; ``options`` are further arguments of EnvPool."""
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
        """Return the kept lines of screens [n, stack, lines, columns]; frames before a game's first become black."""
        observation = observation[:, :, self._lines]
        black = self._stack - 1 - info["elapsed_step"]
        for i in np.flatnonzero(black > 0).tolist():
            observation[i, : black[i]] = 0
        return observation

    def _ends(self, terminated: Array, truncated: Array, info: dict[str, Any]) -> tuple[Array, Array]:
        over = info["terminated"].astype(np.bool_)
        return over, truncated & ~over


class RenderedEnvPoolAtari(EnvPoolAtari):
    """B games that are shown too."""

    def __init__(
        self, settings: EnvPoolAtariSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None
    ) -> None:
        """One game per seed."""
        super().__init__(settings, seeds, beat, render_mode="rgb_array")


def make(
    settings: EnvPoolAtariSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None
) -> EnvPoolAtari:
    """One game per seed."""
    return EnvPoolAtari(settings, seeds, beat)


def make_rendered(
    settings: EnvPoolAtariSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None
) -> RenderedEnvPoolAtari:
    """One game per seed, which is shown."""
    return RenderedEnvPoolAtari(settings, seeds, beat)


def spec(settings: EnvPoolAtariSettings) -> EnvSpec:
    """Shapes and counts: ale-py's, of the same game."""
    known(f"envpool:ALE/{_name(settings.id)}")
    game = settings.id.removeprefix("envpool:")
    found = atari.spec(msgspec.structs.replace(settings, id=game))
    return msgspec.structs.replace(found, inexact=_inexact(settings, atari.rom(game)))


def _name(env_id: str) -> str:
    """Return EnvPool's own id of a game; it writes one of them with fewer capitals."""
    return env_id.removeprefix("envpool:ALE/").replace("TicTacToe3D", "TicTacToe3d")


def _inexact(settings: EnvPoolAtariSettings, rom: str) -> str:
    """Say why a run with these games cannot be resumed exactly; empty where it can."""
    if settings.repeat_action_probability > 0:
        return "EnvPool cannot repeat sticky actions from within a game: ale-py can, by env.id without envpool:"
    if rom in KEEPS_MEMORY:
        return f"a game of {rom} depends on those before it: ale-py repeats these, by env.id without envpool:"
    return ""
