"""docs/troubleshooting.md: the messages that it quotes are those of the code."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from actorlearn.metrics.registry import is_registered
from tests.sizes import PACKAGES, ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
QUOTED = re.compile(r"^\| `([^`]+)`.*\|$", re.MULTILINE)
COMMAND = re.compile(r"actorlearn \w+|top|doctor")
GAP = "\0"
"""Stands for a value in the text of a message."""
SHORTEST = 4
"""Letters of a piece of a message that is looked for; shorter ones are everywhere."""


@cache
def texts() -> tuple[str, ...]:
    """Every text in the code but documentation; values in it are gaps."""
    found = set()
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            nodes = list(ast.walk(ast.parse(file.read_text())))
            documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            for node in nodes:
                if isinstance(node, ast.JoinedStr):
                    parts = (part.value if isinstance(part, ast.Constant) else GAP for part in node.values)
                    found.add("".join(map(str, parts)))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
                    found.add(node.value)
    return tuple(found)


def pieces(message: str) -> list[str]:
    """Split a message where a value stands, and where the text of another place begins."""
    split = (piece.strip() for piece in re.split(r"…|: |; ", message))
    return [piece for piece in split if len(piece) >= SHORTEST]


def unknown(message: str) -> list[str]:
    """Pieces of a message that no text of the code has."""
    return [piece for piece in pieces(message) if not any(piece in text for text in texts())]


def test_every_message_that_is_quoted_is_one_of_the_code() -> None:
    quoted = [text for text in QUOTED.findall(PAGE.read_text()) if not COMMAND.match(text)]
    assert quoted
    assert all(pieces(message) or is_registered(message) for message in quoted), quoted
    wrong = {text: found for text in quoted if not is_registered(text) and (found := unknown(text))}
    assert not wrong, "\n".join(f"{text!r}: nothing says {found}" for text, found in wrong.items())


@pytest.mark.parametrize("message", ["… has fainted: signal …", "section … has no key …; no doubt you mean …?"])
def test_a_message_that_nothing_says_is_found(message: str) -> None:
    assert unknown(message)
