"""MP4 files of whole games: each is written while it is played, and the best, the median and the worst are kept.

Beside them ``games.json`` lists all games in the order in which they ended: environment, score, steps and, of those
that are kept, the file and what was done step by step. Picture t + 1 of a film follows step t of its trace.

Reads pictures and scores. Needs PyAV, which the extra ``video`` brings. Knows no policy and no environment.
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
"""Pixels: smaller pictures are enlarged by a whole number, as players blur small ones."""


GAMES = "games.json"
"""File that lists the games."""


class Film(NamedTuple):
    """A game that has been played."""

    score: float
    file: str


class Game(NamedTuple):
    """A game that has been filmed."""

    environment: int
    """Index among the games that were played side by side; its seed is that of the evaluation plus this."""
    score: float
    path: Path
    trace: dict[str, list[Any]]
    """Name -> its value of each step."""
    steps: int


class Films:
    """Films of all games that are played; a context, which removes what is not kept."""

    def __init__(self, folder: Path, pictures_per_s: float) -> None:
        """Write to this folder, which is made with the parents that it lacks."""
        folder.mkdir(parents=True, exist_ok=True)
        self.failure = ""
        """Reason why no game is recorded; empty while all is well."""
        self._folder = folder
        self._rate = Fraction(pictures_per_s).limit_denominator(1000)
        self._reels = tempfile.TemporaryDirectory(prefix=".films-", dir=folder)
        self._running: dict[int, tuple[Path, Any, Any]] = {}
        """Environment -> file, container and stream of the game that it plays."""
        self._noted: dict[int, list[Mapping[str, Any]]] = {}
        """Environment -> what was done in the game that it plays, step by step."""
        self._played: list[Game] = []

    def __enter__(self) -> Films:
        """Film until the context ends."""
        return self

    def __exit__(self, *_raised: object) -> None:
        """Remove everything that was not kept."""
        for _, container, _ in self._running.values():
            with suppress(Exception):  # the disk may be full; the file is removed anyway
                container.close()
        self._reels.cleanup()
        with suppress(OSError):  # it is not empty: games have been kept
            self._folder.rmdir()

    def see(self, picture: npt.NDArray[np.uint8], environment: int) -> None:
        """Add the next picture of a game."""
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
        """Add what was done in the next step of a game, and what came of it."""
        self._noted.setdefault(environment, []).append(step)

    def end(self, environment: int, score: float) -> None:
        """Close the file of a game."""
        path, container, stream = self._running.pop(environment)
        container.mux(stream.encode())
        container.close()
        noted = self._noted.pop(environment, [])
        trace = {name: [step[name] for step in noted] for name in (noted[0] if noted else ())}
        self._played.append(Game(environment, score, path, trace, len(noted)))

    def fail(self, why: str) -> None:
        """Give up: nothing will be kept, because what was filmed is not all that was played."""
        self.failure = why

    def keep(self) -> dict[str, Film]:
        """Move the best, the median and the worst game into the folder; of fewer than three games the first of these.

        The median is the lower one of two. Nothing is kept after a failure, nor where the disk takes no more.
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
        """Return all games as JSON, one a line."""
        words = {game.path: word for word, game in chosen.items()}
        lines = []
        for game in self._played:
            about: dict[str, Any] = {"environment": game.environment, "score": game.score, "steps": game.steps}
            if word := words.get(game.path):
                about |= {"film": f"{word}.mp4", "trace": game.trace}
            lines.append(json.dumps(about))
        return ("[\n" + ",\n".join(lines) + "\n]\n").encode()


def enlarged(picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return a picture of even sides, as the format wants: small ones enlarged, odd ones with their last line twice."""
    times = max(1, -(-SMALLEST_SIDE // min(picture.shape[:2])))
    large = picture.repeat(times, 0).repeat(times, 1)
    return np.pad(large, ((0, large.shape[0] % 2), (0, large.shape[1] % 2), (0, 0)), "edge")
