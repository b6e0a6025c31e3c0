"""The suite ``zoo``: trains tasks with several seeds, and compares the scores with those of a published table.

The table is that of rl-baselines3-zoo. Each *row* of ``zoo.csv`` has a topology, a number of steps, and the score of
the table. Rows without a score are shipped topologies for tasks that the table does not have.
The runs of a row are a sweep over seeds (``actorlearn sweep``). Each run that has ended is evaluated by ``actorlearn
eval``. All files of a row are in ``runs/zoo/ROW/``: the sweep file ``ROW.yaml`` with the seeds, the runs in ``runs/``,
and the evaluation of each run in ``evaluations/``. The same command continues an interrupted one, and repeats no run
and no evaluation that has ended.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from statistics import median

import msgspec

from actorlearn.files import write_atomically
from actorlearn.nearest import did_you_mean
from launch.bench import SuiteRequest, shipped
from launch.bench.report import SuiteReport
from launch.bench.running import ENDS_WITH_US
from launch.bench.seed_table import draw, read_seeds
from launch.display.plot import COLOURS, INK, draw_line, dress, make_figure, save
from launch.errors import FailedError, RunError
from launch.machine.cores import usable_cores
from launch.reports.statistics import ONE_RUN, Interval, interquartile_mean, interval
from launch.runs import find
from launch.runs.curves import read_curve
from launch.runs.find import RUNS
from launch.runs.jsonl import read_object
from launch.sweeps.history import Ended, RunId
from launch.sweeps.state import STATE_FILE
from launch.sweeps.state import read as read_history
from launch.topology.defaults import BY_CORES
from launch.topology.load import load

FILE = Path(__file__).with_name("zoo.csv")
DEFAULT_SEEDS = "5"
EVALUATIONS = "evaluations"
TOPOLOGY = "base.yaml"
"""File name of a row's topology. A folder with the file topology.yaml counts as a run (``launch/runs/find.py``)."""
GREEDY = "greedy"
COLUMNS_OF_PICTURE = 4
HEADINGS = ("row", "steps", "seeds", "IQM", "worst", "minutes", "table", "verdict")


class ZooRow(msgspec.Struct, frozen=True):
    """A row of ``zoo.csv``: a task, how to train on it, and the published score."""

    row: str
    topology: str
    """Name of a shipped topology; empty: ``keys`` are the whole topology."""
    keys: str
    """Overrides, separated by spaces."""
    steps: int
    """Environment steps of a run; the published score was reached after as many."""
    score: float | None
    """The published score; None: there is none."""
    games: int
    """Number of whole games of the final evaluation."""
    actions: str
    """How the final evaluation acts: ``greedy`` or ``sampled``."""
    needs: str
    """Module that must be installed; empty: none."""
    extra: str
    """Extra of actorlearn that installs the module; empty: there is none, and the module's package has its name."""

    @property
    def overrides(self) -> list[str]:
        """The overrides of its topology."""
        return [*self.keys.split(), f"total_steps={self.steps}"]

    @property
    def source(self) -> bytes:
        """The text of its topology, without the overrides."""
        return Path(shipped(self.topology)).read_bytes() if self.topology else f"name: {self.row}\n".encode()

    @property
    def lacking(self) -> str:
        """The command that installs the module in ``needs``; "" if nothing is missing."""
        if not self.needs or find_spec(self.needs):
            return ""
        package = f"actorlearn[{self.extra}]" if self.extra else self.needs
        return f"pip install '{package}'"


@cache
def rows() -> dict[str, ZooRow]:
    """Return name -> row of ``zoo.csv``."""
    with FILE.open(encoding="utf-8", newline="") as file:
        found = csv.DictReader(line for line in file if not line.startswith("#"))
        return {
            row["row"]: msgspec.convert({**row, "score": row["score"] or None}, ZooRow, strict=False) for row in found
        }


@dataclass(frozen=True)
class Scored:
    """The score of a run that has ended."""

    seed: int
    score: float | None
    """Mean raw score of the final evaluation; None if the run has failed."""
    minutes: float
    error: str


