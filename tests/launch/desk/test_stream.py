"""What the desk sends to a page: first everything, then changes, and for one run what `top` shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actorlearn.metrics.writer import EVENTS_FILE, METRICS_FILE
from launch.desk import names, parts
from launch.desk import watched as watching
from launch.desk.cast import Process
from launch.desk.load import Load
from launch.desk.report import PAGE, page
from launch.desk.stream import Changes, InFull, Overview
from launch.desk.watched import WatchedRuns, id_of
from launch.display.plot import COLOURS, DARK_COLOURS
from launch.reports.compare import find_differences
from launch.runs import find, view
from launch.runs.curves import SCORE
from launch.runs.find import RunFolder
from launch.runs.view import RunReader
from tests.launch.desk.folders import AGAIN, DIED, SPAWNED, append, row, write_run
from tests.launch.desk.pages import parts_in
from tests.launch.runs.folders import me

NOBODY = 65534


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "FIND_EVERY_S", 0.0)
    monkeypatch.setattr(watching, "FIND_SHARE", 0.0)
    monkeypatch.setattr(find, "living", list)  # hides other runs of this machine
    monkeypatch.setattr(view, "ANSWER_S", 0.01)  # no supervisor answers


def test_a_page_gets_all_runs_at_first_and_then_what_has_changed(tmp_path: Path) -> None:
    living = write_run(tmp_path / "living", [row(n) for n in range(9)], SPAWNED, **me())
    ended = write_run(tmp_path / "ended", [row(n) for n in range(9)], seed=2)
    (ended.path / "summary.json").write_text('{"status": "finished"}')
    write_run(tmp_path / "other", [row(n) for n in range(9)], horizon=20)
    overview, changes = Overview(WatchedRuns(tmp_path)), Changes()
    first = changes.of(overview.changed())
    told = {name: msgspec.json.decode(part) for name, part in first.items()}
    ids = {run["name"]: run["id"] for run in told["runs"]}
    assert set(ids) == {"living", "ended", "other"} and ids["living"] == id_of(living)
    groups = told["groups"]["groups"]
    assert sorted(len(group["runs"]) for group in groups) == [1, 2]
    assert told["groups"]["keys"] == ["algorithm.horizon"]
    assert {group["name"] for group in groups} == {"made", "other"}
    assert told[f"curve/{ids['living']}"]["metrics"][SCORE]["by_steps"] == [
        [100 * n for n in range(9)],
        [pytest.approx(0.1 * n) for n in range(9)],
    ]
    bands = [told[f"band/{group['number']}"][SCORE] for group in groups]
    assert sorted(band["count"] for band in bands) == [1, 2]
    assert sum(band["by_steps"] is not None for band in bands) == 1, "one run has no band"
    assert changes.of(overview.changed()) == {}

    append(living, "metrics.jsonl", row(9))
    append(living, "events.jsonl", DIED)
    new = changes.of(overview.changed())
    assert f"curve/{ids['living']}" in new and f"curve/{ids['other']}" not in new
    curve = msgspec.json.decode(new[f"curve/{ids['living']}"])
    assert curve["metrics"][SCORE]["by_steps"][0][-1] == 900
    assert [(mark["text"], mark["alarm"], mark["steps"]) for mark in curve["marks"]] == [
        ("simulator-1 died: signal 9", True, 900)
    ]
    line = next(run for run in msgspec.json.decode(new["runs"]) if run["name"] == "living")
    assert line["status"] == "running" and line["alarm"]["text"] == "simulator-1 died: signal 9"
    assert not line["alarm"]["restarted"]

    append(living, "events.jsonl", {"kind": "restarted", "process": "simulator-0", "time_s": 22.0})
    append(living, "events.jsonl", AGAIN)
    line = next(run for run in overview.changed()["runs"] if run["name"] == "living")
    assert line["alarm"]["text"] == "simulator-1 died: signal 9" and line["alarm"]["restarted"]


def test_runs_that_come_later_are_found_and_those_that_are_gone_forgotten(tmp_path: Path) -> None:
    overview = Overview(WatchedRuns(tmp_path))
    assert overview.changed()["runs"] == []
    write_run(tmp_path / "later", [row(1)])
    assert [run["name"] for run in overview.changed()["runs"]] == ["later"]
    for file in (tmp_path / "later").iterdir():
        file.unlink()
    assert overview.changed()["runs"] == []


def test_another_metric_is_drawn_when_it_is_asked_for(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [row(n, entropy=1.0 / (n + 1)) for n in range(4)])
    told = Overview(WatchedRuns(tmp_path), ["entropy"]).changed()
    assert told["desk"]["shown"][0]["name"] == "entropy" and "nats" in told["desk"]["shown"][0]["description"]
    assert "entropy" in [one["name"] for one in told["desk"]["metrics"]]
    curve = msgspec.json.decode(told[f"curve/{id_of(run)}"])
    assert curve["metrics"]["entropy"]["by_steps"][1] == [1.0, 0.5, pytest.approx(1 / 3, rel=1e-5), 0.25]


def test_a_group_keeps_its_number_while_others_come_and_go(tmp_path: Path) -> None:
    write_run(tmp_path / "first", [row(1)], horizon=1)
    write_run(tmp_path / "second", [row(1)], horizon=2)
    overview = Overview(WatchedRuns(tmp_path))

    def numbers() -> dict[str, int]:
        told = overview.changed()
        names = {run["id"]: run["name"] for run in told["runs"]}
        return {names[group["runs"][0]]: group["number"] for group in told["groups"]["groups"]}

    before = numbers()
    assert sorted(before.values()) == [0, 1]
    write_run(tmp_path / "third", [row(1)], horizon=3)
    assert numbers() == {**before, "third": 2}
    for file in (tmp_path / "first").iterdir():
        file.unlink()
    assert numbers() == {"second": before["second"], "third": 2}
    write_run(tmp_path / "fourth", [row(1)], horizon=4)
    write_run(tmp_path / "fifth", [row(1)], horizon=5)
    again = numbers()
    assert sorted(again.values()) == [0, 1, 2, 3], "free numbers are used again, because there are few colours"
    assert again | {"second": before["second"], "third": 2} == again


def test_the_page_of_one_run_and_a_report_have_the_extremes_of_all_reports(tmp_path: Path) -> None:
    """Formerly a sample of 300 reports was drawn, in which a collapse may be missing."""
    rows = [row(n, episode_return_mean=-1.0 if n == 6001 else 0.5) for n in range(10_000)]
    run = write_run(tmp_path / "run", rows)
    runs = WatchedRuns(tmp_path)

    def least(overview: Overview) -> float:
        curve = msgspec.json.decode(overview.changed()[f"curve/{id_of(run)}"])
        return float(min(curve["metrics"][SCORE]["by_steps"][1]))

    assert least(Overview(runs)) == 0.5, "the page of all runs has a sample"
    assert least(Overview(runs, in_full=[id_of(run)])) == least(Overview(WatchedRuns(tmp_path), in_full=None)) == -1.0
    assert "-1.0" in page([run], SCORE)


@pytest.mark.nightly
def test_the_table_and_a_report_have_the_best_score_of_all_reports(tmp_path: Path) -> None:
    """Formerly the better score of the first and the last report of a long run was shown, as only these were read."""
    env_changed = [
        row(n, env_changes=1, episode_return_mean=0.5 if n == 12_000 else 0.1) for n in range(10_000, 14_000)
    ]
    rows = [row(n, episode_return_mean=0.9 if n == 6001 else 0.1) for n in range(10_000)]
    made = [write_run(tmp_path / "run-0", rows), write_run(tmp_path / "run-1", rows)]
    (resumed,) = [write_run(tmp_path / "run-2", rows + env_changed, changed={"env.id": {"was": "a", "is": "b"}})]
    bests = {id_of(run): RunReader(run).look().best_return for run in [*made, resumed]}
    assert sorted(filter(None, bests.values())) == [0.5, 0.9, 0.9]
    runs = WatchedRuns(tmp_path)
    overview, shown = Overview(runs), {}
    while overview.may_have_changed and shown != bests:
        shown |= {run["id"]: run["numbers"]["best"] for run in overview.changed().get("runs", ())}
        assert all(best in (None, bests[run]) for run, best in shown.items()), "what is unknown yet is not shown"
    assert shown == bests
    append(made[0], METRICS_FILE, row(10_000, episode_return_mean=0.95))
    assert RunReader(made[0]).look().best_return == 0.95
    told = parts_in(page(made, SCORE))
    assert sorted(run["numbers"]["best"] for run in told["runs"]) == [0.9, 0.95]


def test_the_table_keeps_the_newest_metrics_of_learning_while_an_update_is_awaited(tmp_path: Path) -> None:
    """Formerly the metrics of the first report were shown."""
    waiting = [row(10_000 + n, update_steps=100) for n in range(500)]
    run = write_run(tmp_path / "run", [*(row(n, loss=float(-n)) for n in range(10_000)), *waiting])
    (line,) = Overview(WatchedRuns(tmp_path), columns=None).changed()["runs"]
    assert line["metrics"]["loss"] == RunReader(run).look().row["loss"] == -9_999.0
    assert line["numbers"]["score"] == pytest.approx(0.1 * 10_499)


def test_a_seed_that_died_early_does_not_end_the_band_of_the_others(tmp_path: Path) -> None:
    for seed, count in ((1, 9), (2, 9), (3, 3)):
        run = write_run(tmp_path / f"run-{seed}", [row(n) for n in range(count)], seed=seed)
        status = "finished" if count == 9 else "failed"
        (run.path / "summary.json").write_text(json.dumps({"status": status}))
    told = Overview(WatchedRuns(tmp_path), ["entropy"]).changed()
    band = msgspec.json.decode(told[f"band/{told['groups']['groups'][0]['number']}"])[SCORE]
    assert band["count"] == 2 and band["by_steps"][0][-1] == 800, "the score is there, whatever metric is drawn"


def test_several_metrics_of_a_run_are_sent_with_its_environment_and_mode(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [row(n, entropy=1.0) for n in range(4)])
    told = Overview(WatchedRuns(tmp_path), ["entropy", SCORE, "unknown"]).changed()
    assert [one["name"] for one in told["desk"]["shown"]] == ["entropy", SCORE, "unknown"]
    metrics = msgspec.json.decode(told[f"curve/{id_of(run)}"])["metrics"]
    assert [len(metrics[name]["by_steps"][0]) for name in ("entropy", SCORE, "unknown")] == [4, 4, 0]
    (group,) = told["groups"]["groups"]
    assert (group["env"], group["mode"]) == ("CartPole-v1", "")


def test_the_load_of_processes_of_this_machine_is_sampled(tmp_path: Path) -> None:
    load = Load()
    here, elsewhere = Process("trainer", "trainer", 0, "running", pid=os.getpid()), Process("far", "trainer", 1, pid=1)
    elsewhere.node = "other"
    for _ in range(3):
        load.sample([here, elsewhere, Process("gone", "simulator", 0, "running", pid=2**22 + 1)])
    samples = load.of("trainer")
    assert len(samples["seconds"]) == len(samples["cores"]) == 2 and samples["bytes"][-1] > 1_000_000
    assert load.of("far")["seconds"] == load.of("gone")["seconds"] == []


def test_samples_are_kept_for_ten_minutes_also_of_an_ended_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of ended runs and detached simulators would fill the memory of a desk that runs for weeks."""
    monkeypatch.setattr(watching, "CHECK_EVERY_S", 0.0)
    with subprocess.Popen(["sleep", "60"]) as supervisor:
        about = {"supervisor_pid": supervisor.pid, "supervisor_started": find.start_time(supervisor.pid)}
        run = write_run(tmp_path / "run", [row(1)], [{**SPAWNED[0], "pid": os.getpid()}], **about)
        runs = WatchedRuns(tmp_path)
        runs.look()
        runs.measure()
        runs.measure()
        supervisor.kill()
    runs.look()
    runs.measure()
    watched = runs.get(id_of(run))
    assert watched is not None and watched.view.has_ended
    assert len(watched.load.of("trainer")["seconds"]) == 1, "the page still shows how its memory grew"
    monkeypatch.setattr(time, "time", partial(float, time.time() + 601.0))
    runs.measure()
    assert watched.load.of("trainer")["seconds"] == []


