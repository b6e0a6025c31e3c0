"""``actorlearn run``: the folder that it makes, its first lines, and the display of a resumed run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from launch.commands.run import new_folder, opening, run_in
from launch.display.console import PlainConsole
from launch.runs import find, view
from launch.runtime import loop
from launch.topology.load import parse
from tests.launch.runs.folders import make_run, write_lines


def test_a_run_first_says_what_it_trains_where_and_how_to_watch_it() -> None:
    topology = parse("{env: {id: CartPole-v1}, simulators: {count: 2, envs: 8}, total_steps: 90_000}", ())
    what, files, watch = opening(topology, Path("runs/cart-1"))
    assert what.startswith("cart-1: train a2c on CartPole-v1 to 90,000 steps, 1 learner with 16 environments and ")
    assert files == "files: runs/cart-1"
    assert watch == "watch: `actorlearn top cart-1`, or in a browser `actorlearn desk`; Ctrl-C saves and ends the run"


def test_a_run_that_is_continued_or_kept_elsewhere_says_so(tmp_path: Path) -> None:
    topology = parse("{env: {id: CartPole-v1}}", ())
    what, _, watch = opening(topology, tmp_path / "cart", resumed=True)
    assert what.startswith("cart: continue training a2c on CartPole-v1")
    assert f"`actorlearn top {tmp_path / 'cart'}`" in watch


def test_a_folder_below_the_working_directory_is_shown_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, files, watch = opening(parse("{env: {id: CartPole-v1}}", ()), tmp_path / "runs" / "cart-1", resumed=True)
    assert files == "files: runs/cart-1"
    assert "`actorlearn top cart-1`" in watch


def test_runs_that_are_started_in_the_same_second_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    times = iter(["20260102-030405", "20260102-030405", "20260102-030405", "20260102-030406"])
    monkeypatch.setattr(find, "with_time", lambda name: f"{name}-{next(times)}")
    assert new_folder("cart", None) == Path("runs/cart-20260102-030405")  # still empty: the environment is being tried
    assert new_folder("cart", None) == Path("runs/cart-20260102-030406")
    (tmp_path / "own").mkdir()
    assert new_folder("cart", Path("own")) == Path("own")


@pytest.mark.parametrize("changes", [{}, {"env_changes": 1}])
def test_the_display_of_a_resumed_run_goes_on_from_its_earlier_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], changes: Mapping[str, int]
) -> None:
    folder = make_run(tmp_path, "cart", earlier=[{}], changed={"env.id": {"was": "a", "is": "b"}} if changes else {})
    (folder / "topology.yaml").write_text("env: {id: CartPole-v1}\ntotal_steps: 1024\n")
    scored = ((100, 1.0), (200, 90.0), (300, 70.0))
    reports = [{"env_steps": steps, "episode_return_mean": score, **changes} for steps, score in scored]
    write_lines(folder / "metrics.jsonl", reports)

    def resumed(*_: object, accepted: Callable[[float], PlainConsole], **__: Any) -> int:
        console = accepted(3600.0)
        assert console.view.best_return == 90.0
        console.row({"env_steps": 280, "episode_return_mean": 80.0, **changes})  # from the checkpoint at 260 steps
        assert (console.view.best_return, console.view.trend) == (90.0, ((25, 1.0), (50, 90.0), (70, 80.0)))
        return 0

    monkeypatch.setattr(loop, "run", resumed)
    topology = parse("{env: {id: CartPole-v1}, total_steps: 1024}", ())
    assert run_in(folder, topology, resume_at="newest") == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(" 1:00:00    280 steps ( 27.3%)")


def test_a_resume_reads_only_scores_of_earlier_reports_and_its_clock_runs_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Formerly, with reports of ten days, processes began 22 s later, and the clock stood still meanwhile."""
    folder = make_run(tmp_path, "cart")
    (folder / "topology.yaml").write_text("env: {id: CartPole-v1}\ntotal_steps: 1024\n")
    report = {"episode_return_mean": 1.0, **{f"metric_{number}": 0.123456789 * number for number in range(70)}}
    reports = [json.dumps({"env_steps": number // 10, **report}) + "\n" for number in range(9999)]
    (folder / "metrics.jsonl").write_text("".join(reports))
    earlier, took_s = view.with_earlier_scores, []

    def slow(*of: Any) -> view.RunView:
        began_s = time.thread_time()
        found = earlier(*of)
        took_s.append(time.thread_time() - began_s)
        time.sleep(1.0)
        return found

    def resumed(*_: object, accepted: Callable[[float], PlainConsole], **__: Any) -> int:
        accepted(3600.0).row({"env_steps": 1000})
        return 0

    monkeypatch.setattr(view, "with_earlier_scores", slow)
    monkeypatch.setattr(loop, "run", resumed)
    assert run_in(folder, parse("{env: {id: CartPole-v1}, total_steps: 1024}", ()), resume_at="newest") == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert "1,000 steps" in line and not line.startswith(" 1:00:00")
    run = find.read(folder)
    assert run is not None
    began_s = time.thread_time()
    view.RunReader(run).look(processes=False)
    assert took_s[0] < 0.5 * (time.thread_time() - began_s)
