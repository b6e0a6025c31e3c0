"""A process that copies the reports of a run to an experiment tracker, such as Weights & Biases.

It is started as ``python -m actorlearn.metrics.tracking TRACKER RUN_FOLDER BEGIN``, and reads `METRICS_FILE` in the
run's folder from byte BEGIN on. When its standard input is closed, it sends the remaining lines and ends. The
configuration that the tracker shows is the run's topology and parts of meta.json.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from actorlearn.files import open_regular
from actorlearn.metrics.writer import METRICS_FILE, flat_scalars

LOOK_EVERY_S = 1.0
PROJECT = "actorlearn"
"""Project of the tracker, unless the environment variable WANDB_PROJECT or TRACKIO_PROJECT names another."""


@dataclass(frozen=True)
class About:
    """Identity and configuration of a run, for a tracker."""

    folder: Path
    id: str
    """Id of the run at its first start, with which a resumed run continues."""
    config: Mapping[str, Any]
    """The topology with all defaults, and under the key ``meta`` version, commit, machine and command."""


class WandBRun:
    """A run in Weights & Biases, whose files are in the folder ``wandb`` of the run.

    The package wandb itself reads the account and environment variables such as WANDB_MODE.
    """

    def __init__(self, about: About) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=about.folder.name,
            id=about.id,
            resume="allow",
            dir=about.folder,
            config=dict(about.config),
        )
        self._run.define_metric(
            "*", step_metric="env_steps"
        )  # wandb's own steps may not decrease, but those of a restored trainer do

    def row(self, scalars: Mapping[str, float]) -> None:
        """Log the numbers of one report, by name."""
        self._run.log(dict(scalars))

    def finish(self) -> None:
        """Send all reports and wait until this is done."""
        self._run.finish()


class TrackioRun:
    """A run in trackio; the package itself reads TRACKIO_DIR, its folder on this machine, and TRACKIO_SPACE_ID."""

    def __init__(self, about: About) -> None:
        import trackio

        self._run = trackio.init(
            project=os.environ.get("TRACKIO_PROJECT", PROJECT),
            name=f"{about.folder.name}-{about.id}",  # trackio identifies runs by name
            resume="allow",
            config=dict(about.config),
            embed=False,
        )

    def row(self, scalars: Mapping[str, float]) -> None:
        """Log the numbers of one report, by name, at its ``env_steps``."""
        self._run.log(dict(scalars), step=int(scalars["env_steps"]))

    def finish(self) -> None:
        """Send all reports and wait until this is done."""
        self._run.finish()


LOGS: dict[str, type[WandBRun | TrackioRun]] = {"wandb": WandBRun, "trackio": TrackioRun}


def about(folder: Path) -> About:
    """Read identity and configuration of a run from its folder."""
    with open_regular(folder / "meta.json") as meta_file, open_regular(folder / "topology.yaml") as topology_file:
        meta, topology = json.load(meta_file), yaml.safe_load(topology_file)
    kept = {name: meta.get(name) for name in ("run_id", "version", "commit", "dirty", "machine", "command")}
    first = next(iter(meta.get("earlier") or ()), meta)
    return About(folder, str(first["run_id"]), {**topology, "meta": kept})


def whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that have been written since the last call, except one that is still being written."""
    while line := file.readline():
        if not line.endswith(b"\n"):
            file.seek(-len(line), os.SEEK_CUR)
            return
        yield line


def follow(log: WandBRun | TrackioRun, rows: Path, begin: int) -> None:
    """Send the lines of the file ``rows`` to a tracker, from byte ``begin`` on, until standard input is closed."""
    with open_regular(rows) as file:
        file.seek(begin)
        ended = False
        while not ended:
            # Nobody writes to standard input, so it becomes readable only when it is closed.
            ended = bool(select.select([sys.stdin], [], [], LOOK_EVERY_S)[0])
            for line in whole_lines(file):
                log.row(flat_scalars(json.loads(line)))
    log.finish()


if __name__ == "__main__":
    _, kind, run_dir, start = sys.argv
    run_folder = Path(run_dir)
    follow(LOGS[kind](about(run_folder)), run_folder / METRICS_FILE, int(start))
