"""One Atari game played frame by frame by ale-py, with which faster implementations are compared."""

from __future__ import annotations

import ale_py
import numpy as np
from ale_py import roms

from actorlearn.envs import atari
from actorlearn.envs.specs import EnvSettings

SIZES = {  # height and width of the resized screen, and the lines that are kept
    "ba3c": (84, 84, range(84)),
    "dqn": (84, 84, range(84)),
    "paac": (84, 84, range(84)),
    "pong": (58, 44, range(9, 53)),
    "small": (44, 44, range(44)),
    "stooke-abbeel": (105, 80, range(104)),
}


def area_weights(source: int, target: int) -> np.ndarray:
    """Row i holds the share of each source line in target line i."""
    edges = np.linspace(0, source, target + 1)
    lines = np.arange(source)
    overlap = np.minimum(edges[1:, None], lines + 1) - np.maximum(edges[:-1, None], lines)
    return np.clip(overlap, 0, None) * target / source


class SlowGame:
    """One game of one environment, played frame by frame."""

    def __init__(self, settings: EnvSettings, seed: int, noops: int = 0) -> None:
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.setInt("random_seed", seed)
        self.ale.loadROM(roms.get_rom_path(atari.rom(settings.id)))
        self.actions = self.ale.getMinimalActionSet()
        self.settings = settings
        self.noops = noops
        height, width, self.kept = SIZES[settings.preset]
        self.colour = settings.preset == "ba3c"
        lines, columns = self.ale.getScreenDims()
        self.down, self.across = area_weights(lines, height), area_weights(columns, width)
        self.ended = True

    def reset(self) -> dict[str, object]:
        self.ale.reset_game()
        for _ in range(self.noops):
            self.ale.act(0)
        self.pooled = self._screen()
        self.frames = [np.zeros((len(self.kept), self.across.shape[0], *self.pooled.shape[2:]))] * self.settings.stack
        self.elapsed = 0
        self.ended = False
        return self._row(0, False, False, False, True)

    def step(self, action: int) -> dict[str, object]:
        if self.ended:
            return self.reset()
        lives, reward, screens = self.ale.lives(), 0, []
        while len(screens) < self.settings.frame_skip and not self.ale.game_over():
            reward += self.ale.act(self.actions[action])
            screens.append(self._screen())
        self.elapsed += 1
        over = self.ale.game_over()
        cut = not over and self.elapsed == self.settings.time_limit_steps
        self.ended = over or cut
        self._pool(screens)
        lost = 0 < self.ale.lives() < lives and not self.ended
        return self._row(reward, over, cut, lost, False)

    def _screen(self) -> np.ndarray:
        return self.ale.getScreenRGB() if self.colour else self.ale.getScreenGrayscale()

    def _pool(self, screens: list[np.ndarray]) -> None:
        if self.colour:
            self.pooled = self.pooled if self.ended else screens[-1]
        elif not self.ended:
            self.pooled = np.maximum(*screens[-2:]) if len(screens) > 1 else screens[0]
        elif len(screens) == self.settings.frame_skip:  # the lag of final observations: see atari.py
            self.pooled = np.maximum(self.pooled, screens[-2])

    def _row(self, reward: int, over: bool, cut: bool, lost: bool, first: bool) -> dict[str, object]:
        small = np.einsum("yl,lc...,xc->yx...", self.down, self.pooled, self.across, optimize=True)
        small = small[self.kept.start : self.kept.stop]
        self.frames = [*self.frames[1:], small]
        frames = [np.moveaxis(frame, -1, 0) if self.colour else frame[None] for frame in self.frames]
        return {
            "observation": np.concatenate(frames),
            "reward": reward,
            "terminated": over,
            "truncated": cut,
            "life_lost": lost,
            "first": first,
        }
