"""The reference page of commands, generated from the command line."""

from __future__ import annotations

from typing import Any

import typer

from docs.pages.markdown import table
from launch.cli import app

_HEAD = """# Commands

<!-- generated from launch/cli.py by `make pages` -->

This page lists all commands of `actorlearn`. `actorlearn COMMAND --help` shows the same text. [Operating](operating.md)
lists tasks with the commands for them, and the exit statuses.

A *run* is one training. A *topology* is the YAML file that describes it. A *key* is an entry of this file, such as
`simulators.count`.
"""


def page() -> str:
    """Return the page, in Markdown: what each command does, and a table of its arguments and options."""
    group: Any = typer.main.get_command(app)
    panels: dict[str, list[str]] = {}
    for name, command in group.commands.items():
        if command.hidden:
            continue
        named = {f"{name} {part}": each for part, each in getattr(command, "commands", {}).items()} or {name: command}
        panels.setdefault(command.rich_help_panel, []).extend(_command(*item) for item in named.items())
    return _HEAD + "".join(f"\n## {panel}\n" + "".join(commands) for panel, commands in panels.items())


def _command(name: str, command: Any) -> str:
    given = [_written(parameter) for parameter in command.params if not parameter.opts[0].startswith("-")]
    usage = " ".join(["actorlearn", name, *given, "[OPTION]..."])
    rows = [(f"`{_written(own)}`", own.help, _default(own)) for own in command.params]
    return f"\n### {name}\n\n`{usage}`\n\n{command.help}\n\n{table(('argument or option', 'meaning', 'default'), rows)}"


def _written(parameter: Any) -> str:
    """Return an argument or option as it is written on the command line."""
    value = parameter.metavar or parameter.name.upper()
    if not parameter.opts[0].startswith("-"):
        return value if parameter.required or value.startswith("[") else f"[{value}]"
    flags = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return flags if parameter.is_flag else f"{flags} {value}"


def _default(parameter: Any) -> str:
    """Return a default as the table has it: nothing for flags, and where the description says what holds instead."""
    if parameter.required:
        return "required"
    return "" if parameter.default in (None, False) else f"`{parameter.default}`"
