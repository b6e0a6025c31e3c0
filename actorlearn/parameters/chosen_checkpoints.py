"""Finds the checkpoint that a user names: ``newest``, ``best``, or a number of environment steps.

The supervisor records the best score of a run in ``best.json``. The best checkpoint is the first one saved with or
after the weights of that score. A run that is resumed from an older checkpoint moves the newer ones to the folder
``aside``, where they are no longer found. This module never loads torch.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Literal

import msgspec

from actorlearn.files import make_folder, write_atomically
from actorlearn.nearest import nearest as similar
from actorlearn.parameters.checkpoint_folders import (
    LOOKS,
    CheckpointError,
    Found,
    complete_steps,
    directories,
    find_at,
    find_common_steps,
    folders,
    newest,
    short,
    steps_of,
)

NEWEST = "newest"
"""Name of the newest valid checkpoint."""
BEST = "best"
"""Name of the best checkpoint."""
_MEANT = {"last": NEWEST, "latest": NEWEST, "final": NEWEST, "new": NEWEST}
"""Names that other programs use -> the name used here."""
BEST_FILE = "best.json"
"""File, in the folder of a run's checkpoints, with the best score; it is missing before the first score."""
ASIDE = "aside"
"""Folder, in a folder of checkpoints, for checkpoints newer than the one from which the run was resumed."""


class Best(msgspec.Struct, frozen=True):
    """The best score of a run so far, as ``best.json`` records it."""

    env_steps: int
    """Number of environment steps of the weights with this score."""
    score: float
    """Mean score of an evaluation, or of the newest training games when a checkpoint was saved."""
    by: Literal["evaluation", "training"]
    """Origin of the score."""

    def beats(self, other: Best | None) -> bool:
        """Whether this score is better. Any score of an evaluation is better than any score of training games."""
        if other is None or other.by != self.by:
            return other is None or self.by == "evaluation"
        return self.score > other.score


