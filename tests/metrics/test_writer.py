"""metrics.jsonl, events.jsonl and the TensorBoard copy: what is in them after rows, NaN, crashes and restores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actorlearn.metrics.writer import EventsWriter, MetricsWriter
from tests.failing_disk import TROUBLES, FailingDisk


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, each of them valid strict JSON."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


def tensorboard_scalars(run_dir: Path) -> dict[str, list[tuple[int, float]]]:
    """Scalars that TensorBoard itself reads from the folder, tag by tag."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run_dir / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_a_row_is_a_line_and_is_there_before_close(tmp_path: Path) -> None:
    with closing(MetricsWriter(tmp_path)) as writer:
        writer.row({"time_s": 1.5, "env_steps": 2048, "episode_return_mean": -20.25})
        assert rows(tmp_path / "metrics.jsonl") == [{"time_s": 1.5, "env_steps": 2048, "episode_return_mean": -20.25}]


def test_not_a_number_is_null(tmp_path: Path) -> None:
    with closing(MetricsWriter(tmp_path, writers=["jsonl"])) as writer:
        writer.row({"env_steps": 1, "a": float("nan"), "b": np.float32("inf"), "c": {"d": [-np.inf, 1.0]}, "e": None})
    assert rows(tmp_path / "metrics.jsonl") == [
        {"env_steps": 1, "a": None, "b": None, "c": {"d": [None, 1.0]}, "e": None}
    ]


def test_numpy_scalars_are_plain_numbers(tmp_path: Path) -> None:
    with closing(MetricsWriter(tmp_path, writers=["jsonl"])) as writer:
        writer.row(
            {"env_steps": np.int64(7), "x": np.float32(0.5), "y": np.float64(2), "z": np.array(3), "t": np.True_}
        )
    assert rows(tmp_path / "metrics.jsonl") == [{"env_steps": 7, "x": 0.5, "y": 2.0, "z": 3, "t": True}]


@pytest.mark.parametrize("wrong", [{}, {"env_steps": None}, {"env_steps": 1.5}, {"env_steps": True}, {"env_steps": -1}])
def test_a_row_without_steps_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with (
        closing(MetricsWriter(tmp_path)) as writer,
        pytest.raises(ValueError, match="env_steps is .* whole number of steps"),
    ):
        writer.row(wrong)
    assert rows(tmp_path / "metrics.jsonl") == []


def test_a_second_writer_appends_and_drops_a_line_cut_by_a_crash(tmp_path: Path) -> None:
    with closing(MetricsWriter(tmp_path, writers=["jsonl"])) as writer:
        writer.row({"env_steps": 1, "note": "é" * 5000})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"env_steps": 2, "note": "' + "x" * 9000)
    with closing(MetricsWriter(tmp_path, writers=["jsonl"])) as writer:
        writer.row({"env_steps": 3})
    assert [row["env_steps"] for row in rows(tmp_path / "metrics.jsonl")] == [1, 3]


def test_a_file_that_is_one_cut_line_is_emptied(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"env_ste')
    MetricsWriter(tmp_path, writers=["jsonl"]).close()
    assert (tmp_path / "metrics.jsonl").read_text() == ""


@pytest.mark.parametrize("number", TROUBLES)
@pytest.mark.parametrize("room", [0, 1, 20])
def test_a_full_disk_never_glues_two_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, room: int
) -> None:
    disk = FailingDisk(monkeypatch, tmp_path, number)
    with closing(MetricsWriter(tmp_path)) as writer, closing(EventsWriter(tmp_path)) as events:
        writer.row({"env_steps": 1, "x": 0.5})
        disk.room = room
        for error in writer.row({"env_steps": 2, "x": 1.5}).values():
            assert error is not None and error.errno == number and str(tmp_path) in str(error)
        with pytest.raises(OSError, match="events.jsonl"):
            events.event("detached", "trainer-1", 0, "drained")
        assert [row["env_steps"] for row in rows(tmp_path / "metrics.jsonl")] == [1]
        disk.heals()
        writer.row({"env_steps": 3, "x": 2.5})
    assert [row["env_steps"] for row in rows(tmp_path / "metrics.jsonl")] == [1, 2, 3]
    assert [row["kind"] for row in rows(tmp_path / "events.jsonl")] == ["detached"]
    assert tensorboard_scalars(tmp_path)["x"] == [(1, 0.5), (2, 1.5), (3, 2.5)]


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
    with closing(MetricsWriter(tmp_path)) as writer:
        for step in (1, 2):
            writer.row({"env_steps": step})
    assert [row["env_steps"] for row in rows(tmp_path / "metrics.jsonl")] == [1, 2]
    assert tensorboard_scalars(tmp_path)["env_steps"] == [(1, 1.0), (2, 2.0)]


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path)
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="metrics.jsonl is closed"):
        writer.row({"env_steps": 1})


