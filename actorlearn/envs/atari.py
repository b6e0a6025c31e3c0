"""Atari games through ale-py's C++ vector environment. The only file that imports ale_py.

Rewards are not clipped here, and a lost life is only reported; the learner decides what it means.

A preset (``env.preset``) determines how screens become an observation. Every preset sums rewards over the skipped
frames and resizes by area, the only way that ale-py offers. All presets but ba3c take the maximum of the last two
frames ("pooling"), in gray. The presets differ from the papers' code as follows:

    | preset        | observation      | of               | differs from that paper's code in                      |
    |---------------|------------------|------------------|--------------------------------------------------------|
    | dqn           | [stack, 84, 84]  | Mnih 2015        | area, not bilinear resize; gray is ALE's own palette,  |
    |               |                  |                  | not the luminance of the maximum over RGB              |
    | paac          | [stack, 84, 84]  | Clemente 2017    | area, not nearest resize; a game starts with stack-1   |
    |               |                  |                  | black frames, not with a history filled by 16 frames   |
    |               |                  |                  | of no-ops. Pixels are those of dqn                     |
    | small         | [stack, 44, 44]  | no paper         | as dqn with a quarter of the pixels: acting and        |
    |               |                  |                  | learning take a quarter of the time with the same      |
    |               |                  |                  | convolutions                                           |
    | pong          | [stack, 44, 44]  | no paper         | as small, but only Pong's field, without the score:    |
    |               |                  |                  | lines 33 to 191 of 210                                 |
    | stooke-abbeel | [stack, 104, 80] | Stooke 2018,     | no NOOP, FIRE, UP at a game's start and after each     |
    |               |                  | accel_rl         | lost life, and the history is not cleared then         |
    | ba3c          | [3 stack, 84,    | Adamski 2018     | the same number of frames each step, not 2, 3 or 4 at  |
    |               | 84]              |                  | random; area, not bilinear resize. Observations have   |
    |               |                  |                  | red, green and blue, of the last frame only            |

In all presets a new game's first frame is not pooled, and the frames before it are black. `noop_max` counts emulator
frames; the number of no-ops is drawn from 0 to `noop_max`. With `fire_on_reset`, FIRE takes one frame and counts as one
of the no-ops.

This file works around these properties of ale-py 0.12.1, each with a test:

* `life_loss_info=True` reports a lost life as `terminated` and hides a truncation in the same step. So it stays off,
  `terminated` means game over only, and lives are compared here. A life is lost if there are fewer lives than before
  and not 0, as in ale-py and in baselines' EpisodicLife.
* An action out of range makes `step` wait forever, so such an action is refused here.
* `noop_max=n` draws from 0 … n-1, so n + 1 is passed.
* It cannot save or load the state of an emulator, so seeds and actions are recorded instead (``envs/history.py``).
* The step in which a game ends or is truncated does not use its last frame. The final observation is made from earlier
  frames of the step and the previous observation, so it may lag by a frame.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import ale_py
import numpy as np
import numpy.typing as npt
from ale_py import roms
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode

from actorlearn.actions import draw
from actorlearn.envs.history import KEEPS_MEMORY, ActionHistory
from actorlearn.envs.interface import EnvSpec, Row, ShortRepr, check_actions, seed31
from actorlearn.envs.specs import AtariSettings
from actorlearn.nearest import nearest

UNLIMITED_FRAMES = 2**30
"""Value of ALE's time limit, in frames, for games that have none: months of play, without overflow of 32 bits."""


@dataclass(frozen=True)
class Preset:
    """How screens become the frames of an observation: size, lines that are kept, colours and pooling."""

    render_height: int
    """Height of the resized screen in pixels, of which ``kept_lines`` lines are kept."""
    render_width: int
    kept_lines: int
    first_line: int = 0
    """Index of the first line that is kept."""
    colours: int = 1
    """Channels of a frame: 1 (gray) or 3 (red, green and blue)."""
    pooled: bool = True
    """Whether a frame is the maximum of the last two emulated frames; False: the last one only."""

    @property
    def lines(self) -> slice:
        """The lines of the resized screen that are kept, as a slice."""
        return slice(self.first_line, self.first_line + self.kept_lines)


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "ba3c": Preset(84, 84, 84, colours=3, pooled=False),
        "dqn": Preset(84, 84, 84),
        "paac": Preset(84, 84, 84),
        # The sides are divisible by four, which "space-to-depth" needs, and nips' second convolution covers the whole
        # image: with 40x40 it would leave out the last four columns, which have the player's paddle in Pong.
        "small": Preset(44, 44, 44),
        # pong: 58 lines of 210 / 58 = 3.6 each; the first 9 are the score and the upper wall, the last 5 the lower
        # wall. stooke-abbeel: 210x160 halved is 105x80; dropping its last line equals accel_rl's cropping of the two
        # bottom lines before halving.
        "pong": Preset(58, 44, 44, first_line=9),
        "stooke-abbeel": Preset(105, 80, 104),
    }
)


