"""The HTML report: it is complete in one file, and no script can run in it except its own."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from launch.desk.report import page
from launch.errors import RunError
from tests.launch.desk.folders import row, write_run
from tests.launch.desk.pages import parts_in


def test_a_report_contains_all_parts_scripts_and_styles_and_loads_no_other_file(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / f"run-{seed}", [row(n) for n in range(9)], seed=seed) for seed in range(3)]
    text = page(runs, "episode_return_mean")
    scripts = re.findall(r"<script(?: type=\"module\")?>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 2 and "uPlot" in scripts[0]
    policy = re.search(r'content="(default-src[^"]*)"', text)
    assert policy and "unsafe" not in policy[1]
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy[1]
    assert not re.search(r"^(import|export) ", scripts[1], re.MULTILINE), "modules cannot be loaded from a file"
    assert not re.search(r"<(?:script|link|img|video)[^>]*(?:src|href)=", text)
    parts = parts_in(text)
    assert len([name for name in parts if name.startswith("curve/")]) == 3
    assert parts["band/0"]["episode_return_mean"]["count"] == 3 and parts["desk"]["live"] is False
    assert len([name for name in parts if name.endswith("/graph")]) == 3


def test_no_name_is_defined_twice_in_the_script_of_a_report(tmp_path: Path) -> None:
    text = page([write_run(tmp_path / "run", [row(1)])], "episode_return_mean")
    script = re.findall(r"<script type=\"module\">(.*?)</script>", text, re.DOTALL)[0]
    names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", script, re.MULTILINE)
    assert len(names) > 50
    assert sorted(names) == sorted(set(names))


def test_text_of_a_run_is_never_markup(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [row(1)], [{"kind": "warned", "cause": "</script><script>alert(1)</script>"}])
    assert "</script><script>alert" not in page([run], "episode_return_mean")


def test_a_report_contains_small_films_and_refuses_a_metric_that_no_run_has(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [row(1)])
    folder = run.path / "films" / "000000000100"
    folder.mkdir(parents=True)
    (folder / "best.mp4").write_bytes(b"film")
    assert "data:video/mp4;base64," + base64.b64encode(b"film").decode() in page([run], "episode_return_mean")
    with pytest.raises(RunError, match=r"did you mean episode_return_mean\?"):
        page([run], "episode_return")


def test_a_metric_whose_newest_values_are_missing_is_drawn(tmp_path: Path) -> None:
    """For example the loss of a diverged run. Formerly only the newest report was read, so no run had the metric."""
    run = write_run(tmp_path / "run", [row(n, loss=1.0 if n < 290 else None) for n in range(300)])
    left = write_run(tmp_path / "left", [row(0, entropy=0.5), *(row(n) for n in range(1, 9))])
    text = page([run, left], "loss")
    told = parts_in(text)
    assert "loss" in [one["name"] for one in told["desk"]["metrics"]]
    (curve,) = (told[f"curve/{one['id']}"] for one in told["runs"] if one["name"] == "run")
    assert len(curve["metrics"]["loss"]["by_steps"][0]) == 290
    assert "entropy" in page([run, left], "entropy"), "a metric that only older reports have"
    assert page([write_run(tmp_path / "new", [row(1, episode_return_mean=None)])], "episode_return_mean")
    with pytest.raises(RunError, match=r"--y los: no run has this metric; did you mean loss\?"):
        page([run], "los")


def test_a_report_of_no_runs_shows_none_of_the_folder_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(Path("runs/unrelated"), [row(1)])
    text = page([], "episode_return_mean")
    assert parts_in(text)["runs"] == []
