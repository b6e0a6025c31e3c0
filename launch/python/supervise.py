"""``actorlearn supervise``, a hidden command: the supervisor of a run that a Python program has asked for.

It calls the functions of ``run`` and ``resume``. It also writes an error that ends it before the run begins to a pipe,
from which ``launch/python/child.py`` raises it in the program.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from launch.command_group import expected_status, message
from launch.commands import run


def supervise(folder: Path, topology: str, overrides: Sequence[str], errors: int, resume_at: str | int | None) -> int:
    """Run a topology in a folder, or resume the run there from a checkpoint; return the exit status.

    ``errors``: descriptor of a pipe, to which an error that ends the supervisor before the run begins is written.
    """
    from launch.topology.load import load

    os.set_inheritable(errors, False)
    try:
        if resume_at is not None:
            return run.resume(str(folder), overrides, plain=True, at=resume_at)
        return run.run_in(folder, load(topology, overrides), plain=True)
    except Exception as error:
        if status := expected_status(error):
            with suppress(OSError):  # the program reads it only until the run begins
                os.write(errors, json.dumps({"status": status, "text": " ".join(message(error).split())}).encode())
        raise
    finally:
        os.close(errors)
