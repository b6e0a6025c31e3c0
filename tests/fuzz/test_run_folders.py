"""Run folders with one odd file: every command that reads them answers, or refuses in one line."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from launch.machine import signals
from launch.runs import find
from launch.runtime import loop
from tests.examples import examples
from tests.fuzz.run_folders import answered, ask, commands, here, lay, odd_files
from tests.launch.described import DESCRIPTION
from tests.launch.runtime.no_processes import NoProcesses


@pytest.fixture(autouse=True)
def no_other_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(find, "living_runs", list)
    monkeypatch.chdir(tmp_path)


@settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))
@given(odd_files())
def test_commands_answer_whatever_a_file_of_a_run_holds(tmp_path: Path, odd: tuple[str, bytes]) -> None:
    folder = lay(here(tmp_path), *odd)
    for command in commands(folder):
        answered(*ask(*command))


@pytest.mark.nightly
@settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))
@given(odd_files(), st.sampled_from([["episode_return_mean"], ["loss", "episodes"], ["$\\frac{$"]]))
def test_plot_draws_or_refuses_whatever_a_file_of_a_run_holds(
    tmp_path: Path, odd: tuple[str, bytes], columns: list[str]
) -> None:
    folder = lay(here(tmp_path), *odd)
    answered(*ask("plot", str(folder), "-o", "x.png", *(word for column in columns for word in ("--y", column))))


@pytest.mark.nightly
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(odd=odd_files())
@example(odd=("topology.yaml", b"env: {id: ALE/Pong-v5}\n"))  # without the algorithm
@example(odd=("topology.yaml", b"nv: {id: ALE/Pong-v5}\n"))  # two faults
def test_resume_continues_or_refuses_whatever_a_file_of_a_run_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: tuple[str, bytes]
) -> None:
    monkeypatch.setattr(loop, "describe", lambda topology: DESCRIPTION)
    monkeypatch.setattr(loop, "Spawner", NoProcesses)
    monkeypatch.setattr(signals.Signals, "read", lambda _self: [signal.SIGINT, signal.SIGINT])
    folder = lay(here(tmp_path), *odd)
    code, _, wrong = ask("resume", str(folder))
    if code not in (0, 130):
        answered(code, "", wrong)


FOUND = [
    (
        "metrics.jsonl",
        b'{"env_steps": 1, "env_steps_per_s": "a", "episode_return_mean": [], "loss": "k"}\n' * 2,
    ),
    ("metrics.jsonl", b'{"env_steps": 1, "time_s": 1.0, "episode_return_mean": 1' + b"0" * 400 + b"}\n"),
    ("metrics.jsonl", b'{"time_s": 1.0, "env_steps": null, "frames": 0, "episodes": null}\n'),
    ("metrics.jsonl", b'{"time_s": "long", "env_steps": [], "updates": {}}\n'),
    ("summary.json", b'{"status": "\\u001b[2J", "wall_time_s": "x", "env_steps": []}'),
    ("summary.json", b'{"status": "' + b"x" * 6_000 + b'"}'),
    ("events.jsonl", b'{"kind": "died", "incarnation": "k", "process": 3, "env_steps": "many", "time_s": []}\n'),
    ("events.jsonl", b'{"kind": "evaluated", "mean": 1.0, "returns": [1' + b"0" * 400 + b'], "env_steps": 3}\n'),
    ("events.jsonl", b'{"kind": "evaluated", "mean": 1.0, "returns": [1.0], "env_steps": "many"}\n'),
    ("meta.json", b"[" * 100_000),
    ("meta.json", b'{"earlier": 7}'),
    ("meta.json", b'{"commit": "\\ud800"}'),
    ("topology.yaml", b"name: &a [x, x]\nenv: {id: ALE/Pong-v5, kwargs: [*a, *a]}\n"),
]
"""Each once ended a command with a traceback, or sent control codes to the terminal."""


@pytest.mark.parametrize(("name", "content"), FOUND)
def test_run_folders_that_once_failed_are_answered_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes
) -> None:
    monkeypatch.setattr(loop, "describe", lambda topology: DESCRIPTION)
    monkeypatch.setattr(loop, "Spawner", NoProcesses)
    monkeypatch.setattr(signals.Signals, "read", lambda _self: [signal.SIGINT, signal.SIGINT])
    folder = lay(here(tmp_path), name, content)
    for command in (*commands(folder), ("plot", str(folder), "-o", "x.png")):
        code, out, wrong = ask(*command)
        answered(code, out, wrong)
        assert "\x1b[2J" not in out
    code, _, wrong = ask("resume", str(folder))
    if code != 130:
        answered(code, "", wrong)


def test_paths_that_are_too_long_are_refused_in_one_line(tmp_path: Path) -> None:
    lay(here(tmp_path))
    for command in (("top", "x" * 300), ("plot", "x" * 300, "-o", "x.png"), ("logs", "x/" * 3_000)):
        answered(*ask(*command))


def test_a_run_whose_folder_name_looks_like_a_formula_is_plotted(tmp_path: Path) -> None:
    folder = lay(here(tmp_path).with_name("a$\\frac{$b"))
    (folder / "topology.yaml").unlink()
    assert ask("plot", str(folder), "-o", "x.png")[0] == 0


def a_link(path: Path, elsewhere: Path) -> None:
    path.symlink_to(elsewhere)


def a_pipe(path: Path, elsewhere: Path) -> None:
    os.mkfifo(path)


NAMED = ("topology.yaml", "meta.json", "summary.json", "metrics.jsonl", "events.jsonl", "logs/trainer.log")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [a_link, a_pipe])
@pytest.mark.parametrize("name", [*NAMED, "films/000000000080/games.json", "films/000000000080/best.mp4"])
def test_a_file_of_a_run_that_is_a_link_or_a_pipe_is_not_read(
    tmp_path: Path, make: Callable[[Path, Path], None], name: str
) -> None:
    """Otherwise reports would show the file behind a link, and commands would wait for a pipe."""
    folder = lay(here(tmp_path))
    games = b'[{"film": "best.mp4", "score": 4711.25}]'
    (folder / "films/000000000080").mkdir(parents=True)
    (folder / "films/000000000080/games.json").write_bytes(games.replace(b"4711.25", b"1.5"))
    (folder / "films/000000000080/best.mp4").write_bytes(b"film")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(
        {
            "topology.yaml": b"env: {id: secret-v1}\nname: secret\n",
            "meta.json": b'{"machine": {"cpu": "secret"}, "command": ["secret"]}',
            "summary.json": b'{"status": "secret"}',
            "metrics.jsonl": b'{"time_s": 4.0, "env_steps": 80, "episode_return_mean": 4711.25, "secret": 4711.25}\n',
            "events.jsonl": b'{"time_s": 0.1, "kind": "secret", "process": "secret", "cause": "secret"}\n',
            "films/000000000080/games.json": games,
        }.get(name, b"secret\n")
    )
    (folder / name).unlink()
    make(folder / name, elsewhere)
    shown = base64.b64encode(b"secret\n").decode()
    for command in (
        *commands(folder),
        *(("report", str(folder), "-o", "x.html"), ("compare", str(folder)), ("logs", str(folder), "trainer")),
    ):
        code, out, wrong = ask(*command)
        answered(code, out, wrong)
        page = Path("x.html").read_text().partition('type="application/json"')[2] if Path("x.html").exists() else ""
        assert not any(word in text for word in ("secret", "4711.", "4,711", shown) for text in (out, wrong, page)), (
            command
        )


def test_a_run_folder_may_be_a_link(tmp_path: Path) -> None:
    folder = lay(tmp_path / "elsewhere")
    link = here(tmp_path)
    link.parent.mkdir()
    link.symlink_to(folder)
    for command in (("top", str(link), "--once"), ("logs", str(link)), ("ps", "--all")):
        code, out, wrong = ask(*command)
        answered(code, out, wrong)
        assert code == 0 and any(word in out for word in ("elsewhere", "one line"))