class Unreliable:
    """A user's writer that has lost its server."""

    def __init__(self, run_dir: Path) -> None: ...

    def row(self, values: dict[str, Any]) -> None:
        raise KeyError("no server")

    def close(self) -> None:
        raise RuntimeError("no server")


class NotCalled(Unreliable):
    """A writer that takes no folder."""

    def __init__(self) -> None: ...


def test_a_users_writer_that_fails_costs_no_row_and_ends_no_run(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, [f"{__name__}:Unreliable"])
    errors = writer.row({"env_steps": 1})
    assert [str(error) for error in errors.values()] == ["None", "KeyError: 'no server'"]
    writer.close()
    assert rows(tmp_path / "metrics.jsonl") == [{"env_steps": 1}]


def test_a_writer_that_cannot_be_called_with_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"report.writers: '.*NotCalled' cannot be made: TypeError.*metrics/specs.py"):
        MetricsWriter(tmp_path, [f"{__name__}:NotCalled"])


def test_tensorboard_shows_the_numbers_over_env_steps(tmp_path: Path) -> None:
    with closing(MetricsWriter(tmp_path)) as writer:
        writer.row({"env_steps": 100, "loss": {"policy": 0.5, "value": float("nan")}, "status": "running"})
        writer.row({"env_steps": 200, "loss": {"policy": 0.25, "value": 2.0}, "episode_return_mean": None})
    assert tensorboard_scalars(tmp_path) == {
        "env_steps": [(100, 100.0), (200, 200.0)],
        "loss/policy": [(100, 0.5), (200, 0.25)],
        "loss/value": [(200, 2.0)],
    }


def test_tensorboard_says_of_each_number_what_it_is(tmp_path: Path) -> None:
    with closing(MetricsWriter(tmp_path)) as writer:
        for step in (1, 2):
            writer.row({"env_steps": step, "mine": 0.5, "learners": {"trainer-0": {"entropy": 1.5}}})
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    said = {tag: events.SummaryMetadata(tag).summary_description for tag in events.Tags()["scalars"]}
    assert said == {
        "env_steps": "environment steps that all learners have learned from [steps]",
        "learners/trainer-0/entropy": "mean entropy of the policy [nats]",
        "mine": "",
    }


def test_tensorboard_forgets_what_a_restore_undid(tmp_path: Path) -> None:
    with closing(MetricsWriter(tmp_path)) as writer:
        for step in (100, 200, 300):
            writer.row({"env_steps": step, "x": step})
    with closing(MetricsWriter(tmp_path)) as resumed:  # a new process, restored from step 100
        resumed.row({"env_steps": 150, "x": -1.0})
        resumed.row({"env_steps": 200, "x": -2.0})
        resumed.row({"env_steps": 160, "x": -3.0})  # and the same writer falls back
    assert tensorboard_scalars(tmp_path)["x"] == [(100, 100.0), (150, -1.0), (160, -3.0)]
    assert len(rows(tmp_path / "metrics.jsonl")) == 6


def test_writing_imports_neither_torch_nor_tensorflow_and_importing_not_even_tensorboard(tmp_path: Path) -> None:
    program = f"""if True:
        import sys
        from pathlib import Path
        from actorlearn.metrics.writer import MetricsWriter
        assert not {{"tensorboard", "numpy", "google.protobuf"}} & set(sys.modules), "import should stay cheap"
        MetricsWriter(Path({str(tmp_path)!r})).row({{"env_steps": 1}})
        assert "tensorboard" in sys.modules
        print(sorted({{"torch", "tensorflow"}} & set(sys.modules)))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_events_carry_wall_time_and_a_time_that_never_runs_backwards(tmp_path: Path) -> None:
    clock = iter([10.0, 10.5, 12.25])
    wall = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    with closing(EventsWriter(tmp_path, monotonic=lambda: next(clock), wall=lambda: wall)) as events:
        events.event("spawned", "simulator-0", 0, "start", pid=4711)
        events.event(
            "died", "simulator-0", 0, "signal 9", lost_steps=np.int64(3), share=float("nan"), log=Path("a.log")
        )
    assert rows(tmp_path / "events.jsonl") == [
        {
            "time": "2026-01-02T03:04:05.000+00:00",
            "time_s": 0.5,
            "kind": "spawned",
            "process": "simulator-0",
            "incarnation": 0,
            "cause": "start",
            "pid": 4711,
        },
        {
            "time": "2026-01-02T03:04:05.000+00:00",
            "time_s": 2.25,
            "kind": "died",
            "process": "simulator-0",
            "incarnation": 0,
            "cause": "signal 9",
            "lost_steps": 3,
            "share": None,
            "log": "a.log",
        },
    ]


def test_an_event_field_cannot_replace_the_clock(tmp_path: Path) -> None:
    with (
        closing(EventsWriter(tmp_path)) as events,
        pytest.raises(ValueError, match="EventsWriter writes the field 'time_s' itself"),
    ):
        events.event("died", "trainer", 1, "exit 1", time_s=0.0)