def test_samples_of_a_process_have_a_gap_where_it_was_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Formerly the line went through the restart, and had gaps where only the desk had been slow."""
    load, process = Load(), Process("trainer", "trainer", 0, "running", pid=os.getpid())
    states = ["running", "running", "running", "died", "running", "running"]
    for number, state in enumerate(states):
        monkeypatch.setattr(time, "time", partial(float, 1_000_000 + 20 * number))
        process.state, process.pid = state, os.getppid() if number > 3 else os.getpid()
        load.sample([process])
        assert (load.newest("trainer") is not None) == (number in (1, 2, 5))
        assert None not in load.of("trainer")["cores"][-1:], "the page shows the last number beside the curve"
    samples = load.of("trainer")
    assert samples["seconds"] == [1_000_020.0, 1_000_040.0, 1_000_080.0, 1_000_100.0]
    for name in ("cores", "bytes"):
        assert [number is None for number in samples[name]] == [False, False, True, False]


def test_samples_of_the_machine_are_kept_for_ten_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Formerly a desk that took no samples for a while drew a curve over hours."""
    runs = WatchedRuns(tmp_path)
    runs.measure()
    runs.measure()
    assert len(runs.machine.samples()["seconds"]) == 1
    monkeypatch.setattr(time, "time", partial(float, time.time() + 601.0))
    runs.measure()
    assert len(runs.machine.samples()["seconds"]) == 1


