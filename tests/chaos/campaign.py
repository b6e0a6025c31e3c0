"""Run a campaign of faults, or continue it; the exit status is 1 if there are violations."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import secrets
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from launch.runtime.metadata import commit, machine
from tests.chaos import schedule
from tests.chaos.results import Results, summarised, table
from tests.chaos.stage import Stage, StageError
from tests.chaos.trial import attempt
from tests.sizes import ROOT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials that are left, and print a table of all trials."""
    wanted = _parsed(arguments)
    only = "-".join(["", *filter(None, wanted.modes)])
    path = wanted.results or ROOT / "runs" / "chaos" / f"seed-{wanted.seed}{only}.jsonl"
    results = Results(path)
    trials = list(schedule.trials(wanted.faults, wanted.seed, wanted.each, schedule.modes(wanted.modes)))
    left = [trial for trial in trials if trial.number not in results.tried][: wanted.most]
    print(f"make chaos FAULTS={wanted.faults} SEED={wanted.seed}: {len(left)} of {len(trials)} runs, into {path}")
    about = {"commit": commit(ROOT)["commit"], "machine": machine()["cpu"], "cores": machine()["usable_cores"]}
    tell = partial(print, flush=True) if wanted.verbose else _silent
    try:
        with Stage():
            pass
    except StageError as error:
        print(f"{error}; faults need one: run as root, or where users may have namespaces", file=sys.stderr)
        return 2
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(wanted.jobs, context) as pool:
        going = [pool.submit(attempt, trial, tell) for trial in left]
        for done in as_completed(going):
            try:
                *faults, run = done.result()
            except Exception as error:  # of the tests; the next call repeats this trial
                print(f"a trial failed: {type(error).__name__}: {error}", flush=True)
                continue
            results.add([*faults, {**run, **about}])
            said = "".join(f"\n    {violation}" for violation in run["violations"])
            print(f"run {run['trial']}: {run['mode']}, {len(faults)} faults in {run['wall_s']:g} s{said}", flush=True)
    print(table(results.records))
    if wanted.summary:
        lines = "".join(f"{json.dumps(line)}\n" for line in summarised(results.records))
        wanted.summary.write_text(lines)
    missed = wanted.most is None and results.tried != {trial.number for trial in trials}
    return int(missed or any(record["violations"] for record in results.records if record["kind"] == "trial"))


def _silent(said: str) -> None:
    """Say nothing."""


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=1000, help="faults of the whole campaign")
    parser.add_argument("--seed", type=int, default=None, help="seed of all that is drawn; random by default")
    parser.add_argument("--each", type=int, default=84, help="faults of one run")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--most", type=int, default=None, help="runs of this call at most; the next call continues")
    parser.add_argument("--verbose", action="store_true", help="a line for each fault")
    parser.add_argument("--modes", nargs="*", default=[""], help="draw only modes with this prefix, such as nodes")
    parser.add_argument("--summary", type=Path, default=None, help="JSON lines to write: one for each run so far")
    parser.add_argument("--results", type=Path, default=None, help="JSON lines; trials in it are not repeated")
    wanted = parser.parse_args(arguments)
    wanted.seed = secrets.randbelow(10**6) if wanted.seed is None else wanted.seed
    return wanted
