"""The display of a run in a terminal, drawn from given reports, processes and events."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console as Terminal

from actorlearn.metrics.registry import SIMULATION_LIMIT_SHARE, metric
from launch.display.console import LiveConsole, PlainConsole, make
from launch.display.screen import fit, picture, slow_stage, sparkline, stage_shares
from launch.reports.format import metric_value
from launch.runs.view import RunView
from launch.supervision.events import Console, Note

ROW: dict[str, Any] = {
    "time_s": 754.0,
    "env_steps": 12_000_000,
    "frames": 48_000_000,
    "updates": 75_000,
    "env_steps_per_s": 5000.0,
    "frames_per_s": 20_000.0,
    "episodes": 12_345,
    "episode_return_mean": 321.25,
    "episode_length_mean": 1834.2,
    "policy_lag_mean": 0.5,
    "share_simulate": 0.41,
    "share_infer": 0.22,
    "share_learn": 0.12,
    "share_copy": 0.0,
    "share_publish": None,
    "share_wait": 0.25,
    "loss": 0.0123,
    "policy_loss": -0.00234,
    "entropy": 1.21,
}
PONG = RunView("pong", "ALE/Pong-v5", 80_000_000)
NOTHING_YET: dict[str, Any] = dict.fromkeys(ROW)


def processes(simulators: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [running("trainer", 100, 0.25)]
    for i in range(simulators):
        found.append({**running("simulator", 200 + i, 0.9), "name": f"simulator-{i}"})
    return found


def running(role: str, pid: int, busy: float) -> dict[str, Any]:
    return {"name": role, "role": role, "state": "running", "incarnation": 0, "pid": pid, "busy": busy}


def seen(row: dict[str, Any] | None = ROW, simulators: int = 2) -> RunView:
    view = RunView("breakout-20260101", "ALE/Breakout-v5", 80_000_000, processes=processes(simulators))
    return view if row is None else view.with_row(row)


def drawn(view: RunView, width: int = 80, height: int = 30) -> str:
    terminal = Terminal(file=io.StringIO(), width=width, height=height, color_system=None)
    with terminal.capture() as capture:
        terminal.print(picture(replace(view, elapsed_s=3661.0), width, height))
    return capture.get()


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_picture_fits_its_terminal(width: int) -> None:
    view = seen()
    view = view.with_event(
        {"time_s": 1.0, "kind": "died", "process": "simulator-1", "incarnation": 0, "cause": "x " * 200}
    )
    for row in (ROW, NOTHING_YET, {}):
        view = view.with_row(row)
        assert max(len(line) for line in drawn(view, width).splitlines()) <= width


def test_the_picture_says_what_a_person_wants_to_know() -> None:
    text = drawn(seen(), 120)
    for part in (
        "breakout-20260101  ALE/Breakout-v5",
        "running · 1:01:01 · 3:46:40 left",
        "12,000,000 / 80,000,000 steps   15.0%",
        "5,000 steps/s",
        "20,000 frames/s",
        "321.2 mean score",
        "321.2 best mean",
        "12,345 games",
        "75,000 updates",
        "0.500 policy lag",
        "0.012 loss",
        "-0.002 policy loss",
        "most work: simulate",
        "simulate 41%",
        "wait 25%",
    ):
        assert part in text


def test_the_picture_says_how_old_experience_is_and_how_much_of_it_counts() -> None:
    old = {"policy_lag_max": 5, "policy_lag_0": 0.0, "policy_lag_1": 0.25, "policy_lag_4_to_7": 0.75}
    worth = {"effective_sample_size_4_to_7": 0.631, "clipped_share_4_to_7": 0.2}
    assert " lag: 1 update 25%; 4 to 7 updates 75%, 63% effective, 20% clipped" in drawn(seen(ROW | old | worth), 120)
    assert " lag: " not in drawn(seen(ROW | {"policy_lag_max": 0, "policy_lag_0": 1.0}), 120)


def test_the_picture_shows_chosen_values_and_where_there_is_room_their_reasons() -> None:
    view = seen()
    for key, value in (("simulators.count", 2), ("trainer.precision", "bf16")):
        view = view.with_event(
            {"time_s": 0.0, "kind": "chosen", "key": key, "value": value, "why": f"{key} is measured"}
        )
    low, high = drawn(view, 120, 30), drawn(view, 120, 40)
    assert "simulators.count 2 · trainer.precision bf16" in low and "measured" not in low
    assert "simulators.count 2  simulators.count is measured" in high
    assert not view.events, "chosen values are kept apart from the events"
    assert len(drawn(view, 60, 30).splitlines()) <= 30


def test_the_picture_has_a_line_for_each_process() -> None:
    view = seen()
    view = replace(
        view, processes=[*processes(1), {"name": "simulator-1", "state": "backoff", "incarnation": 3, "pid": None}]
    )
    lines = drawn(view).splitlines()
    assert any(line.split()[:5] == ["simulator-0", "running", "0", "200", "90%"] for line in lines)
    assert any(line.split() == ["simulator-1", "backoff", "3", "–", "–"] for line in lines)


def test_an_unknown_number_is_shown_as_a_dash_and_not_as_zero() -> None:
    for text in (drawn(seen(NOTHING_YET)), drawn(seen(None))):
        assert "– mean score" in text
        assert "– steps/s" in text
        assert "-:-- left" in text
        assert "time by stage" not in text


def test_the_picture_of_many_processes_is_no_higher_than_the_terminal() -> None:
    view = seen(simulators=64)
    view = replace(view, processes=[*view.processes, {"name": "simulator-64", "state": "backoff", "incarnation": 2}])
    for i in range(9):
        view = view.with_event({"time_s": i, "kind": "ready", "process": f"simulator-{i}"})
    text = drawn(view, 80, 30)
    assert len(text.splitlines()) <= 30
    assert "64 x simulator" in text
    assert "simulator-64" in text  # a process that does not run keeps its line
    assert "simulator-8 ready" in text
    assert "simulator-3 ready" not in text


def test_processes_share_lines_only_when_they_must() -> None:
    assert fit(processes(3), 4) == processes(3)
    assert [line["name"] for line in fit(processes(4), 4)] == ["trainer", "4 x simulator"]
    broken = [{"name": f"simulator-{i}", "state": "backoff"} for i in range(9)]
    assert [line["name"] for line in fit(broken, 3)] == ["simulator-0", "simulator-1", "7 more"]


def test_the_best_mean_is_remembered_and_the_time_left_is_smooth() -> None:
    view = seen(None)
    for number in range(100):
        at = {"time_s": 554.0 + 2 * number, "env_steps": 11_000_000 + 10_000 * number}
        view = view.with_row(ROW | at)
    view = view.with_row(ROW | {"episode_return_mean": 300.0, "env_steps_per_s": 0.0})
    assert view.best_return == 321.25
    assert view.left_s == pytest.approx(68_000_000 / 5000.0)
    view = view.with_row(ROW | {"time_s": 756.0, "env_steps": 12_020_000, "env_steps_per_s": 10_000.0})
    assert view.left_s == pytest.approx(67_980_000 / 5000.0, rel=0.02)


def test_waiting_is_no_work() -> None:
    shares = stage_shares({"share_wait": 0.9, "share_learn": 0.1, "share_infer": None})
    assert list(shares) == ["learn", "wait"]
    assert slow_stage(shares) == "learn"
    assert slow_stage({"wait": 1.0}) is None


def test_an_event_of_the_run_itself_ends_it() -> None:
    view = seen()
    view = view.with_event({"kind": "failed", "process": "trainer"})
    assert view.status == "running"
    view = view.with_event({"kind": "stopped", "process": ""})
    assert view.status == "stopped"
    assert "left" not in drawn(view).splitlines()[0]


def test_frequent_checkpoints_do_not_drown_reports() -> None:
    stream, now_s = io.StringIO(), Clock()
    lines: Console = PlainConsole(PONG, stream, now_s)
    for second in range(13):
        lines.event(Note("saved", "trainer", 0, fields={"env_steps": 100 * second}))
        now_s.now_s += 1.0
    lines.event(Note("finished"))
    assert stream.getvalue().splitlines() == [
        "    0:00  trainer saved: 0 steps",
        "    0:10  trainer saved: 1,000 steps",
        "    0:12  trainer saved: 1,200 steps",
        "    0:13  finished",
    ]


def test_without_a_terminal_reports_are_plain_lines_at_most_every_ten_seconds() -> None:
    stream, now_s = io.StringIO(), Clock()
    console: Console = PlainConsole(PONG, stream, now_s)
    console.event(Note("chosen", "", 0, "trainer.threads: 1, because", {"key": "trainer.threads", "value": 1}))
    console.event(Note("chosen", "", 0, "replay.ratio: left out", {"key": "replay.ratio", "value": None}))
    console.row(NOTHING_YET)
    console.processes(processes(2))
    now_s.now_s += 4.0
    console.row(ROW)  # too soon
    console.event(Note("died", "simulator-1", 0, "signal 9"))
    now_s.now_s += 6.0
    console.row(ROW)
    now_s.now_s += 1.0
    console.row(ROW | {"env_steps": 80_000_000})  # too soon, but the last
    console.close()
    console.close()
    assert stream.getvalue().splitlines() == [
        "    0:00  chosen: replay.ratio: left out",
        "    0:00           0 steps (  0.0%) ·      – steps/s · score      – (     – games) · "
        "     – updates · lag     – ·    -:-- left",
        "    0:04  simulator-1 died: signal 9",
        "    0:10  12,000,000 steps ( 15.0%) ·  5,000 steps/s · 20,000 frames/s · score  321.2 (12,345 games) · "
        "75,000 updates · lag 0.500 · 3:46:40 left",
        "    0:11  80,000,000 steps (100.0%) ·  5,000 steps/s · 20,000 frames/s · score  321.2 (12,345 games) · "
        "75,000 updates · lag 0.500 ·    0:00 left",
    ]


def test_the_live_picture_is_drawn_at_most_a_few_times_a_second() -> None:
    stream, now_s = io.StringIO(), Clock()
    terminal = Terminal(file=stream, width=100, height=30, force_terminal=True, color_system=None)
    console = LiveConsole(PONG, terminal, now_s)
    for _ in range(100):
        now_s.now_s += 0.01
        console.processes(processes(2))
        console.row(ROW)
    pictures = stream.getvalue().count("ALE/Pong-v5")
    assert 3 <= pictures <= 6
    console.event(Note("died", "simulator-1", 0, "signal 9"))  # at once
    assert "simulator-1 died: signal 9" in stream.getvalue()
    console.close()
    closed = stream.getvalue()
    console.close()
    console.row(ROW)
    assert stream.getvalue() == closed


def test_the_screen_counts_the_time_of_earlier_lives() -> None:
    stream, now_s = io.StringIO(), Clock()
    terminal = Terminal(file=stream, width=100, height=30, force_terminal=True, color_system=None)
    console = LiveConsole(replace(PONG, elapsed_s=3600.0), terminal, now_s)
    now_s.now_s += 61.0
    console.event(Note("died", "simulator-1", 0, "signal 9"))
    console.close()
    newest = stream.getvalue().rpartition("ALE/Pong-v5")[2]
    assert "1:01:01" in newest.splitlines()[0]
    assert " 1:01:01  simulator-1 died: signal 9" in newest


def test_a_terminal_gets_the_picture_and_any_other_stream_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    assert isinstance(make(PONG, io.StringIO()), PlainConsole)
    assert isinstance(make(PONG, Tty(), plain=True), PlainConsole)
    live = make(PONG, Tty())
    live.close()
    assert isinstance(live, LiveConsole)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make(PONG, Tty()), PlainConsole)


def test_plain_lines_that_are_asked_for_have_each_report_and_each_checkpoint() -> None:
    stream = io.StringIO()
    console = make(PONG, stream, plain=True)
    for steps in (100, 200):
        console.row(ROW | {"env_steps": steps})
        console.event(Note("saved", "trainer", 0, fields={"env_steps": steps}))
    assert [line.split("steps")[0].split()[1:] for line in stream.getvalue().splitlines()] == [
        ["100"],
        ["trainer", "saved:", "100"],
        ["200"],
        ["trainer", "saved:", "200"],
    ]
    console.close()


@pytest.mark.parametrize("height", [24, 40])
def test_the_newest_warning_stays_in_sight(height: int) -> None:
    view = seen()
    for i in range(3):
        used = "checkpoints/000000001000 is used instead"
        cause = f"checkpoints/{i:012d} is damaged, so {used}: tensors.safetensors has 0 bytes"
        view = view.with_event({"time_s": i, "kind": "warned", "process": "trainer", "cause": cause})
    for steps in range(9):
        view = view.with_event({"time_s": 9, "kind": "saved", "process": "trainer", "env_steps": steps})
    text = drawn(view, 80, height)
    assert "trainer warned: checkpoints/000000000002 is damaged" in text
    assert "checkpoints/000000000001" not in text
    assert "trainer saved: 8 steps" in text


def test_a_low_terminal_still_shows_processes_and_the_newest_event() -> None:
    view = seen(simulators=16)
    for i in range(9):
        view = view.with_event({"time_s": i, "kind": "ready", "process": f"simulator-{i}"})
    text = drawn(view, 80, 24)
    assert len(text.splitlines()) < 24
    assert "16 x simulator" in text
    assert "simulator-8 ready" in text


@pytest.mark.parametrize(("width", "height"), [(40, 20), (60, 24), (80, 24), (100, 30), (120, 40), (200, 60)])
def test_the_fullest_picture_fits_one_screen_and_shows_what_matters(width: int, height: int) -> None:
    dropped = {"steps_used": 11_000_000, "steps_dropped": 1_000_000, "dropped_trainer_died": 1_000_000}
    lags = {"policy_lag_max": 5, "policy_lag_1": 0.25, "policy_lag_4_to_7": 0.75}
    view = seen(ROW | dropped | lags | {"gradient_norm": 0.5, "value_loss": 0.1}, simulators=64)
    for key in ("trainer.precision", "trainer.threads", "trainer.layout"):
        view = view.with_event({"time_s": 0.0, "kind": "chosen", "key": key, "value": 1, "why": "it is measured"})
    for i in range(9):
        view = view.with_event({"time_s": i, "kind": "died", "process": f"simulator-{i}", "cause": "signal 9"})
    lines = drawn(view, width, height).splitlines()
    assert len(lines) < height and max(map(len, lines)) <= width
    text = "\n".join(lines)
    for part in ("3:46:40 left", "15.0%", "321.2 mean score", "5,000 steps/s", "0.500 policy lag", "64 x simulator"):
        assert part in text
    assert " 9 died, newest at 0:08" in text and "most work: simulate" in text


def test_the_score_has_its_trend_beside_it() -> None:
    view = PONG
    for i, score in enumerate((-21.0, -21.0, -14.0, 0.0, 14.0, 21.0)):
        view = view.with_row(ROW | {"env_steps": i * 1_000_000, "episode_return_mean": score})
    assert "21.0 mean score  ▁▁▁▁▁▁▂▂▂▅▅▅▇▇▇▇█" in drawn(replace(view, processes=()), 120)
    assert sparkline([(0, 1.0)], 8) == ""
    assert sparkline([(0, 5.0), (1, 5.0)], 8) == "▁▁"
    assert sparkline([(0, 0.0), (100, 7.0)], 4) == "▁▁▁█"
    assert sparkline([(i, float(i)) for i in range(256)], 8) == "▁▂▃▄▅▆▇█"


def test_the_trend_forgets_what_a_restored_trainer_has_undone() -> None:
    view = RunView("catch", "Catch", 256)
    for env_steps, score in ((10, 1.0), (20, 2.0), (20, 3.0), (30, 4.0), (15, 1.5)):
        view = view.with_row({"env_steps": env_steps, "episode_return_mean": score})
    assert view.trend == ((10, 1.0), (15, 1.5))
    assert RunView("endless").with_row({"env_steps": 5, "episode_return_mean": 1.0}).trend == ()


def test_the_picture_compares_the_rate_with_that_of_simulators_alone() -> None:
    text = drawn(seen(ROW | {SIMULATION_LIMIT_SHARE: 0.71}), 120)
    speed = next(line for line in text.splitlines() if "steps/s" in line)
    row = {SIMULATION_LIMIT_SHARE: 0.71}
    assert f"{metric_value(row, SIMULATION_LIMIT_SHARE)} {metric(SIMULATION_LIMIT_SHARE).shown_as}" in speed


def test_the_picture_says_that_learning_is_ill_and_what_to_try() -> None:
    row = {"env_steps": 10, "health": ["trainer-1: dead units", "policy collapsed"]}
    said = drawn(RunView("run").with_row(row), 200)
    assert "learning fails: trainer-1: dead units, policy collapsed  try: lower optimizer.learning_rate" in said
    assert "learning fails" not in drawn(RunView("run").with_row({"env_steps": 10}), 200)


WAITING = {"env_steps": 0, "updates": 0, "update_steps": 1024, "update_steps_made": 212, "update_in_s": 40.6}
AWAITED = "first update in about 41 s: 212 of 1,024 steps made at 20 steps/s"


def test_steps_are_shown_before_they_are_learned_from() -> None:
    row, out = {**WAITING, "steps_made_per_s": 20.0}, io.StringIO()
    assert AWAITED in drawn(PONG.with_row(row))
    lines = PlainConsole(PONG, out, Clock())
    lines.row(row)
    assert out.getvalue().splitlines()[-1].endswith(AWAITED)
    lines.row({**row, "updates": 1, "env_steps": 1024})
    lines.close()
    assert "1,024 steps" in out.getvalue() and "next update in about 41 s" in out.getvalue()


def test_steps_for_statistics_of_observations_are_not_shown_as_dropped() -> None:
    collecting = {"updates": 6, "statistics_rows_made": 4000, "statistics_rows_needed": 10_000}
    row = {"env_steps": 0, "steps_used": 0, "steps_dropped": 4000, "dropped_statistics": 4000, **collecting}
    said, out = "collecting statistics of observations before learning begins: 4,000 of 10,000", io.StringIO()
    seen = drawn(PONG.with_row(row))
    assert said in seen and "0 steps used, 4,000 for statistics, 0 dropped" in seen
    lines = PlainConsole(PONG, out, Clock())
    lines.row(row)
    assert out.getvalue().splitlines()[-1].endswith(f"  {said}")
    lost = {**row, "steps_dropped": 4007, "dropped_stale": 7}
    assert "4,000 for statistics, 7 dropped: stale 7" in drawn(PONG.with_row(lost), 160)


def test_progress_is_measured_towards_the_step_at_which_the_run_shall_stop() -> None:
    view = replace(PONG, total_steps=50_000_000, stop_at_steps=8000).with_row({"env_steps": 4000, "updates": 1})
    assert "4,000 / 8,000 steps   50.0%" in drawn(view)