class RowFolder:
    """Trains and evaluates the runs of one row, in its folder."""

    def __init__(self, row: ZooRow, folder: Path) -> None:
        self.row, self.folder = row, folder
        self._sweep_file = folder / f"{row.row}.yaml"
        self._runs = folder / "runs"

    @property
    def seeds(self) -> list[int]:
        """The seeds in the sweep file; empty if there is no such file yet."""
        try:
            return list(msgspec.yaml.decode(self._sweep_file.read_bytes())["seeds"])
        except FileNotFoundError:
            return []

    def prepare(self, wanted: str, at_once: int) -> None:
        """Write the sweep file with the seeds that it had, and with new ones as wanted; raises RunError.

        ``wanted``: a number of seeds, or the seeds themselves, separated by commas. ``at_once``: most runs at once.
        """
        given, seeds = read_seeds(wanted), self.seeds
        if isinstance(given, int):
            seeds += draw(max(0, given - len(seeds)))
        else:
            seeds += [seed for seed in given if seed not in seeds]
        self.folder.mkdir(parents=True, exist_ok=True)
        topology = self.folder / TOPOLOGY
        write_atomically(topology, self.row.source)
        written = load(str(topology), self.row.overrides).written
        one_each = {key: 1 for key in BY_CORES if key not in written}
        overrides = [override.partition("=") for override in self.row.overrides]
        keys = {
            "topology": topology.name,
            "overrides": {**{key: msgspec.yaml.decode(value) for key, _, value in overrides}, **one_each},
            "seeds": seeds,
            "at_once": at_once,
        }
        write_atomically(self._sweep_file, msgspec.yaml.encode(keys))

    def train(self) -> None:
        """Run or continue the sweep to its end; raises FailedError, for example if another command runs it."""
        command = [sys.executable, "-m", "actorlearn", "sweep", str(self._sweep_file), "--folder", str(self._runs)]
        process = subprocess.Popen(
            [sys.executable, "-c", ENDS_WITH_US, str(os.getpid()), *command],
            stdout=sys.stderr,  # --json prints the report to stdout
            start_new_session=True,  # so that Ctrl-C does not reach the sweep, which is then ended below
        )
        try:
            status = process.wait()
        except BaseException:
            process.terminate()  # the sweep then lets its runs save and end
            process.wait()
            raise
        if status not in (0, 1):  # 1: a run failed or did not end; the table shows this
            raise FailedError(f"the sweep of {self.row.row} ended with status {status}; its message is above")

    def run(self, seed: int) -> Path:
        """Return the folder of the run with this seed."""
        return self._runs / f"{self.row.row}-000-s{seed}"

    def evaluate(self) -> None:
        """Evaluate the final weights of each run that has finished and has no evaluation yet; raises FailedError."""
        (self.folder / EVALUATIONS).mkdir(exist_ok=True)
        for ended in self._ended():
            if ended.status == "finished" and not self._evaluation(ended.seed).exists():
                actions = "--greedy" if self.row.actions == GREEDY else "--sample"
                options = ["--episodes", str(self.row.games), actions, "--json"]
                command = [sys.executable, "-m", "actorlearn", "eval", str(self.run(ended.seed)), *options]
                played = subprocess.run(command, stdout=subprocess.PIPE, check=False)
                if played.returncode:
                    raise FailedError(f"{self.run(ended.seed)} cannot be evaluated; the message is above")
                write_atomically(self._evaluation(ended.seed), played.stdout)

    def scored(self) -> list[Scored]:
        """Return the scores of runs that have been evaluated, and the runs that have failed, in the order of seeds."""
        found = []
        for ended in self._ended():
            played, minutes = read_object(self._evaluation(ended.seed)), ended.wall_time_s / 60
            if played or ended.error:
                found.append(Scored(ended.seed, played.get("mean"), minutes, ended.error))
        return found

    def _ended(self) -> list[Ended]:
        ended = read_history(self._runs / STATE_FILE).ended
        return [ended[run] for run in (RunId(0, seed) for seed in self.seeds) if run in ended]

    def _evaluation(self, seed: int) -> Path:
        return self.folder / EVALUATIONS / f"{seed}.json"


def zoo(request: SuiteRequest) -> SuiteReport:
    """Train tasks such as cartpole-ppo (default: all), and compare the scores with those of rl-baselines3-zoo."""
    names = list(request.names or rows())
    for name in names:
        if name not in rows():
            way_out = did_you_mean(name, rows(), f"its rows are {', '.join(rows())}")
            raise RunError(f"zoo has no row {name!r}; {way_out}")
    if request.names and (lacking := next((row for name in names if (row := rows()[name]).lacking), None)):
        raise RunError(f"zoo: row {lacking.row} needs {lacking.needs}, which is not installed: {lacking.lacking}")
    at_once = request.at_once or max(1, int(usable_cores()))
    folders = [RowFolder(rows()[name], RUNS / "zoo" / name) for name in names]
    for folder in folders:
        if not folder.row.lacking:
            folder.prepare(request.seeds_wanted or DEFAULT_SEEDS, at_once)
            folder.train()
            folder.evaluate()
            told = report([folder]).rows[0]
            print(" · ".join(f"{heading} {its}" for heading, its in zip(HEADINGS, told, strict=True)), file=sys.stderr)
    return report(folders)


