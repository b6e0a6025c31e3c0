from __future__ import annotations

import sys
from subprocess import TimeoutExpired

import pytest

from launch.spawning.answers import NoAnswerError, ask


def child(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_the_answer_is_the_last_line_whatever_a_library_said_before() -> None:
    assert ask(child("print('hello from pygame'); print('{\"a\": [1]}')"), 30.0) == {"a": [1]}


def test_it_counts_even_where_a_library_falls_over_at_the_end() -> None:
    assert ask(child("import os; print('[1, 2]', flush=True); os.abort()"), 30.0) == [1, 2]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise ValueError('no ROM')", "ValueError: no ROM"),
        ("raise SystemExit(7)", "exit status 7, no answer"),
        ("print('torch 2.13')", "exit status 0, no answer"),
        ("print(5)", "exit status 0, no answer"),
    ],
)
def test_without_one_it_is_said_in_one_line_why(code: str, why: str) -> None:
    with pytest.raises(NoAnswerError, match=f"^{why}$"):
        ask(child(code), 30.0)


def test_variables_reach_the_child_and_the_limit_ends_it() -> None:
    assert ask(child("import os; print([int(os.environ['GIVEN'])])"), 30.0, GIVEN="3") == [3]
    with pytest.raises(TimeoutExpired):
        ask(child("import time; time.sleep(60)"), 0.2)
