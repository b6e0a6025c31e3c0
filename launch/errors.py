"""Errors that are shown to the user as one line, without a traceback."""

from __future__ import annotations


class RunError(ValueError):
    """The request was wrong: no such run, more than one, or not in the state that the command needs."""


class FailedError(RuntimeError):
    """The request was valid but failed: a silent supervisor, a failed child process, a failed measurement."""