def verdict(found: Interval, score: float) -> str:
    """Return whether an interval is "above" or "below" a score, or "equal" if it contains the score."""
    return "above" if found.low > score else "below" if found.high < score else "equal"


def judge(row: ZooRow, scored: Sequence[Scored], seeds: int) -> tuple[Interval | None, str, str]:
    """Return the interquartile mean of a row's scores, the same as text, and the verdict: a result of ``verdict``.

    Without a comparison, the verdict is "failed" (a run has failed), "one seed" (so there is no interval) or "-" (some
    of the ``seeds`` have not ended, or there is no published score).
    """
    scores = [one.score for one in scored if one.score is not None]
    found = interval(interquartile_mean, [scores]) if scores else None
    written = "-" if found is None else found.written if len(scores) > 1 else f"{found.estimate:,.2f} ({ONE_RUN})"
    if len(scores) < len(scored):
        return found, written, "failed"
    if found is None or len(scored) < seeds or row.score is None:
        return found, written, "-"
    return found, written, verdict(found, row.score) if seeds > 1 else "one seed"


def report(folders: Sequence[RowFolder]) -> SuiteReport:
    """Return the report of rows, with the runs that have ended so far."""
    told, figures, notes = [], [], []
    for folder in folders:
        row, scored, seeds = folder.row, folder.scored(), folder.seeds
        scores = [one.score for one in scored if one.score is not None]
        found, written, said = judge(row, scored, len(seeds))
        told.append(
            (
                row.row,
                f"{row.steps:,}",
                f"{len(scores)} of {len(seeds)}",
                written,
                f"{min(scores):,.2f}" if scores else "-",
                f"{median(one.minutes for one in scored):.1f}" if scored else "-",
                "-" if row.score is None else f"{row.score:g}",
                said,
            )
        )
        its = {"iqm": found._asdict() if found else None, "verdict": said, "runs": [asdict(one) for one in scored]}
        figures.append({**msgspec.structs.asdict(row), **its})
        notes += [f"{row.row}, seed {one.seed} failed: {one.error}" for one in scored if one.score is None]
        if seeds and len(scored) < len(seeds):
            notes.append(
                f"{row.row}: {len(scored)} of {len(seeds)} runs have ended; the same command continues the others"
            )
        if row.lacking and not scored:
            notes.append(f"{row.row} was not run: {row.lacking}")
    verdicts = [row["verdict"] for row in figures]
    good = sum(said in ("above", "equal") for said in verdicts)
    if judged := sum(said not in ("-", "one seed") for said in verdicts):
        notes.append(f"{good} of {judged} rows are at or above the table")
    notes += [
        "table: rl-baselines3-zoo, one trained agent after the same steps; IQM: interquartile mean of the final "
        "evaluations of the seeds, with a bootstrap interval of 95 %; verdict: the interval is above the table's "
        "score, contains it (equal) or is below it; minutes: median over the runs, of which several ran at once",
    ]
    with_curves = [folder for folder in folders if folder.scored()]
    return SuiteReport(
        suite="zoo",
        headings=HEADINGS,
        rows=told,
        notes=notes,
        figures={"zoo": figures},
        picture=partial(_draw, with_curves) if with_curves else None,
    )


def _draw(folders: Sequence[RowFolder], path: Path) -> None:
    """Draw for each row the learning curve of each seed, and a line at the published score."""
    columns = min(COLUMNS_OF_PICTURE, len(folders))
    lines = ceil(len(folders) / columns)
    figure = make_figure(path, 3.2 * columns)
    figure.set_figheight(2.4 * lines)
    panels = figure.subplots(lines, columns, squeeze=False).flatten()
    for panel in panels[len(folders) :]:
        panel.set_visible(False)
    for panel, folder in zip(panels, folders, strict=False):
        for one in folder.scored():
            run = find.read(folder.run(one.seed))
            with suppress(ValueError):  # no game has ended
                draw_line(panel, read_curve(run), 0, 1e3, COLOURS[0], "-") if run else None
        if folder.row.score is not None:
            panel.axhline(folder.row.score, color=COLOURS[1], linewidth=1.2, linestyle="--")
        panel.set_title(folder.row.row, fontsize=10, color=INK)
        dress(panel)
    figure.supxlabel("environment steps (thousands)", fontsize=9, color=INK)
    figure.supylabel("mean score of the last 100 training games", fontsize=9, color=INK)
    save(figure, path)
