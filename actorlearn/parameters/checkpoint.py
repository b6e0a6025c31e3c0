"""Checkpoints: a folder per save, tensors in safetensors, a manifest with hashes written last.

A save is written beside its final place, flushed, and renamed; whatever moment a process dies at, the newest folder
that carries a valid manifest is a whole checkpoint. Loading never executes anything, and never falls back to a fresh
start: a run that has checkpoints but no valid one is an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

FORMAT_VERSION = 1
_TENSORS = "tensors.safetensors"
_MANIFEST = "manifest.json"


class CheckpointError(RuntimeError):
    """No valid checkpoint where one must be."""


@dataclass(frozen=True)
class Checkpoint:
    """What was saved: named tensors (``weights.*``, ``optimizer.*``) and plain numbers."""

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
) -> Path:
    """Write ``directory/<env_steps>/`` whole or not at all, and remove all but the ``keep`` newest; raises OSError.

    ``more`` writes further files into the folder, without hashes, and returns what joins the state.
    """
    final = directory / f"{env_steps:012d}"
    beside = directory / f".{final.name}.{os.getpid()}"
    directory.mkdir(parents=True, exist_ok=True)
    for left in directory.glob(".*"):  # by a process that was killed while it saved
        shutil.rmtree(left, ignore_errors=True)
    try:
        beside.mkdir()
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, beside / _TENSORS)
        digest = hashlib.sha256((beside / _TENSORS).read_bytes()).hexdigest()
        manifest = {
            "format": FORMAT_VERSION,
            "env_steps": env_steps,
            "sha256": {_TENSORS: digest},
            "state": {**state, **more(beside)},
        }
        (beside / _MANIFEST).write_text(json.dumps(manifest, indent=1))
        for name in (_TENSORS, _MANIFEST):
            _flush(beside / name)
        if final.exists():
            final.rename(beside.with_suffix(".before"))
        beside.rename(final)
        _flush(directory)
    except SafetensorError as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise OSError(str(error)) from error  # a full disk comes as one of these
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    shutil.rmtree(beside.with_suffix(".before"), ignore_errors=True)
    for old in _folders(directory)[keep:]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def newest(directory: Path) -> Checkpoint:
    """The newest checkpoint that passes its hashes; raises CheckpointError naming what is wrong with each other one."""
    wrong = []
    for folder in _folders(directory):
        try:
            return load(folder)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            wrong.append(f"{folder.name}: {error}")
    found = "; ".join(wrong) if wrong else "none found"
    raise CheckpointError(f"{directory}: no valid checkpoint ({found}); start a new run, or restore the folder")


def load(folder: Path) -> Checkpoint:
    """Read one checkpoint folder; raises ValueError when a hash or the format does not match."""
    manifest = json.loads((folder / _MANIFEST).read_text())
    if manifest["format"] != FORMAT_VERSION:
        raise ValueError(f"format {manifest['format']}, this version reads {FORMAT_VERSION}")
    for name, expected in manifest["sha256"].items():
        actual = hashlib.sha256((folder / Path(name).name).read_bytes()).hexdigest()
        if actual != expected:
            raise ValueError(f"{name} has sha256 {actual[:12]}…, its manifest says {expected[:12]}…")
    return Checkpoint(folder, load_file(folder / _TENSORS), manifest["state"])


def _folders(directory: Path) -> list[Path]:
    """Finished checkpoint folders, newest first."""
    if not directory.is_dir():
        return []
    return sorted((p for p in directory.iterdir() if p.is_dir() and p.name.isdigit()), reverse=True)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
