"""Warnings of a run whose metrics.jsonl or other metric writers fail."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from actorlearn.failpoints import armed
from actorlearn.metrics import trackers
from actorlearn.metrics.trackers import Tracker
from launch.runtime.journal import Journal


class Unknown(Tracker):
    """A tracker that the process does not know, so that it ends at once."""

    name = "unknown"


def test_a_dead_tracker_is_not_reported_as_a_failure_of_metrics_jsonl(tmp_path: Path) -> None:
    told: list[str] = []
    journal = Journal(tmp_path, lambda note: told.append(note.cause), [f"{__name__}:Unknown"], time.monotonic())
    with closing(journal):
        steps = 0
        while not told and steps < 600:
            steps += 1
            journal.row({"env_steps": steps})
            time.sleep(0.1)
        assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == steps
        with armed("files.write=nospace@1"):
            journal.row({"env_steps": steps + 1})
        journal.row({"env_steps": steps + 2})
    assert [text.replace(str(tmp_path), "") for text in told] == [
        f"metrics for '{__name__}:Unknown' cannot be written: the process that sends rows to unknown ended with exit "
        "status 1; see /logs/unknown.log; the run continues",
        "metrics.jsonl cannot be written: No space left on device; the run continues",
        "metrics.jsonl can be written again",
    ]
    assert [line.count('"warned"') for line in (tmp_path / "events.jsonl").read_text().splitlines()] == [1, 1, 1]


def test_a_tracker_that_fails_after_the_last_report_is_reported(tmp_path: Path) -> None:
    told: list[str] = []
    journal = Journal(tmp_path, lambda note: told.append(note.cause), [f"{__name__}:Unknown"], time.monotonic())
    journal.row({"env_steps": 1})
    journal.close()
    journal.close()
    said = (
        f"metrics for '{__name__}:Unknown' cannot be written: the process that sends rows to unknown ended with exit "
        f"status 1; see {tmp_path}/logs/unknown.log"
    )
    assert told == [said]
    assert [said in line for line in (tmp_path / "events.jsonl").read_text().splitlines()] == [True]


class Slow(Tracker):
    """A tracker whose network does not answer."""

    name = "slow"


def test_a_tracker_that_takes_too_long_at_the_end_is_killed_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = f"#!{sys.executable}\nimport time\ntime.sleep(60)\n"
    (tmp_path / "python").write_text(waits)
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(trackers, "CLOSE_S", 0.2)
    told: list[str] = []
    journal = Journal(tmp_path, lambda note: told.append(note.cause), [f"{__name__}:Slow"], time.monotonic())
    with closing(journal):
        journal.row({"env_steps": 1})
    said = "the process that sends rows to slow had not sent all rows after 0.2 s, and was killed"
    assert [text.partition(": ")[2] for text in told] == [f"{said}; see {tmp_path}/logs/slow.log"]
