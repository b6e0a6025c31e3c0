"""Errors that the command line shows as one line, without a traceback."""

from __future__ import annotations


class RunError(ValueError):
    """The request was wrong: for example, no run or several runs match, or the run is in the wrong state."""


class FailedError(RuntimeError):
    """The request was valid but failed: a silent supervisor, a failed child process, a failed measurement."""
