"""``actorlearn top`` in a terminal: it fits the size, has colours unless they are unwanted, or prints plain lines."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from launch.commands import watch
from launch.runs import find, view
from tests.launch.runs.folders import append_lines, make_run, write_run
from tests.sizes import ROOT

TOPOLOGY = "name: cart\nenv: {id: CartPole-v1}\ntotal_steps: 1000\n"
ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
"""Matches a control sequence of a terminal; groups: its numbers and its letter."""


def row(env_steps: int, score: float) -> dict[str, float]:
    return {"time_s": env_steps / 10, "env_steps": env_steps, "episode_return_mean": score}


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    """The folder of a run that has ended, whose simulator died."""
    died = {"time_s": 9.0, "kind": "died", "process": "simulator-1", "incarnation": 0, "cause": "killed by signal 9"}
    return write_run(
        make_run(tmp_path / "runs", "cart-1"),
        topology=TOPOLOGY,
        rows=[row(100 * i, 10.0 * i) for i in range(1, 11)],
        events=[died],
        summary={"status": "finished", "wall_time_s": 100.0},
    ).path


def in_a_terminal(width: int, height: int, *arguments: object, **environment: str) -> str:
    """Return what a command writes to a terminal of this size."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    bare = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    process = subprocess.Popen(
        [sys.executable, "-m", "launch", *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**bare, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", **environment},
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            chunk = os.read(ours, 65_536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        said += chunk
    os.close(ours)
    assert process.wait() == 0, said
    return said.decode()


@pytest.mark.nightly
@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 20), (132, 43)])
def test_top_fits_the_size_of_its_terminal(ended: Path, width: int, height: int) -> None:
    said = in_a_terminal(width, height, "top", ended)
    assert any(letter == "m" for _, letter in ESCAPE.findall(said)), "there are no colours"
    lines = ESCAPE.sub("", said).splitlines()
    assert len(lines) < height and max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "100.0 mean score" in text and "▁" in text and "1 died" in text


@pytest.mark.nightly
def test_top_has_no_colours_if_the_variable_no_color_is_set(ended: Path) -> None:
    said = in_a_terminal(80, 24, "top", ended, NO_COLOR="1")
    attributes = {number for numbers, letter in ESCAPE.findall(said) if letter == "m" for number in numbers.split(";")}
    assert not [number for number in attributes if number[:1] in ("3", "4", "9") and len(number) > 1], attributes
    assert "100.0 mean score" in ESCAPE.sub("", said)


@pytest.mark.nightly
def test_plain_lines_have_no_control_sequences_in_a_terminal_either(ended: Path) -> None:
    said = in_a_terminal(80, 24, "top", ended, "--plain")
    assert "\x1b" not in said
    assert [line.split(" · ")[0] for line in said.splitlines()] == ["cart-1", "    1:40  1,000 steps (100.0%)"]


def test_plain_lines_of_a_living_run_come_as_it_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = subprocess.Popen(["sleep", "600"])
    identity = {"supervisor_pid": supervisor.pid, "supervisor_started": find.start_time(supervisor.pid)}
    folder = make_run(tmp_path / "runs", "cart-1", sockets=str(tmp_path), **identity)
    (folder / "topology.yaml").write_text(TOPOLOGY)
    append_lines(folder / "metrics.jsonl", row(100, 10.0))
    died = {"time_s": 21.0, "kind": "died", "process": "simulator-0", "cause": "killed by signal 9"}

    def end() -> None:
        supervisor.kill()
        supervisor.wait()

    happens = iter(
        [
            lambda: None,
            lambda: append_lines(folder / "metrics.jsonl", row(200, 20.0)),
            lambda: append_lines(folder / "events.jsonl", died),
            end,
        ]
    )
    monkeypatch.setattr(view, "ANSWER_S", 0.01)  # no supervisor answers
    monkeypatch.setattr(watch.time, "sleep", lambda seconds: next(happens)())
    assert watch.top(str(folder), once=False, json=False, plain=True) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "cart-1 · CartPole-v1 · 1,000 steps"
    assert [line[10:].split(" · ")[0] for line in lines[1:]] == [
        "  100 steps ( 10.0%)",
        "  200 steps ( 20.0%)",
        "simulator-0 died: killed by signal 9",
    ]
