"""The page of commands: up to date, and with every command, argument and option."""

from __future__ import annotations

from launch.cli import app, keys
from launch.page import page
from tests.sizes import ROOT


def test_the_reference_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "commands.md").read_text() == page(), "docs/commands.md is old: make pages"


def test_it_says_how_each_command_is_written() -> None:
    text = page()
    assert text.count("\n### ") == len(app.registered_commands) + len(keys.registered_commands)
    assert "`actorlearn detach RUN NAME... [OPTION]...`" in text
    assert "`actorlearn logs RUN [PROCESS] [OPTION]...`" in text
    assert "| `--lines, -n LINES` | Number of last lines of each process to print first. | `50` |" in text
    assert "| `TOPOLOGY` | The YAML file that describes the run. | required |" in text
