"""The root of the command line: runs a command, prints an expected error, and sets the exit status.

The exit status is 2 if the request was wrong, and 1 if a valid request failed. In both cases a line on stderr gives
the wrong value, the rule that it breaks, and a remedy; a topology with several faults has a line for each. An error
that is not expected is a bug; its traceback is shown.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperGroup

from actorlearn.files import DISK_ERRORS
from launch.errors import FailedError, RunError, write_remedy

_PATH_ERRORS = frozenset({errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
"""Values of errno for which the cause is the path that the user gave."""
WRONG = 2
"""Exit status of a wrong request."""
FAILED = 1
"""Exit status of a valid request that failed."""


_MEANT = {
    "evaluate": "eval",
    "kill": "stop",
    "list": "ps",
    "ls": "ps",
    "play": "eval",
    "start": "run TOPOLOGY",
    "status": "ps",
    "train": "run TOPOLOGY",
}
"""Command that users may know from other programs -> the command of actorlearn that does the same."""


class Commands(TyperGroup):
    """Typer's group, which prints every expected error as one line, or as one line for each fault of a topology."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read ``help COMMAND`` as ``COMMAND --help``."""
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] == ["help"] else args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command. For a name that other programs use, the error names the command of actorlearn."""
        if args[0] not in self.commands and (meant := _MEANT.get(args[0])):
            ctx.fail(f"No such command {args[0]!r}; did you mean `actorlearn {meant}`?")
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run one command; exits with 0, 1, 2, or 130 after Ctrl-C."""
        try:
            code = super().main(*args, **extra | {"standalone_mode": False})
        except typer.Abort:
            code = 130
        except Exception as error:
            status = expected_status(error)
            if status is None:
                raise  # an error in this program: show its traceback
            code = _refuse([message(error), *getattr(error, "__notes__", ())], status)
        if not standalone_mode:
            return code
        sys.exit(code if isinstance(code, int) else 0)


def _refuse(lines: Sequence[str], code: int) -> int:
    for line in filter(None, lines):  # without a command typer has shown the help, and the line is empty
        with suppress(OSError):  # if the disk is full, only the exit status remains
            typer.echo(f"actorlearn: {' '.join(line.split())}", err=True)
    return code


def message(error: Exception) -> str:
    """Return the text of an error for the user.

    Errors of the operating system name the file and a remedy. Errors that typer finds, such as a missing argument,
    refer to ``--help``.
    """
    if isinstance(error, OSError) and error.errno in DISK_ERRORS and error.filename:
        return f"{error.filename}: {error.strerror}; {write_remedy(error)}"
    if isinstance(error, OSError) and error.errno in _PATH_ERRORS and error.filename:
        return f"{error.filename!s:.300}: {error.strerror}; name another path, or make it readable"
    if not hasattr(error, "format_message"):
        return str(error)
    said = str(error.format_message()).rstrip(".")
    if isinstance(option := getattr(error, "option_name", None), str):
        from launch.topology.keys import key_at  # here, because commands without a topology do not need it

        key = option.lstrip("-")
        if key_at(tuple(key.split("."))):
            return f"{said}; keys of a topology have no dashes: write {key}=VALUE"
    context = getattr(error, "ctx", None)
    if context is None or not said:
        return said
    return f"{said}{'' if said.endswith('?') else ';'} see `{context.command_path} --help`"


def expected_status(error: Exception) -> int | None:
    """Return the exit status for an error that a user can cause; None for any other error, which is a bug."""
    from actorlearn.address import AddressError
    from actorlearn.memory.shared import SharedMemoryFull
    from actorlearn.wire.channel import ChannelError
    from actorlearn.wire.keys import KeysError
    from launch.topology.strict_yaml import TopologyError

    wrong = RunError | TopologyError | SharedMemoryFull | KeysError | AddressError
    if isinstance(error, wrong) or hasattr(error, "format_message"):
        return WRONG
    if isinstance(error, OSError) and error.errno in _PATH_ERRORS and error.filename:
        return WRONG
    full = isinstance(error, OSError) and error.errno in DISK_ERRORS
    return FAILED if full or isinstance(error, FailedError | ChannelError) else None
