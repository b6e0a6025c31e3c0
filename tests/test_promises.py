"""SECURITY.md and docs/guarantees.md: whatever they promise names the tests that show it, and these exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.sizes import ROOT

PAGES = ("SECURITY.md", "docs/guarantees.md")
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+(?:::\w+)?))?`")
OPEN = "## What does not hold yet"
"""Below it tests are named that are expected to fail."""
PLAIN = ("not promised", "not defended")
"""Words that a line has instead of naming a test."""


def promises(page: str) -> list[tuple[str, str]]:
    """Section and text of each item of a list, and of each row of a table, without its head."""
    found, section, item = [], "", ""
    for line in [*(ROOT / page).read_text().splitlines(), "# end"]:
        goes_on = item and line.startswith("  ")
        if item and not goes_on:
            found.append((section, item))
            item = ""
        if line.startswith("#"):
            section = line
        elif line.startswith("* ") or (line.startswith("| ") and not line.endswith("| shown by |")):
            item = line
        elif goes_on:
            item += " " + line.strip()
    return found


@cache
def known_tests(file: Path) -> dict[str, str]:
    """Name of each test of a file, with its class, and its decorators."""
    tree = ast.parse(file.read_text())
    marked = [
        (f"{owner.name}::{node.name}" if isinstance(owner, ast.ClassDef) else node.name, node)
        for owner in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef)))
        for node in owner.body
        if isinstance(node, ast.FunctionDef)
    ]
    return {name: " ".join(map(ast.unparse, node.decorator_list)) for name, node in marked}


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_is_named_exists_and_is_expected_to_pass(page: str) -> None:
    wrong = []
    sections = re.split(r"^(?=## )", (ROOT / page).read_text(), flags=re.MULTILINE)
    for section in sections:
        for file, name in NAMED.findall(section):
            known = known_tests(ROOT / file) if (ROOT / file).is_file() else None
            if known is None or (name and name not in known):
                wrong.append(f"{page}: there is no {file}::{name}")
            elif name and "xfail" in known[name] and not section.startswith(OPEN):
                wrong.append(f"{page}: {file}::{name} is expected to fail: it belongs below {OPEN!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", PAGES)
def test_everything_promised_names_a_test(page: str) -> None:
    bare = [
        item
        for section, item in promises(page)
        if not NAMED.search(item) and not any(word in f"{section} {item}".lower() for word in PLAIN)
    ]
    assert not bare, "\n".join(bare)


def test_promises_without_a_test_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.test_promises.ROOT", tmp_path)
    (tmp_path / "SECURITY.md").write_text("# A\n\n* Bare,\n  and goes on.\n* Shown `tests/a.py::test_b`.\n\nText\n")
    with pytest.raises(AssertionError, match=r"\* Bare, and goes on\."):
        test_everything_promised_names_a_test("SECURITY.md")
    with pytest.raises(AssertionError, match="there is no tests/a.py::test_b"):
        test_every_test_that_is_named_exists_and_is_expected_to_pass("SECURITY.md")
