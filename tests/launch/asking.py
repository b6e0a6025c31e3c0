"""The command line, called within this process."""

from __future__ import annotations

from pathlib import Path

from typer import Typer
from typer.testing import CliRunner, Result

from launch.cli import app


def ask(*arguments: str | Path, of: Typer = app) -> Result:
    return CliRunner().invoke(of, [str(argument) for argument in arguments], prog_name="actorlearn")


def refused(*arguments: str | Path, code: int = 2, of: Typer = app) -> str:
    """Return the one line with which a command is refused."""
    result = ask(*arguments, of=of)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("actorlearn: ")
    return lines[0].removeprefix("actorlearn: ")
