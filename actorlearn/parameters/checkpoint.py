"""Checkpoints: a folder per save, tensors in safetensors, further files, and a manifest that seals them.

A save is written beside its final place, flushed, and put there by one rename: whenever the process dies, the old or
the new checkpoint is there, whole. Loading never executes code. ``checkpoint_folders.py`` chooses the checkpoint to
continue from.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from actorlearn.failpoints import hit
from actorlearn.files import flush, make_folder, put_in_place
from actorlearn.parameters import checkpoint_folders
from actorlearn.parameters.checkpoint_folders import (
    LOOKS,
    Beat,
    Found,
    folders,
    identity,
    read_manifest,
    seal,
    silent,
    steps_of,
)

_TENSORS = "tensors.safetensors"

Chosen = TypeVar("Chosen")
Opened = TypeVar("Opened")


@dataclass(frozen=True)
class Checkpoint:
    """A saved state: named tensors (``weights.*``, ``optimizer.*``, ``consumed``) and plain numbers."""

    path: Path
    tensors: dict[str, Tensor]
    state: dict[str, Any]

    def section(self, prefix: str) -> dict[str, Tensor]:
        """Tensors whose name starts with ``prefix.``, without it."""
        return {name.removeprefix(f"{prefix}."): t for name, t in self.tensors.items() if name.startswith(f"{prefix}.")}


def save(
    directory: Path,
    env_steps: int,
    tensors: Mapping[str, Tensor],
    state: Mapping[str, Any],
    keep: int,
    more: Callable[[Path], Mapping[str, Any]] = lambda folder: {},
    beat: Beat = silent,
    spared: Callable[[], Collection[int]] = tuple,
) -> Path:
    """Write ``directory/<env_steps>/`` whole or not at all, and remove all but the ``keep`` newest; raises OSError.

    ``more`` writes further files into the folder and returns additions to the state; ``beat`` is called now and then;
    ``spared``, called after the save, returns the steps of checkpoints to keep however old they are.
    """
    final = directory / f"{env_steps:012d}"
    beside = directory / f".{final.name}.{os.getpid()}"
    make_folder(directory)
    _sweep(directory)
    try:
        beside.mkdir()
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, beside / _TENSORS)
        hit("checkpoint.tensors_written")
        seal(beside, env_steps, {**state, **more(beside)}, beat)
        hit("checkpoint.sealed")
        put_in_place(beside, final)
        hit("checkpoint.in_place")
    except BaseException as error:
        shutil.rmtree(beside, ignore_errors=True)
        if isinstance(error, SafetensorError):
            raise OSError(str(error)) from error  # a full disk comes as one of these
        raise
    flush(directory)  # before anything older goes
    # Newer ones are damaged: this run has gone on from an older one. They go when it has come so far again.
    older = sorted((folder for folder in folders(directory) if steps_of(folder) <= env_steps), key=steps_of)
    spare = spared()
    for old in (folder for folder in older[:-keep] if steps_of(folder) not in spare):
        with suppress(OSError):
            old.rename(directory / f".{steps_of(old):012d}.{os.getpid()}")  # never half of one under its name
    _sweep(directory)
    return final


def newest(*directories: Path) -> Checkpoint:
    """Open the newest whole checkpoint of some directories, as ``checkpoint_folders.newest`` finds it."""
    return choose_and_open(lambda: checkpoint_folders.newest(*directories), open_found)


def load(folder: Path) -> Checkpoint:
    """Read one checkpoint folder; raises ValueError or OSError when it is damaged."""
    return open_found(Found(folder, read_manifest(folder)["state"]))


def choose_and_open(choose: Callable[[], Chosen], take: Callable[[Chosen], Opened]) -> Opened:
    """Choose checkpoints and open them; choose again if a living trainer has removed one in between.

    Raises exceptions of ``choose``, and OSError where repeated choices cannot be opened either.
    """
    for _ in range(LOOKS - 1):
        chosen = choose()
        with suppress(OSError):
            return take(chosen)
    return take(choose())


def open_found(found: Found) -> Checkpoint:
    """Open a checkpoint that was found, with its tensors; raises OSError where it has been removed or replaced since.

    Raises ValueError for a file of tensors that cannot be read.
    """
    try:
        tensors = load_file(found.path / _TENSORS)
    except SafetensorError as error:
        raise ValueError(f"{found.path / _TENSORS}: {error!s:.500}") from None
    if found.identity is not None and found.identity != identity(found.path):
        raise FileNotFoundError(f"{found.path} was replaced while it was read")
    return Checkpoint(found.path, tensors, found.state)


def _sweep(directory: Path) -> None:
    """Remove replaced checkpoints, and leftovers of a process that was killed during a save."""
    whole = folders(directory)
    for path in directory.glob(".[0-9]*"):
        if path not in whole:
            shutil.rmtree(path, ignore_errors=True)
