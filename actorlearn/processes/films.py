"""Films (MP4) of whole games. Each game is filmed while it is played; the best, the median and the worst are kept.

The file ``games.json`` lists all games in the order in which they ended, with environment, score and number of steps.
For games that are kept it also has the file name of the film, and the trace, which has the actions, the rewards and the
policy's outputs of each step. Picture t + 1 of a film shows the result of step t of the trace.

Needs PyAV, which the extra ``video`` installs.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import numpy.typing as npt

from actorlearn.files import write_atomically

SMALLEST_SIDE = 256
"""Smallest side of a film in pixels. Smaller pictures are enlarged by a whole factor, because video players blur them.
"""
GAMES = "games.json"
"""File that lists the games."""


class Film(NamedTuple):
    """File and score of a game whose film is kept."""

    score: float
    file: str


class Game(NamedTuple):
    """A game that has been filmed."""

    environment: int
    """Index of the environment in the evaluation; its seed is the evaluation's seed plus this index."""
    score: float
    path: Path
    trace: dict[str, list[Any]]
    """Actions, rewards and outputs of the policy: name -> value of each step."""
    steps: int


class Films:
    """Records all games as films. As a context manager, it removes at the end the films that are not kept."""

    def __init__(self, folder: Path, pictures_per_s: float) -> None:
        """Write films to ``folder``, which is made with all missing parents."""
        folder.mkdir(parents=True, exist_ok=True)
        self.failure = ""
        """Reason why no game is kept; empty if there was no failure."""
        self._folder = folder
        self._rate = Fraction(pictures_per_s).limit_denominator(1000)
        self._reels = tempfile.TemporaryDirectory(prefix=".films-", dir=folder)
        self._running: dict[int, tuple[Path, Any, Any]] = {}
        """File, container and stream of the current game of each environment."""
        self._noted: dict[int, list[Mapping[str, Any]]] = {}
        """Steps of the current game of each environment."""
        self._played: list[Game] = []

    def __enter__(self) -> Films:
        return self

    def __exit__(self, *_raised: object) -> None:
        for _, container, _ in self._running.values():
            with suppress(Exception):  # the disk may be full; the file is removed anyway
                container.close()
        self._reels.cleanup()
        with suppress(OSError):  # not empty if games were kept
            self._folder.rmdir()

    def see(self, picture: npt.NDArray[np.uint8], environment: int) -> None:
        """Add the next picture of a game to its film."""
        picture = enlarged(picture)
        if environment not in self._running:
            path = Path(self._reels.name) / f"{environment}-{len(self._played)}.mp4"
            container = av.open(str(path), "w")
            stream = container.add_stream("libx264", rate=self._rate, options={"preset": "veryfast", "crf": "20"})
            stream.height, stream.width = picture.shape[:2]
            stream.pix_fmt = "yuv420p"
            stream.codec_context.thread_count = 1
            self._running[environment] = path, container, stream
        _, container, stream = self._running[environment]
        container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))

    def note(self, environment: int, step: Mapping[str, Any]) -> None:
        """Add the values of a game's next step to its trace: actions, rewards, and outputs of the policy."""
        self._noted.setdefault(environment, []).append(step)

    def end(self, environment: int, score: float) -> None:
        """Complete the film of a game that has ended."""
        path, container, stream = self._running.pop(environment)
        container.mux(stream.encode())
        container.close()
        noted = self._noted.pop(environment, [])
        trace = {name: [step[name] for step in noted] for name in (noted[0] if noted else ())}
        self._played.append(Game(environment, score, path, trace, len(noted)))

    def fail(self, why: str) -> None:
        """Record why recording has failed. No film will be kept, because not all games were filmed."""
        self.failure = why

    def keep(self) -> dict[str, Film]:
        """Move the films of the best, the median and the worst game to the folder; returns them by these words.

        A single game is kept as the best, two games as the best and the worst. Of an even number of games, the median
        is the lower of the middle two. If recording has failed or the disk is full, nothing is kept.
        """
        if self.failure:
            return {}
        by_score = sorted(self._played, key=lambda game: game.score)
        places = {"best": len(by_score) - 1, "worst": 0, "median": (len(by_score) - 1) // 2}
        chosen = {word: by_score[place] for word, place in [*places.items()][: len(by_score)]}
        try:
            write_atomically(self._folder / GAMES, self._listed(chosen), durable=False)
            return {
                word: Film(game.score, str(game.path.rename(self._folder / f"{word}.mp4")))
                for word, game in chosen.items()
            }
        except OSError as error:
            self.fail(str(error))
            return {}

    def _listed(self, chosen: Mapping[str, Game]) -> bytes:
        """Return all games as a JSON list, one game on each line."""
        words = {game.path: word for word, game in chosen.items()}
        lines = []
        for game in self._played:
            about: dict[str, Any] = {"environment": game.environment, "score": game.score, "steps": game.steps}
            if word := words.get(game.path):
                about |= {"film": f"{word}.mp4", "trace": game.trace}
            lines.append(json.dumps(about))
        return ("[\n" + ",\n".join(lines) + "\n]\n").encode()


def enlarged(picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return a picture [height, width, 3] with even sides, which the video format needs.

    Small pictures are enlarged. If a side is odd, its last row or column of pixels is repeated.
    """
    times = max(1, -(-SMALLEST_SIDE // min(picture.shape[:2])))
    large = picture.repeat(times, 0).repeat(times, 1)
    return np.pad(large, ((0, large.shape[0] % 2), (0, large.shape[1] % 2), (0, 0)), "edge")