@pytest.mark.parametrize("name", ['say "hi"', "back\\slash", "\x00\x1f\x7f", "new\nline", "größe", "</script>", ""])
def test_a_metric_of_any_name_is_drawn(tmp_path: Path, name: str) -> None:
    run = write_run(tmp_path / "run", [row(n, **{name: 0.5 * n}) for n in range(3)])
    told = msgspec.json.decode(msgspec.json.encode(Overview(WatchedRuns(tmp_path), [name]).changed()))
    assert name in [one["name"] for one in told["desk"]["metrics"]]
    assert told[f"curve/{id_of(run)}"]["metrics"][name]["by_steps"][1] == [0.0, 0.5, 1.0]
    assert page([run], name)


@pytest.mark.parametrize("name", ["\ud800", "no such metric"])
def test_a_metric_that_no_report_has_is_an_empty_curve(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / "run", [row(n) for n in range(3)])
    assert WatchedRuns(tmp_path).look()[0].curve(name).points.numbers.tolist() == []


@pytest.mark.parametrize("shown", [[SCORE, "absent"], ["absent"], [SCORE, "late"], ["late", SCORE]])
def test_events_are_marked_at_their_steps_whatever_metrics_are_drawn(tmp_path: Path, shown: Sequence[str]) -> None:
    """Formerly the steps came from the curve of the last metric, so marks were missing or at its first point."""
    run = write_run(tmp_path / "run", [row(n, late=1.0 if n > 50 else None) for n in range(99)], [DIED])
    (watched,) = WatchedRuns(run.path, [run]).look()
    (mark,) = parts.curve(watched, True, shown)["marks"]
    assert (mark["minutes"], mark["steps"]) == (0.35, 1050)


