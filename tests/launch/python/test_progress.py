"""The progress bar of a run in a terminal, in a file and in a notebook."""

from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace

import pytest
from rich.console import Console

from launch.python import progress
from launch.runs.view import RunView

VIEW = RunView("<cart>", total_steps=1000)
LATER = VIEW.with_row({"env_steps": 250, "env_steps_per_s": 50.0, "episode_return_mean": 12.0})


def test_a_line_has_steps_rate_score_and_the_time_left() -> None:
    assert progress.line(VIEW) == "starting"
    assert progress.line(LATER) == "250 of 1,000 steps · 50 steps/s · score 12.0 · 0:15 left"


def test_the_bar_in_a_terminal_is_redrawn() -> None:
    out = io.StringIO()
    bar = progress.TerminalBar(VIEW, Console(file=out, force_terminal=True, width=120))
    bar.show(LATER)
    bar.close()
    assert out.getvalue().count("25%") >= 2
    assert "250 of 1,000 steps" in out.getvalue()


def test_a_file_gets_the_last_state_in_one_whole_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    bar = progress.make(VIEW)
    bar.show(LATER)
    bar.show(LATER)
    bar.close()
    assert capsys.readouterr().out == "<cart>: 250 of 1,000 steps · 50 steps/s · score 12.0 · 0:15 left\n"


def test_a_file_gets_a_line_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = {"now_s": 0.0}
    bar = progress.Lines(VIEW, lambda: clock["now_s"])
    lines = []
    for now_s, steps in ((9.9, 99), (10.1, 101), (12.0, 120), (20.2, 202)):
        clock["now_s"] = now_s
        bar.show(VIEW.with_row({"env_steps": steps}))
        lines.append(len(capsys.readouterr().out.splitlines()))
    bar.close()  # the newest report is printed already
    assert lines == [0, 1, 0, 1] and capsys.readouterr().out == ""


def test_a_notebook_shows_one_output_and_replaces_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    ipython = ModuleType("IPython.display")
    handle = SimpleNamespace(update=shown.append)
    ipython.__dict__.update(HTML=str, display=lambda html, display_id: (shown.append(html), handle)[1])
    monkeypatch.setitem(sys.modules, "IPython.display", ipython)
    bar = progress.NotebookBar(VIEW)
    bar.show(LATER)
    bar.close()
    assert len(shown) == 2
    assert '<progress max="1000" value="250">' in shown[1] and "&lt;cart&gt;" in shown[1]
