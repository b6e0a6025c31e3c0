"""Errors of the command line that are the user's to know: one line each, no traceback."""

from __future__ import annotations


class RunError(ValueError):
    """The request was wrong: no such run, more than one, or not in the state that the command needs."""


class FailedError(RuntimeError):
    """The request was right and could not be met: the supervisor is silent or said no, or a child process failed."""