def read_best(root: Path) -> Best | None:
    """Return the best score of the run whose checkpoints are in ``root``; None if there is none or it is unreadable."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((root / BEST_FILE).read_bytes(), type=Best)
    return None


def write_best(root: Path, best: Best) -> None:
    """Record the best score of the run whose checkpoints are in ``root``; raises OSError."""
    write_atomically(root / BEST_FILE, msgspec.json.format(msgspec.json.encode(best)) + b"\n")


def soonest(there: Collection[int], env_steps: int | None) -> set[int]:
    """Return a set with the smallest number in ``there`` that is at least ``env_steps``; empty if there is none."""
    later = [] if env_steps is None else [steps for steps in there if steps >= env_steps]
    return {min(later)} if later else set()


def newest_before(there: Collection[int], root: Path, env_steps: int | None) -> set[int]:
    """Return a set with the largest number in ``there`` that is not later than the best checkpoint of learner 0.

    A learner with central weights is resumed from this checkpoint if learner 0 is resumed from its best one
    (`choose_of_all`). If learner 0 has none, the number is not later than the best score. ``env_steps``: steps of the
    best score; None: there is none. The set is empty if all are later.
    """
    if env_steps is None:
        return set()
    last = max(soonest(list(map(steps_of, folders(root))), env_steps), default=env_steps)
    earlier = [steps for steps in there if steps <= last]
    return {max(earlier)} if earlier else set()


def best_of_each(root: Path, in_step: bool, central: bool = False) -> list[Path]:
    """Return the best checkpoint of each learner that has one.

    In mode sync (``in_step``), also return the first checkpoints, from the best score on, that all learners have. These
    are later ones if a learner has lost a checkpoint that another still has. With central weights (``central``), also
    return the checkpoint from which each learner would be resumed at the best (`newest_before`).
    """
    best = read_best(root)
    at, own = best.env_steps if best else None, directories(root)
    common = soonest(find_common_steps(list(own.values())), at) if in_step else set()
    found = []
    for there in map(folders, own.values()):
        steps = list(map(steps_of, there))
        kept = {*soonest(steps, at), *common, *(newest_before(steps, root, at) if central else ())}
        found += [folder for folder in there if steps_of(folder) in kept]
    return found


def read_at(text: str) -> str | int:
    """Parse the name of a checkpoint as a user writes it: a number of steps (5000, 5_000 or 5,000), or a word."""
    digits = text.replace("_", "").replace(",", "")
    return int(digits) if digits.isascii() and digits.isdecimal() else text


def choose(directory: Path, at: str | int) -> Found:
    """Return the valid checkpoint that ``at`` names: newest, best, or its environment steps.

    Raises ValueError if there is no such checkpoint; the text lists those that exist. Raises CheckpointError if the
    checkpoint is damaged, or if none is valid.
    """
    if at == NEWEST:
        return newest(directory)
    for _ in range(LOOKS):
        folder = named(directory, at)
        try:
            return find_at(folder)
        except (OSError, ValueError) as error:
            damage = f"{short(folder)} is damaged: {error}; choose another checkpoint, or restore it from a copy"
        if folder.is_dir():  # otherwise a living trainer has removed it in the meantime
            break
    raise CheckpointError(damage)


def directory_of_equals(root: Path, at: str | int) -> Path:
    """Return the directory that has the checkpoint ``at`` of learners with equal weights; of several, the first.

    ``newest`` means the newest complete checkpoint (`complete_steps`), because the first learner may have been lost.
    Raises ValueError if there is no checkpoint ``at``; the text lists those that exist.
    """
    own = directories(root)
    having = {steps_of(folder): directory for directory in reversed([*own.values()]) for folder in folders(directory)}
    steps = next(complete_steps([*own.values()]), -1) if at == NEWEST else _steps(at, having, read_best(root))
    return having.get(steps, root)


def directory_of_first(root: Path, at: str | int, behind_steps: int | None = None) -> Path:
    """Return the directory of the first learner that has the checkpoint ``at``; ``root`` if none has it.

    This is not always the first of all, because it may have left the run before. ``newest`` means the first learner
    whose newest checkpoint is at most ``behind_steps`` environment steps older than the newest of all; other learners
    have left the run. None: it is not known which learners have left, so it is the first of all.
    """
    saved = {directory: [*map(steps_of, folders(directory))] for directory in directories(root).values()}
    best, least = read_best(root), None
    if at == BEST and best:
        least = best.env_steps
    elif at == NEWEST and behind_steps is not None:
        least = max(chain(*saved.values()), default=0) - behind_steps
    having = (own for own, there in saved.items() if at in there or soonest(there, least))
    return next(having, root)


def named(directory: Path, at: str | int) -> Path:
    """Return the folder of the checkpoint that ``at`` names, without a check for damage.

    Raises ValueError if there is none; the text lists the checkpoints that exist.
    """
    there = {steps_of(folder): folder for folder in folders(directory)}
    root = directory.parent if (directory.parent / BEST_FILE).is_file() else directory
    return there[_steps(at, there, read_best(root))]


def _steps(at: str | int, there: Collection[int], best: Best | None) -> int:
    """Return the steps of the checkpoint that ``at`` names; ``there`` are the steps of those that exist.

    Raises ValueError if there is no such checkpoint.
    """
    if at == NEWEST and there:
        return max(there)
    if isinstance(at, int) and at in there:
        return at
    for steps in soonest(there, best.env_steps if at == BEST and best else None):
        return steps
    kept = ", ".join(f"{steps:_}" for steps in sorted(there)) or "none yet"
    why = "no such checkpoint is kept"
    if at == BEST:
        since = f"is as new as the best score, of {best.env_steps:_} steps" if best else "has been scored yet"
        why = f"no checkpoint {since}"
    meant = "" if at == BEST else _MEANT.get(str(at).lower()) or similar(str(at), (NEWEST, BEST))
    hint = f"did you mean {meant}? Otherwise " if meant else ""
    raise ValueError(f"at {at}: {why}; {hint}write newest, best, or the steps of one that is kept: {kept}")


def nearest(directory: Path, env_steps: int) -> Path | None:
    """Return the checkpoint in ``directory`` whose steps are nearest to ``env_steps``; of two, the older.

    Returns None if there is no checkpoint.
    """
    return min(
        folders(directory), key=lambda folder: (abs(steps_of(folder) - env_steps), steps_of(folder)), default=None
    )


def _newest_until(directory: Path, env_steps: int) -> Path | None:
    return max((each for each in folders(directory) if steps_of(each) <= env_steps), key=steps_of, default=None)


def choose_of_all(root: Path, at: str | int, in_step: bool, central: bool = False) -> dict[int, Path]:
    """Return the checkpoint of each learner that belongs to the checkpoint ``at``, which comes first.

    ``at`` is best or a number of steps. In mode sync (``in_step``) it names a complete checkpoint (`complete_steps`),
    and in other modes that of the first learner that has one (`directory_of_first`). For every other learner, it is the
    one that is nearest in steps. In mode sync, and with central weights (``central``), it is the newest one that is not
    later: central weights are those of the newest checkpoint of all learners. A learner without such a checkpoint is
    left out. Raises ValueError if there is no checkpoint ``at``, or if all checkpoints of a learner with central
    weights are later. Raises CheckpointError if one is damaged.
    """
    own = directories(root)
    of_first = map(steps_of, folders(directory_of_first(root, at)))
    there = {*(complete_steps([*own.values()]) if in_step else of_first)}
    steps = _steps(at, there, read_best(root))
    if central:
        _refuse_loss(own, steps, at)
    of_each = _newest_until if in_step or central else nearest
    chosen = {learner: of_each(directory, steps) for learner, directory in own.items()}
    found = {learner: folder for learner, folder in chosen.items() if folder is not None}
    for folder in found.values():
        choose(folder.parent, steps_of(folder))
    return dict(sorted(found.items(), key=lambda item: steps_of(item[1]) != steps))


def _refuse_loss(own: Mapping[int, Path], steps: int, at: str | int) -> None:
    """Raise ValueError if a learner has checkpoints, but none at or before ``steps``.

    With central weights it could continue from another learner's, but its own counts and its replay would be lost.
    ``own``: learner -> directory of its checkpoints. ``at``: the checkpoint that the user has named.
    """
    saved = {learner: sorted(map(steps_of, folders(directory))) for learner, directory in own.items()}
    late = {learner: there[0] for learner, there in saved.items() if there and there[0] > steps}
    if not late:
        return
    whole = ", ".join(f"{each:_}" for each in saved[0] if each >= max(late.values()))
    raise ValueError(
        f"at {at}: these learners have no checkpoint that old, so their counts and their replay would be lost: "
        f"{', '.join(f'learner {learner} (first at {first:_} steps)' for learner, first in late.items())}; write "
        f"newest instead of {at}{f', or steps at which all have one: {whole}' if whole else ''}; if these learners "
        f"were added later, you can also move their folders, such as {own[max(late)]}, out of the run: they then start "
        "anew"
    )


@contextmanager
def newer_set_aside(chosen: Mapping[int, Path], left: Collection[Path] = ()) -> Iterator[None]:
    """As a context manager, move each learner's checkpoints that are newer than the chosen one to the folder ``aside``.

    If ``chosen`` is not empty, all checkpoints of learners that it leaves out are moved. The best score is moved if its
    weights are newer than the first of the chosen checkpoints, which the user named. ``left`` has the directories of
    learners that the run no longer has. They are moved too, so that no later learner of the same number continues from
    them. If the ``with`` block raises, all are moved back.
    """
    moved: list[tuple[Path, Path]] = []

    def move(path: Path, name: str) -> None:
        make_folder(path.parent / ASIDE)
        moved.append((path, _free(path.parent / ASIDE, name)))
        os.rename(*moved[-1])

    try:
        for directory in left:
            move(directory, directory.name)
        if chosen:
            learner, named_by_user = next(iter(chosen.items()))
            root = named_by_user.parent if learner == 0 else named_by_user.parent.parent
            for learner, directory in directories(root).items():
                if directory not in left:
                    last = steps_of(chosen[learner]) if learner in chosen else -1
                    for newer in (each for each in folders(directory) if steps_of(each) > last):
                        move(newer, newer.name)
            if (best := read_best(root)) and best.env_steps > steps_of(named_by_user):
                move(root / BEST_FILE, BEST_FILE)
        yield
    except BaseException:
        for path, there in moved:
            if there.exists():
                there.rename(path)
        for aside in {there.parent for _, there in moved}:
            with suppress(OSError):  # it is not empty: an earlier resume has used it
                aside.rmdir()
        raise


def set_best_aside(root: Path) -> None:
    """Move the best score to the folder ``aside``, because later scores cannot be compared with it; raises OSError."""
    if (root / BEST_FILE).exists():
        make_folder(root / ASIDE)
        os.rename(root / BEST_FILE, _free(root / ASIDE, BEST_FILE))


def _free(aside: Path, first: str) -> Path:
    """Return an unused path in the folder ``aside``: the name ``first``, with a number added if it is taken."""
    name, number = first, 1
    while (aside / name).exists():
        number += 1
        name = f"{first}-{number}"
    return aside / name