def test_the_page_of_one_run_shows_what_top_shows(tmp_path: Path) -> None:
    shares = {"share_simulate": 0.5, "share_learn": 0.3, "share_wait": 0.2, "simulation_limit_share": 0.75}
    rows = [row(n, **shares, policy_lag_0=0.9, policy_lag_1=0.1, loss=0.5) for n in range(4)]
    told_of = {"command": ["run", "x.yaml", "seed=1"], "commit": "abc", "dirty": False, "machine": {"cpu": "fast"}}
    meta = {**told_of, "observation_bytes": 4 * 84 * 84}
    run = write_run(tmp_path / "run", rows, [*SPAWNED, DIED], **meta)
    told = InFull(run).changed()
    view = RunReader(run).look()
    figures = {one["name"]: one["text"] for one in told["figures"]}
    assert figures["episode_return_mean"] == "0.300" and figures["best_return"] == "0.300" == f"{view.best_return:.3f}"
    assert told["head"]["status"] == view.status == "died"
    assert told["stages"]["most_work"] == "simulate" and told["stages"]["limit"]["text"] == "75%"
    assert [bar["text"] for bar in told["histograms"][0]["bars"]] == ["90%", "10%"]
    assert told["events"][0]["text"] == "simulator-1 died: signal 9"
    assert told["about"]["repeat"] == ["git checkout abc", "actorlearn run x.yaml seed=1"]
    assert told["topology"].startswith("name: made")
    assert any("1.3 MiB/s" in line["said"] for line in told["graph"]["lines"]), "50 steps/s of 28,224 bytes"
    assert json.loads(msgspec.json.encode(told)) == told