class Atari(ShortRepr):
    """B games of one ROM, stepped by one thread of ALE while the calling thread sleeps."""

    def __init__(
        self, settings: AtariSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None
    ) -> None:
        """Make one game per seed; ``restore`` calls ``beat`` again and again, as a sign that it does not hang."""
        preset = PRESETS[settings.preset]
        self.spec = spec(settings)
        self.count = len(seeds)
        self._beat = beat
        keeps = settings.repeat_action_probability > 0 or rom(settings.id) in KEEPS_MEMORY
        self._history = ActionHistory([seed31(seed) for seed in seeds], whole=keeps)
        frames = settings.time_limit_steps * settings.frame_skip
        self._lines, self._colours = preset.lines, preset.colours
        self._id = settings.id
        self._ended = np.zeros(self.count, np.bool_)
        self._lives = np.zeros(self.count, np.int32)
        self._game: dict[str, Any] = {
            "game": rom(settings.id),
            "num_envs": self.count,
            "num_threads": 1,
            "max_num_frames_per_episode": min(frames or UNLIMITED_FRAMES, UNLIMITED_FRAMES),
            "repeat_action_probability": settings.repeat_action_probability,
            "full_action_space": settings.full_action_space,
            "autoreset_mode": AutoresetMode.NEXT_STEP,
            "frameskip": settings.frame_skip,
            "noop_max": settings.noop_max + 1,
            "life_loss_info": False,
            "reward_clipping": False,
            "use_fire_reset": settings.fire_on_reset,
        }
        self._env: AtariVectorEnv | None = AtariVectorEnv(
            **self._game,
            img_height=preset.render_height,
            img_width=preset.render_width,
            grayscale=preset.colours == 1,
            maxpool=preset.pooled,
            stack_num=settings.stack,
        )

    def reset(self, row: Row) -> None:
        """Start every game from its seed, and write the first observations to ``row``."""
        env = self._open()
        self._history.begin()
        observation, info = env.reset(seed=self._history.seeds())
        self._begin(observation, info, slice(None), row)

    def step(self, action: npt.NDArray[np.integer[Any]], row: Row) -> None:
        """Take action [B], and write the results to ``row``."""
        env = self._open()
        check_actions(action, self.count, self.spec.actions)
        observation, reward, terminated, truncated, info = env.step(action.astype(np.int64, copy=False))
        row.observation[...] = self._kept(observation)  # gray screens are copied only here; ALE's array is new
        row.reward[...] = reward
        row.terminated[...] = terminated
        row.truncated[...] = truncated
        first = self._ended
        row.first[...] = first
        lives = info["lives"]
        boundary = terminated | truncated
        row.life_lost[...] = (lives < self._lives) & (lives > 0) & ~(boundary | first)
        self._lives = lives
        self._ended = boundary
        reseeded = self._history.step(action, first)
        if reseeded is not None:
            observation, info = self._reset(reseeded, self._history.seeds()[reseeded])
            self._begin(observation, info, reseeded, row)

    def restart(self, chosen: npt.NDArray[np.bool_], row: Row) -> None:
        """Start a new game in the chosen environments, and write their first observations to ``row``."""
        self._open()
        observation, info = self._reset(chosen, self._history.restart(chosen))
        self._begin(observation, info, chosen, row)

    def _begin(
        self, observation: npt.NDArray[Any], info: dict[str, Any], chosen: slice | npt.NDArray[np.bool_], row: Row
    ) -> None:
        row.observation[chosen] = self._kept(observation)[chosen]
        row.begin(chosen)
        self._ended[chosen] = False
        self._lives = info["lives"]

    def _kept(self, observation: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert ALE's screens [B, stack, height, width (, 3)] to observations [B, C, kept lines, width]."""
        kept = observation[:, :, self._lines]
        if self._colours == 1:
            return kept
        return kept.transpose(0, 1, 4, 2, 3).reshape(self.count, *self.spec.observation_shape)

    def random_actions(self, random: np.random.Generator) -> npt.NDArray[np.int64]:
        """Draw one action for each game."""
        return draw(self.spec.actions, (self.count,), random)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the recorded seeds and actions of the games, and a checksum of each game's current screens."""
        shown, lives, frames = self._seen()
        own = {"ended": self._ended, "shown": shown, "lives": lives, "frames": frames}
        return {name: array.copy() for name, array in own.items()} | self._history.state()

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Replay the recorded games; raises ValueError if they do not reach the saved screens, lives and frames."""
        env = self._open()
        try:
            wanted = {name: state[name] for name in ("ended", "shown", "lives", "frames")}
            self._history.restore(state)
            self._replay(env)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            message = f"{self._id!r} cannot restore this state: {type(error).__name__}: {error}"
            raise ValueError(message) from error
        shown, self._lives, frames = self._seen()
        found = {"ended": self._ended, "shown": shown, "lives": self._lives, "frames": frames}
        for name, values in found.items():
            if (wrong := np.flatnonzero(values != wanted[name])).size:
                i = wrong[0]
                raise ValueError(
                    f"environment {i} of {self._id!r} does not reach the saved state: {name} is {values[i]}, and was "
                    f"{wanted[name][i]}; use the version of ale-py with which the state was saved"
                )

    def _replay(self, env: AtariVectorEnv) -> None:
        env.reset()
        for move in self._history.replay():
            self._beat()
            if move.action is None:
                self._reset(move.chosen, move.seeds)
                self._ended[move.chosen] = False
            else:
                _, _, terminated, truncated, _ = env.step(move.action)
                self._ended = terminated | truncated

    def _seen(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return a checksum of the screens, the lives, and the number of frames of the running game: [B] each."""
        observation, info = self._reset(np.zeros(self.count, np.bool_))
        shown = [zlib.crc32(screens.tobytes()) for screens in observation]
        return np.array(shown, np.int64), info["lives"], info["episode_frame_number"]

    def _reset(self, chosen: npt.NDArray[np.bool_], seeds: npt.NDArray[np.int64] | None = None) -> Any:
        """Reset the chosen environments [B]; returns the observations of all, and the info.

        ``seeds`` has a seed for each chosen environment; with -1 it continues its random numbers.
        """
        return self._open().reset(seed=seeds, options={"reset_mask": chosen})

    def close(self) -> None:
        """End ALE's thread and free its memory."""
        self._env = None  # AtariVectorEnv.close does nothing; its C++ part is freed with the last reference

    def _open(self) -> AtariVectorEnv:
        if self._env is None:
            raise RuntimeError("the environments are closed")
        return self._env


class Shown:
    """Two vector environments that play the same games: one makes observations, the other whole screens in colour."""

    def __init__(self, seen: AtariVectorEnv, screens: AtariVectorEnv) -> None:
        """Join the vector environments of observations and of screens; neither must have been reset yet."""
        self._seen, self._screens = seen, screens
        self.pictures: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)
        """Whole screens in colour [B, height, width, 3]; empty before the first reset."""

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Reset both vector environments; return the result of the one that makes observations."""
        self.pictures = self._screens.reset(seed=seed, options=options and dict(options))[0][:, -1]
        return self._seen.reset(seed=seed, options=options)

    def step(self, action: npt.NDArray[np.int64]) -> Any:
        """Step both vector environments; return the result of the one that makes observations."""
        self.pictures = self._screens.step(action)[0][:, -1]
        return self._seen.step(action)


class RenderedAtari(Atari):
    """B games that can also be drawn, without an effect on the games."""

    def __init__(
        self, settings: AtariSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None
    ) -> None:
        """Make one game per seed; each game is emulated twice, for observations and for pictures."""
        super().__init__(settings, seeds, beat)
        lines, columns = _load(rom(settings.id)).getScreenDims()
        screens = AtariVectorEnv(**self._game, img_height=lines, img_width=columns, grayscale=False, stack_num=1)
        self._shown = Shown(self._open(), screens)
        self._env = self._shown  # type: ignore[assignment]  # it has `reset` and `step`

    def render(self) -> npt.NDArray[np.uint8]:
        """Return the whole screens in colour, [B, height, width, 3]."""
        return self._shown.pictures


make, make_rendered = Atari, RenderedAtari


def spec(settings: AtariSettings) -> EnvSpec:
    """Return the `EnvSpec` of a game; loads the ROM, once per process, for its actions."""
    preset, actions = PRESETS[settings.preset], _actions(rom(settings.id), settings.full_action_space)
    return EnvSpec(
        observation_shape=(settings.stack * preset.colours, preset.kept_lines, preset.render_width),
        observation_dtype="uint8",
        actions=len(actions),
        frames_per_step=settings.frame_skip,
        stack=settings.frames_stacked,
        fire=actions.index(ale_py.Action.FIRE) if ale_py.Action.FIRE in actions else None,
    )


@functools.cache
def ids() -> Mapping[str, str]:
    """Return all ids of Atari games with their ROMs: {"ALE/MsPacman-v5": "ms_pacman", …}."""
    return MappingProxyType({f"ALE/{name.title().replace('_', '')}-v5": name for name in roms.get_all_rom_ids()})


def rom(env_id: str) -> str:
    """Return the ROM of an id; raises ValueError for an unknown id, with the most similar known id."""
    known = ids()
    if env_id in known:
        return known[env_id]
    bare = re.sub(r"^ALE/|-v\d+$|[^A-Za-z0-9]", "", env_id).lower()
    by_name = {re.sub(r"\W", "", known_id[4:-3]).lower(): known_id for known_id in known}
    closest = by_name[nearest(bare, by_name, likeness=0.0)]
    raise ValueError(f"env.id: {env_id!r} is not a known game; did you mean {closest!r}?")


@functools.cache
def _actions(name: str, full_action_space: bool) -> tuple[ale_py.Action, ...]:
    ale = _load(name)
    return tuple(ale.getLegalActionSet() if full_action_space else ale.getMinimalActionSet())


def _load(name: str) -> ale_py.ALEInterface:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # otherwise each ROM prints a banner
    ale = ale_py.ALEInterface()
    try:
        path = roms.get_rom_path(name)
    except OSError as error:
        raise ValueError(
            f"env.id: the ROM file of {name!r} cannot be read: {error}; unset ALE_ROMS_DIR, or install ale-py again"
        ) from None
    assert path is not None  # the names are those for which it has a path
    ale.loadROM(path)
    return ale
