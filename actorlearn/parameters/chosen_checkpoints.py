"""The checkpoint that a user names: ``newest``, ``best``, or the environment steps of one that is kept.

Reads the folders of ``checkpoint_folders.py`` and ``best.json``. A run that is resumed from an older checkpoint moves
newer ones to the folder ``aside``, where nothing looks for them. Never loads torch.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from actorlearn.files import make_folder
from actorlearn.parameters.checkpoint_folders import (
    LOOKS,
    Beat,
    CheckpointError,
    Found,
    directories,
    find_at,
    find_common_steps,
    folders,
    newest,
    short,
    silent,
    steps_of,
)

NEWEST = "newest"
"""Stands for the newest valid checkpoint."""
ASIDE = "aside"
"""Folder, in that of a learner's checkpoints, of those that are newer than the one that the run was resumed from."""


def read_at(text: str) -> str | int:
    """Return ``newest``, ``best`` or a number of steps, as written by a user: 5000, 5_000 or 5,000."""
    digits = text.replace("_", "").replace(",", "")
    return int(digits) if digits.isascii() and digits.isdecimal() else text


def choose(directory: Path, at: str | int, beat: Beat = silent) -> Found:
    """Return the valid checkpoint that ``at`` names.

    Raises ValueError, with the checkpoints that are there, if there is none of that name; CheckpointError if it is
    damaged, or if none is valid.
    """
    if at == NEWEST:
        return newest(directory, beat=beat)
    for _ in range(LOOKS):
        folder = named(directory, at)
        try:
            return find_at(folder, beat)
        except (OSError, ValueError) as error:
            damage = f"{short(folder)} is damaged: {error}; choose another checkpoint, or restore it from a copy"
        if folder.is_dir():  # otherwise a living trainer has removed it in the meantime
            break
    raise CheckpointError(damage)


def named(directory: Path, at: str | int) -> Path:
    """Return the folder that ``at`` names, not checked for damage; raises ValueError with those that are there."""
    there = {steps_of(folder): folder for folder in folders(directory)}
    return there[_steps(at, there)]


def _steps(at: str | int, there: Collection[int]) -> int:
    """Return the steps of the checkpoint that ``at`` names among those with these steps; raises ValueError."""
    if at == NEWEST and there:
        return max(there)
    if isinstance(at, int) and at in there:
        return at
    kept = ", ".join(f"{steps:_}" for steps in sorted(there)) or "none yet"
    raise ValueError(f"at {at}: no such checkpoint is kept; write newest, or the steps of one that is kept: {kept}")


def nearest(directory: Path, env_steps: int) -> Path | None:
    """Return the checkpoint of another learner that is nearest to these steps; of two, the older. None without any."""
    return min(folders(directory), key=lambda folder: (abs(steps_of(folder) - env_steps), steps_of(folder)), default=None)


def choose_of_all(root: Path, at: str | int, in_step: bool) -> dict[int, Path]:
    """Return the checkpoint of each learner that belongs to ``at``; raises ValueError, and CheckpointError for damage.

    ``at`` names a checkpoint of the first learner; of learners ``in_step`` all must have one of these steps. Of each
    other learner it is the checkpoint that is nearest in steps.
    """
    own = directories(root)
    steps = _steps(at, find_common_steps(list(own.values())) if in_step else {steps_of(each) for each in folders(root)})
    chosen = {learner: nearest(directory, steps) for learner, directory in own.items()}
    found = {learner: folder for learner, folder in chosen.items() if folder is not None}
    for folder in found.values():
        choose(folder.parent, steps_of(folder))
    return found


@contextmanager
def newer_set_aside(chosen: Mapping[int, Path]) -> Iterator[None]:
    """Move the checkpoints of each learner that are newer than the chosen one aside; back if the block raises."""
    moved: list[tuple[Path, Path]] = []
    try:
        for own in chosen.values():
            aside = own.parent / ASIDE
            for folder in [each for each in folders(own.parent) if steps_of(each) > steps_of(own)]:
                make_folder(aside)
                moved.append((folder, _free(aside, steps_of(folder))))
                os.rename(*moved[-1])
        yield
    except BaseException:
        for folder, there in moved:
            if there.is_dir():
                there.rename(folder)
        raise


def _free(aside: Path, env_steps: int) -> Path:
    """Return a path in ``aside`` for a checkpoint; those of earlier resumes keep theirs."""
    name, number = f"{env_steps:012d}", 1
    while (aside / name).exists():
        number += 1
        name = f"{env_steps:012d}-{number}"
    return aside / name