def test_all_rates_of_an_ended_run_are_means_over_the_run(tmp_path: Path) -> None:
    rates = {"env_steps_per_s": 3.0, "frames_per_s": 12.0, "steps_made_per_s": 4.0}
    run = write_run(tmp_path / "run", [row(9, frames=3600, steps_made=950, **rates)])
    summary = {"status": "finished", "env_steps": 900, "frames": 3600, "steps_made": 1000, "wall_time_s": 10.0}
    (run.path / "summary.json").write_text(json.dumps({**summary, "env_steps_per_s": 90.0}))
    figures = {one["name"]: one["text"] for one in InFull(run).changed()["figures"]}
    assert [figures[name] for name in rates] == ["90", "360", "100"]
    (run.path / "summary.json").write_text(json.dumps({**summary, "wall_time_s": "long", "frames": None}))
    assert {one["name"]: one["text"] for one in InFull(run).changed()["figures"]}["frames_per_s"] == "12"


def test_a_run_has_the_date_of_its_first_start(tmp_path: Path) -> None:
    resumed = {"started": "2026-01-03T12:00:00+00:00", "earlier": [{"started": "2026-01-02T13:00:00+01:00"}]}
    write_run(tmp_path / "resumed", [row(1)], **resumed)
    write_run(tmp_path / "odd", [row(1)], started="yesterday", earlier=7)
    write_run(tmp_path / "unknown", [row(1)])
    told = Overview(WatchedRuns(tmp_path)).changed()
    dates = {run["name"]: run["started"] for run in told["runs"]}
    assert dates == {"resumed": "2026-01-02T12:00:00+00:00", "odd": "", "unknown": ""}


