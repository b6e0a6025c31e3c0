"""Writes and reads checkpoints. Each is a folder with a safetensors file, further files, and a manifest of hashes.

A checkpoint is written to a temporary folder, flushed to disk, and renamed to its final name. If the process dies at
any moment, either the old or the new checkpoint is complete. Reading never executes code. ``checkpoint_folders.py``
chooses the checkpoint from which to continue.
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
from actorlearn.parameters.checkpoint_folders import (
    LOOKS,
    TENSORS,
    Beat,
    Found,
    folders,
    identity,
    read_manifest,
    seal,
    silent,
    steps_of,
)

Chosen = TypeVar("Chosen")
Opened = TypeVar("Opened")


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint."""

    path: Path
    """The checkpoint's folder."""
    tensors: dict[str, Tensor]
    """All tensors by name: ``weights.*``, ``optimizer.*``, ``consumed`` and others."""
    state: dict[str, Any]
    """Plain values, such as counts, from the manifest."""

    def section(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors whose names start with ``prefix.``, by their names without it."""
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
    """Write the checkpoint ``directory/<env_steps>/`` atomically, remove old ones, and return its path.

    The ``keep`` newest checkpoints are kept, and those of the environment steps that ``spared`` returns. ``more``
    writes further files to the folder and returns additions to ``state``. ``beat`` is called repeatedly while files are
    hashed, as a sign that the process does not hang. Raises OSError.
    """
    final = directory / f"{env_steps:012d}"
    beside = directory / f".{final.name}.{os.getpid()}"
    make_folder(directory)
    _sweep(directory)
    try:
        beside.mkdir()
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, beside / TENSORS)
        hit("checkpoint.tensors_written")
        seal(beside, env_steps, {**state, **more(beside)}, beat)
        hit("checkpoint.sealed")
        put_in_place(beside, final)
        hit("checkpoint.in_place")
    except BaseException as error:
        shutil.rmtree(beside, ignore_errors=True)
        if isinstance(error, SafetensorError):
            raise OSError(str(error)) from error  # safetensors reports a full disk with its own exception
        raise
    flush(directory)  # the new checkpoint must be on disk before an older one is removed
    # Newer checkpoints are damaged, because this run continued from an older one. They are not counted here, and are
    # removed when the run has reached their steps.
    older = sorted((folder for folder in folders(directory) if steps_of(folder) <= env_steps), key=steps_of)
    spare = spared()
    for old in (folder for folder in older[:-keep] if steps_of(folder) not in spare):
        with suppress(OSError):
            # A rename first, so that no partly removed folder has the name of a checkpoint.
            old.rename(directory / f".{steps_of(old):012d}.{os.getpid()}")
    _sweep(directory)
    return final


def load(folder: Path) -> Checkpoint:
    """Read one checkpoint folder; raises ValueError or OSError if it is damaged."""
    return open_found(Found(folder, read_manifest(folder)["state"]))


def choose_and_open(choose: Callable[[], Chosen], take: Callable[[Chosen], Opened]) -> Opened:
    """Choose checkpoints by ``choose``, open them by ``take``, and return the result of ``take``.

    If a running trainer removes a checkpoint between the two calls, both are repeated, up to LOOKS times. Raises what
    they raise.
    """
    for _ in range(LOOKS - 1):
        chosen = choose()
        with suppress(OSError):
            return take(chosen)
    return take(choose())


def open_found(found: Found) -> Checkpoint:
    """Read the tensors of a checkpoint that was found before.

    Raises OSError if it was removed or replaced in the meantime, and ValueError if its tensors cannot be read.
    """
    try:
        tensors = load_file(found.path / TENSORS)
    except SafetensorError as error:
        raise ValueError(f"{found.path / TENSORS}: {error!s:.500}") from None
    if found.identity is not None and found.identity != identity(found.path):
        raise FileNotFoundError(f"{found.path} was replaced while it was read")
    return Checkpoint(found.path, tensors, found.state)


def _sweep(directory: Path) -> None:
    """Remove replaced checkpoints, and temporary folders of a process that was killed during a save."""
    whole = folders(directory)
    for path in directory.glob(".[0-9]*"):
        if path not in whole:
            shutil.rmtree(path, ignore_errors=True)
