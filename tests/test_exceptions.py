"""Exceptions of users' code in one line, and the place in that code."""

from __future__ import annotations

import faulthandler
import os
import tempfile
from pathlib import Path

import pytest

from actorlearn.exceptions import MOST_CHARACTERS, in_one_line, is_own, place_in_stack, place_of, words_of


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\nlines\t here"), "ValueError: two lines here"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (OSError("колесо 🛞 \udcff \x1b[31m"), "OSError: колесо 🛞 \\udcff \\x1b[31m"),
        (Mute(), "Mute: its text cannot be read, because its __str__ raises RuntimeError"),
    ],
)
def test_whatever_its_text_is_it_is_one_line_that_can_be_shown(error: BaseException, line: str) -> None:
    assert in_one_line(error) == line
    assert line.isprintable()


def test_a_megabyte_is_cut() -> None:
    words = words_of(ValueError("a" * 500 + "b" * 10**6 + "c" * 100))
    assert len(words) == MOST_CHARACTERS + 1 and words.startswith("a" * 500) and words.endswith("c" * 100)


def test_the_place_is_the_innermost_call_in_the_users_code() -> None:
    with pytest.raises(OSError) as error:
        Path("/nowhere/at/all").read_text()
    assert place_of(error.value).startswith(" (test_exceptions.py, line ")
    assert place_of(ValueError("never raised")) == ""


def test_the_place_is_found_in_a_stack_that_faulthandler_writes() -> None:
    with tempfile.TemporaryFile("w+") as file:
        print("a warning before", file=file, flush=True)
        faulthandler.dump_traceback(file)
        file.seek(0)
        stack = file.read()
    assert place_in_stack(stack).startswith(" (test_exceptions.py, line ")
    assert place_in_stack("no stack") == ""


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("/home/me/env.py", True),
        ("/usr/lib/python3/site-packages/actorlearn_corridor/environment.py", True),
        ("/usr/lib/python3/site-packages/torch/nn/module.py", False),
        (os.__file__, False),
        ("<frozen importlib>", False),
    ],
)
def test_libraries_are_not_the_users_code(file: str, own: bool) -> None:
    assert is_own(file) is own