def test_processes_are_listed_with_restarts_load_and_age(tmp_path: Path) -> None:
    born = (datetime.now(UTC) - timedelta(minutes=65)).isoformat()
    spawned = [{**one, "time": born, "pid": os.getpid()} for one in SPAWNED]
    again = {**spawned[2], "incarnation": 1, "time": "no time"}
    run = write_run(tmp_path / "run", [row(1)], [*spawned, DIED, again], **me())
    runs = WatchedRuns(tmp_path)
    runs.look()
    for _ in range(3):
        runs.measure()
    watched = runs.get(id_of(run))
    assert watched is not None
    lines = {one["name"]: one for one in InFull(run, watched.load).changed()["processes"]}
    trainer, simulator = lines["trainer"], lines["simulator-1"]
    assert trainer["age"][1].startswith("1:05:0") and trainer["restarts"] == [0, "0"]
    assert trainer["cores"][1].endswith("%") and trainer["memory"][1].endswith(("MiB", "GiB"))
    assert simulator["restarts"] == [1, "1"] and simulator["cause"] == "signal 9" and simulator["age"] == [None, "–"]


def test_films_are_named_by_the_evaluation_and_its_scores(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [row(1)])
    for steps in ("000000000100", "000000000200"):
        folder = run.path / "films" / steps
        folder.mkdir(parents=True)
        (folder / "best.mp4").write_bytes(b"film")
        (folder / "games.json").write_text(json.dumps([{"score": 3.0, "film": "best.mp4"}, {"score": 1.0}]))
    (run.path / "films" / "000000000100" / "games.json").write_text("[")
    films: list[dict[str, Any]] = InFull(run).changed()["films"]
    assert [film["said"] for film in films] == ["best game at 200 steps, score 3.000", "best game at 100 steps"]
    assert films[0]["file"] == "000000000200/best.mp4"


def test_damaged_files_are_shown_as_far_as_they_can_be_read(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [row(1)], [{"kind": "spawned", "process": "x", "role": 7}, {"kind": "died"}])
    (run.path / "topology.yaml").write_bytes(b"\xff{")
    (run.path / "meta.json").write_text('{"machine": 5, "earlier": [3], "command": "run"}')
    append(run, "metrics.jsonl", {"time_s": "x", "env_steps": 1e300, "learners": 5, "policy_lag_0": "half"})
    told = Overview(WatchedRuns(tmp_path)).changed()
    assert [one["name"] for one in told["runs"]] == ["run"]
    told = InFull(run).changed()
    assert told["graph"]["boxes"] == [] and told["histograms"] == []
    assert msgspec.json.encode(told)


def learners(**numbers: Any) -> list[dict[str, Any]]:
    return [row(1), row(2, learners={"trainer": numbers})]


def no_file(run: RunFolder, name: str) -> None:
    (run.path / name).unlink()
    (run.path / name).mkdir()


ODD_RUNS: dict[str, Callable[[Path], RunFolder]] = {
    "a metric of one learner that is text": lambda at: write_run(at, learners(policy_lag_mean="old"), SPAWNED),
    "a number of a process that cannot be": lambda at: write_run(
        at, [row(1)], [{**SPAWNED[1], "pid": -5}, {**SPAWNED[2], "pid": 2.5}], **me()
    ),
    "an event whose kind is a list": lambda at: write_run(at, [row(1)], [*SPAWNED, {"kind": ["died"]}]),
}


def odd_run(make: Callable[[RunFolder], object]) -> Callable[[Path], RunFolder]:
    def made(at: Path) -> RunFolder:
        run = write_run(at, [row(1)], SPAWNED)
        make(run)
        return run

    return made


def write_film(run: RunFolder, name: str, text: str) -> None:
    folder = (run.path / name).parent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "best.mp4").write_bytes(b"film")
    (run.path / name).write_text(text)


ODD_RUNS |= {
    "metrics.jsonl is a folder": odd_run(lambda run: no_file(run, METRICS_FILE)),
    "events.jsonl is a folder": odd_run(lambda run: no_file(run, EVENTS_FILE)),
    "films of no number of steps": odd_run(lambda run: write_film(run, "films/²/best.mp4", "film")),
    "a film whose name is a list": odd_run(lambda run: write_film(run, "films/9/games.json", '[{"film": ["x"]}]')),
}


