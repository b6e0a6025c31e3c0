"""The newest checkpoint of a run, read as a whole."""

from __future__ import annotations

from pathlib import Path

from actorlearn.parameters.checkpoint import Checkpoint, choose_and_open, open_found
from actorlearn.parameters.checkpoint_folders import newest


def newest_checkpoint(*directories: Path) -> Checkpoint:
    """Open the newest valid checkpoint in these directories, also while a trainer replaces it."""
    return choose_and_open(lambda: newest(*directories), open_found)
