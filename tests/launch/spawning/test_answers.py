"""Answers of child processes: the last line with JSON, or the reason why there is none, within a time limit."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from subprocess import TimeoutExpired

import msgspec
import pytest

from actorlearn.worker.settings import SpacesSettings
from launch.spawning.answers import NoAnswerError, answer, ask, ask_task
from tests import named


def child(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_the_answer_is_the_last_line_whatever_a_library_printed_before() -> None:
    assert ask(child("print('hello from pygame'); print('{\"a\": [1]}')"), 30.0) == {"a": [1]}


def test_an_answer_counts_even_if_the_child_aborts_afterwards() -> None:
    assert ask(child("import os; print('[1, 2]', flush=True); os.abort()"), 30.0) == [1, 2]


def test_a_task_is_answered_by_the_line_of_the_task_and_not_by_json_of_the_users_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import atexit\nfrom actorlearn.envs.catch import Catch\natexit.register(print, '[]')\n"
    code += "atexit.register(print, '{\"error\": \"of a logger\"}')\nprint('{}')\n"
    (tmp_path / "prints_json.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    settings = msgspec.json.encode(SpacesSettings(env=named.env(id="prints_json:Catch")))
    assert ask_task("spaces", settings, 60.0).keys() == {"like", "images"}


def test_a_signal_without_a_name_is_reported_by_its_number() -> None:
    with pytest.raises(NoAnswerError, match="^the process was ended by signal 40$"):
        answer("", "", -40)
    with pytest.raises(NoAnswerError, match="^the process was ended by signal 9, SIGKILL$"):
        answer("", "", -9)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise ValueError('no ROM')", "ValueError: no ROM"),
        ("raise SystemExit(7)", "exit status 7, no answer"),
        ("print('torch 2.13')", "exit status 0, no answer"),
        ("print(5)", "exit status 0, no answer"),
    ],
)
def test_a_child_without_an_answer_gives_the_reason_in_one_line(code: str, why: str) -> None:
    with pytest.raises(NoAnswerError, match=f"^{why}$"):
        ask(child(code), 30.0)


def test_variables_reach_the_child_and_the_limit_ends_it() -> None:
    assert ask(child("import os; print([int(os.environ['GIVEN'])])"), 30.0, GIVEN="3") == [3]
    with pytest.raises(TimeoutExpired):
        ask(child("import time; time.sleep(60)"), 0.2)
