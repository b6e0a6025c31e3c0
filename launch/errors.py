"""Errors that are the user's to know: one line each, no traceback."""

from __future__ import annotations


class RunError(ValueError):
    """The request was wrong: no such run, more than one, or not in the state that the command needs."""


class FailedError(RuntimeError):
    """The request was right and could not be met: a silent supervisor, a failed child, a measurement not made."""
