"""MP4 files of whole games: each is written while it is played, and the best, the median and the worst are kept.

Reads pictures and scores. Needs PyAV, which the extra ``video`` brings. Knows no policy and no environment.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import numpy.typing as npt

SMALLEST_SIDE = 256
"""Pixels: smaller pictures are enlarged by a whole number, as players blur small ones."""


class Film(NamedTuple):
    """A game that has been played."""

    score: float
    file: str


class Films:
    """Spectator of games (``evaluator.Spectator``) who films them all; a context, which removes what is not kept."""

    def __init__(self, folder: Path, pictures_per_s: float) -> None:
        """Write to this folder, which is made with the parents that it lacks."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._rate = Fraction(pictures_per_s).limit_denominator(1000)
        self._reels = tempfile.TemporaryDirectory(prefix=".films-", dir=folder)
        self._running: dict[int, tuple[Path, Any, Any]] = {}
        """Environment -> file, container and stream of the game that it plays."""
        self._played: list[tuple[float, Path]] = []

    def __enter__(self) -> Films:
        """Film until the context ends."""
        return self

    def __exit__(self, *_raised: object) -> None:
        """Remove everything that was not kept."""
        for _, container, _ in self._running.values():
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

    def end(self, environment: int, score: float) -> None:
        """Close the file of a game."""
        path, container, stream = self._running.pop(environment)
        container.mux(stream.encode())
        container.close()
        self._played.append((score, path))

    def keep(self) -> dict[str, Film]:
        """Move the best, the median and the worst game into the folder; of fewer than three games the first of these.

        The median is the lower one of two.
        """
        by_score = sorted(self._played, key=lambda game: game[0])
        places = {"best": len(by_score) - 1, "worst": 0, "median": (len(by_score) - 1) // 2}
        kept: dict[str, Film] = {}
        for word, place in [*places.items()][: len(by_score)]:
            score, path = by_score[place]
            kept[word] = Film(score, str(path.rename(self._folder / f"{word}.mp4")))
        return kept


def enlarged(picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return a picture of even sides, as the format wants: small ones enlarged, odd ones with their last line twice."""
    times = max(1, -(-SMALLEST_SIDE // min(picture.shape[:2])))
    large = picture.repeat(times, 0).repeat(times, 1)
    return np.pad(large, ((0, large.shape[0] % 2), (0, large.shape[1] % 2), (0, 0)), "edge")
