"""Reads the TensorBoard event files of a run of CleanRL or Stable-Baselines3 as a `Log`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from launch.foreign.log import CLEANRL, MEANS, MOST_SEED, SB3, Log, Point, refusal, sb3_algorithm

CLEANRL_NAME = re.compile(r"(?P<env>.+)__(?P<algorithm>.+)__(?P<seed>\d+)__\d+")
"""Pattern of the folder of a run of CleanRL: environment, script, seed, and start time."""
_SETTINGS = "hyperparameters/text_summary"
"""Tag of the table of hyperparameters that CleanRL writes."""
_LINE = re.compile(r"^\|(?P<key>[^|]+)\|(?P<value>.*)\|$", re.MULTILINE)
_ONE_RUN = ("exp_name", "env_id", "seed", "track", "wandb_project_name", "wandb_entity", "capture_video", "save_model")
"""Hyperparameters of CleanRL that are left out: runs that differ only in these are seeds of one setting."""


def read_events(files: Iterable[Path]) -> Log:
    """Return the log of a run's event files; a truncated file is read up to its last whole event.

    Raises RunError for an event that cannot be decoded, and OSError.
    """
    points: dict[str, list[Point]] = {}
    settings: dict[str, str] = {}
    began_s: float | None = None
    found = sorted(files)
    for file in found:
        try:
            for time_s, steps, tag, number in _values(file):
                began_s = time_s if began_s is None else began_s
                if isinstance(number, int | float):
                    points.setdefault(tag, []).append((steps, time_s - began_s, number))
                elif tag == _SETTINGS and isinstance(number, bytes):
                    settings |= _settings(number)
        except (OSError, ImportError):
            raise
        except Exception as error:  # TensorBoard has no type of its own for a damaged event
            raise refusal(file, f"not a file of events: {error!r:.200}; write it again, or leave it out") from None
    folder = found[0].parent
    if "charts/episodic_return" in points or settings:
        return _of_cleanrl(folder, points, settings)
    algorithm = sb3_algorithm(folder)
    return Log(folder, points, program=SB3 if algorithm or MEANS[0] in points else None, algorithm=algorithm)


def _values(file: Path) -> Iterator[tuple[float, int, str, Any]]:
    """Yield (time in seconds, environment steps, tag, value) for each single number or text in an event file.

    Before the values of an event, yield a tuple without tag and value, so that an event without values has a time too.
    """
    # Imported here, because the import takes most of a second.
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util import tensor_util

    for event in EventFileLoader(str(file)).Load():
        yield event.wall_time, event.step, "", None
        for value in event.summary.value:
            # Arrays are left out before they are made: their shape, and so their memory, may be any.
            if all(dimension.size == 1 for dimension in value.tensor.tensor_shape.dim):
                number = tensor_util.make_ndarray(value.tensor)
                if number.dtype.kind in "fiuO":
                    yield event.wall_time, event.step, value.tag, number.item()


def _settings(text: bytes) -> dict[str, str]:
    """Return name -> value of the hyperparameters in the Markdown table that CleanRL logs."""
    lines = _LINE.finditer(text.decode(errors="replace"))
    return {line["key"]: line["value"] for line in lines if line["key"] not in ("param", "-")}


def _of_cleanrl(folder: Path, points: dict[str, list[Point]], settings: dict[str, str]) -> Log:
    named = CLEANRL_NAME.fullmatch(folder.name)
    parts = named.groupdict() if named else {}
    seed = settings.get("seed", parts.get("seed", ""))
    script = settings.get("exp_name", parts.get("algorithm"))
    return Log(
        folder,
        points,
        env_id=settings.get("env_id", parts.get("env")),
        program=CLEANRL,
        algorithm=f"{CLEANRL} {script}" if script else None,
        seed=int(seed) if seed.isdecimal() and len(seed) < len(str(MOST_SEED)) else None,
        settings={key: value for key, value in settings.items() if key not in _ONE_RUN},
    )
