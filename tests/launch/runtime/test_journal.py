"""What a run tells of writers of metrics that fail, and of metrics.jsonl itself."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

from actorlearn.failpoints import armed
from actorlearn.metrics.trackers import Tracker
from launch.runtime.journal import Journal


class Unknown(Tracker):
    """A tracker that the process does not know, so that it ends at once."""

    name = "unknown"


def test_a_dead_tracker_is_not_told_as_a_failure_of_metrics_jsonl(tmp_path: Path) -> None:
    told: list[str] = []
    with closing(Journal(tmp_path, lambda note: told.append(note.cause), [f"{__name__}:Unknown"])) as journal:
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