@pytest.mark.parametrize("what", ODD_RUNS)
def test_one_odd_run_hides_neither_itself_nor_others(tmp_path: Path, what: str) -> None:
    odd = ODD_RUNS[what](tmp_path / "odd")
    write_run(tmp_path / "well", [row(1)])
    runs = WatchedRuns(tmp_path)
    runs.look()
    runs.measure()
    told = Overview(runs).changed()
    assert sorted(one["name"] for one in told["runs"]) == ["odd", "well"]
    assert msgspec.json.encode(InFull(odd).changed())
    assert "well" in page([odd, write_run(tmp_path / "well", [row(1)])], "episode_return_mean")


def test_a_folder_without_permission_to_read_hides_no_other_run(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to(tempfile.gettempdir()):
            folder.chmod(0o755 | folder.stat().st_mode)
    write_run(tmp_path / "own", [row(1)])
    write_run(tmp_path / "closed", [row(1)]).path.chmod(0o000)
    (tmp_path / "closed too").mkdir(mode=0o000)
    user = os.geteuid()
    os.seteuid(user or NOBODY)  # root could read the folders
    try:
        told = Overview(WatchedRuns(tmp_path)).changed()
    finally:
        os.seteuid(user)
        (tmp_path / "closed").chmod(0o700)
    assert [one["name"] for one in told["runs"]] == ["own"]


def test_groups_are_named_once_and_not_with_every_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Formerly each report took ten seconds if a sweep had 200 trials, all of one name."""
    looked = Counter[str]()

    def counted(*given: Any) -> Any:
        looked["differences"] += 1
        return find_differences(*given)

    for module in (parts, names):
        monkeypatch.setattr(module, "find_differences", counted)
    runs = [
        write_run(tmp_path / f"run-{n}-{seed}", [row(1)], horizon=n + 1, seed=seed, **(me() if n == 0 else {}))
        for n in range(9)
        for seed in (1, 2)
    ]
    overview = Overview(WatchedRuns(tmp_path))
    groups = overview.changed()["groups"]["groups"]
    assert {group["name"] for group in groups} == {f"made algorithm.horizon={n + 1}" for n in range(9)}
    append(runs[0], METRICS_FILE, row(2))
    assert f"curve/{id_of(runs[0])}" in overview.changed()
    assert looked["differences"] == 2, "once for all groups, and once for those of one name"


def test_several_pages_may_ask_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page asks in its own thread. Formerly a page could see a curve with more steps than numbers."""
    monkeypatch.setattr(watching, "MOST_KEPT", 1)
    monkeypatch.setattr(watching, "KEPT_OF_RUN", 0)
    run = write_run(tmp_path / "living", [row(n) for n in range(9)], **me())
    write_run(tmp_path / "ended", [row(n) for n in range(9)], horizon=9)
    runs, failed = WatchedRuns(tmp_path), list[BaseException]()
    ended = threading.Event()

    def ask() -> None:
        try:
            while not ended.is_set():
                Overview(runs).changed()
        except BaseException as error:
            failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    pages = [threading.Thread(target=ask) for _ in range(4)]
    try:
        for thread in pages:
            thread.start()
        for begin in range(9, 609, 20):
            append(run, METRICS_FILE, *(row(n) for n in range(begin, begin + 20)))
            runs.look()
    finally:
        ended.set()
        for thread in pages:
            thread.join()
        sys.setswitchinterval(before)
    assert failed == []


@pytest.mark.parametrize("colours, paper", [(COLOURS, "#ffffff"), (DARK_COLOURS, "#1a1e22")])
def test_colours_of_curves_have_a_contrast_of_three_to_the_paper(colours: Sequence[str], paper: str) -> None:
    """The formula is WCAG 2.2's; the papers are --card of desk.css."""
    assert f"--card: {paper};" in (PAGE / "desk.css").read_text()

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for colour in colours:
        low, high = sorted((luminance(colour), luminance(paper)))
        assert (high + 0.05) / (low + 0.05) >= 3.0, colour
