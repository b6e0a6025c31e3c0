"""``actorlearn import``: makes run folders from logs of other programs, so that commands can plot and compare them.

Such a folder has only the files that ``plot``, ``compare`` and ``report`` read: ``metrics.jsonl``, a ``topology.yaml``
with environment, algorithm, seed and hyperparameters, a ``summary.json`` with the status ``imported``, and a
``meta.json`` with the path of the log.
"""

from __future__ import annotations

import hashlib
import json as json_format
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from actorlearn import __version__
from actorlearn.files import write_atomically
from actorlearn.metrics.writer import METRICS_FILE
from launch.errors import RunError
from launch.foreign.find import find_logs
from launch.foreign.log import MOST_BYTES, SINGLE_GAMES, Log, make_rows, refusal
from launch.reports.format import as_number, as_whole, printable
from launch.runs.curves import SCORE
from launch.runs.find import IMPORTED, META_FILE, SUMMARY_FILE, TOPOLOGY_FILE
from launch.topology import strict_yaml
from launch.topology.load import as_text


@dataclass(frozen=True)
class Said:
    """Facts about the logs that the user has given on the command line; they replace those in the logs."""

    env_id: str | None = None
    algorithm: str | None = None
    seed: int | None = None
    score: str | None = None
    """Name of the column or tag of the score."""
    frames_per_step: int | None = None


def import_curves(sources: Sequence[Path], folder: Path, said: Said, json: bool) -> int:
    """Make a run folder for each log in the sources; return the exit status.

    Raises RunError, before anything is written, if a log is unreadable or has no score, or if a folder exists already.
    """
    logs = [_complete(log, said) for source in sources for log in find_logs(source, said.score)]
    if said.seed is not None and len(logs) > 1:
        raise RunError(
            f"--seed {said.seed} is the seed of one run, but {len(logs)} runs were found; import them one by one"
        )
    made = {folder / _name(log): (log, make_rows(log, said.score, said.frames_per_step)) for log in logs}
    if len(made) < len(logs):
        again = next(log for log in logs if [_name(its) for its in logs].count(_name(log)) > 1)
        raise RunError(
            f"two logs would both be imported as {folder / _name(again)}; import them into two folders with --into"
        )
    if there := next((path for path in made if path.exists()), None):
        raise RunError(f"{there} already exists; remove it, or import into another folder with --into")
    for log in logs:
        try:
            strict_yaml.read(as_text(_topology(log)), TOPOLOGY_FILE)
        except strict_yaml.TopologyError as error:
            raise refusal(log.source, f"its settings cannot be written: {error}") from None
    for path, (log, rows) in made.items():
        _write(path, log, rows, log.score_name(said.score) or "")
    found = [{"run": its.name, "folder": str(its), **_topology(log), **rows[-1]} for its, (log, rows) in made.items()]
    if json:
        print(json_format.dumps({"runs": found}))
        return 0
    for one in found:
        about = f"{one['algorithm']['name']}, {one['env']['id']}" + (f", seed {one['seed']}" if "seed" in one else "")
        print(printable(f"{one['folder']}: {about}, {as_whole(one['env_steps'])} steps, score {as_number(one[SCORE])}"))
    return 0


def _complete(log: Log, said: Said) -> Log:
    """Return the log, changed by the command line; raises RunError if the environment or the algorithm is unknown.

    The name of the algorithm gets the program as a prefix, so that it differs from the algorithms of actorlearn.
    """
    algorithm = said.algorithm or log.algorithm
    if algorithm and " " not in algorithm:
        algorithm = f"{log.program or IMPORTED} {algorithm}"
    log = replace(
        log,
        env_id=said.env_id or log.env_id,
        algorithm=algorithm,
        seed=log.seed if said.seed is None else said.seed,
    )
    needed = (("environment", "--env", log.env_id), ("algorithm", "--algorithm", log.algorithm))
    if missing := [(what, option) for what, option, value in needed if value is None]:
        whats, options = (" and ".join(words) for words in zip(*missing, strict=True))
        them = "them" if len(missing) > 1 else "it"
        raise RunError(f"{log.source} does not contain its {whats}; give {them} with {options}")
    for value in (log.env_id, log.algorithm, log.name):
        if value and len(value.encode()) > MOST_BYTES:
            rule = f"{value!r:.60} has {len(value.encode()):,} bytes; an environment, an algorithm or the name of a run"
            raise refusal(log.source, f"{rule} has at most {MOST_BYTES}")
    return log


def _name(log: Log) -> str:
    """Return the name of the run folder for a log: the log's own name, or else the name of its folder or file."""
    own = log.name or (log.source.absolute().name if log.source.is_dir() else log.source.stem)
    return re.sub(r"[^\w.-]+", "-", own).strip("-.") or "imported"


def _topology(log: Log) -> dict[str, Any]:
    seed = {} if log.seed is None else {"seed": log.seed}
    settings = {"hyperparameters": dict(log.settings)} if log.settings else {}
    return {"name": log.algorithm, **seed, "env": {"id": log.env_id}, "algorithm": {"name": log.algorithm}, **settings}


def _write(path: Path, log: Log, rows: Sequence[dict[str, Any]], score: str) -> None:
    last = rows[-1]
    lines = "".join(f"{json_format.dumps(row)}\n" for row in rows).encode()
    summary = {"status": IMPORTED, "wall_time_s": last["time_s"], **{key: last[key] for key in ("env_steps", SCORE)}}
    whence = {"source": str(log.source.absolute()), "score": score, "single_games": score in SINGLE_GAMES}
    meta = {
        "name": log.algorithm,
        "version": __version__,
        IMPORTED: {**whence, "metrics_sha256": hashlib.sha256(lines).hexdigest()},
    }
    path.mkdir(parents=True)
    write_atomically(path / METRICS_FILE, lines)
    write_atomically(path / SUMMARY_FILE, f"{json_format.dumps(summary, indent=2)}\n".encode())
    write_atomically(path / META_FILE, f"{json_format.dumps(meta, indent=2)}\n".encode())
    write_atomically(path / TOPOLOGY_FILE, as_text(_topology(log)).encode())
