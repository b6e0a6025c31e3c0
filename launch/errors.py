"""Errors that the command line shows as one line, without a traceback."""

from __future__ import annotations

import errno


class RunError(ValueError):
    """The request was wrong: for example, no run or several runs match, or the run is in the wrong state."""


class FailedError(RuntimeError):
    """The request was valid but failed: a silent supervisor, a failed child process, a failed measurement."""


def write_remedy(error: OSError) -> str:
    """Return what the user can do about a file or folder that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free space on that disk, and try again"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "make the folder writable, or use another folder"
    return "check that disk, and try again"
