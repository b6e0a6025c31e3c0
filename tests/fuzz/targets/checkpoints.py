"""Checkpoints: manifests, and the tensors behind them."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch

from actorlearn.parameters import checkpoint, checkpoint_folders
from actorlearn.parameters.checkpoint_folders import CheckpointError
from tests.fuzz.nearly import as_json, nearly
from tests.fuzz.targets.door import DEEP_JSON, Target, refused
from tests.fuzz.watched import watched

_TENSORS = {"weights.a": torch.arange(6.0).reshape(2, 3), "optimizer.m": torch.ones(4)}
_STATE = {"env_steps": 40, "updates": 7, "policy_version": 3, "elapsed_s": 1.5, "recent": [1.5, -2.0]}


@cache
def _sealed() -> tuple[bytes, bytes]:
    """Manifest and tensors of a checkpoint of 40 steps."""
    folder = Path(tempfile.mkdtemp())
    try:
        made = checkpoint.save(folder, 40, _TENSORS, _STATE, keep=1)
        return (made / "manifest.json").read_bytes(), (made / "tensors.safetensors").read_bytes()
    finally:
        shutil.rmtree(folder)


def resealed(tree: Any) -> bytes:
    """Return a manifest with this content and a valid checksum."""
    text = json.dumps(tree, indent=1).removesuffix("\n}").encode()
    return text + f',\n "sha256": "{hashlib.sha256(text).hexdigest()}"\n}}\n'.encode()


def _folder_of(folder: Path, manifest: bytes, tensors: bytes) -> Path:
    made = folder / "000000000040"
    made.mkdir(exist_ok=True)
    (made / "manifest.json").write_bytes(manifest)
    (made / "tensors.safetensors").write_bytes(tensors)
    return made


def _manifest(data: bytes, folder: Path) -> bool:
    """Look for a checkpoint that has this manifest and valid tensors."""
    _folder_of(folder, data, _sealed()[1])
    try:
        with watched():
            found = checkpoint_folders.newest(folder)
    except CheckpointError as error:
        return refused(error)
    assert isinstance(found.state, dict)
    return True


def _tensors(data: bytes, folder: Path) -> bool:
    """Load a checkpoint that has these tensors and a manifest with their checksum."""
    files = {"tensors.safetensors": {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}}
    made = _folder_of(folder, resealed({"format": 2, "env_steps": 40, "files": files, "state": {}}), data)
    try:
        with watched():
            loaded = checkpoint.load(made)
    except (ValueError, OSError) as error:
        return refused(error)
    assert all(isinstance(tensor, torch.Tensor) for tensor in loaded.tensors.values())
    return True


def _tensor_file(tree: Any) -> bytes:
    header = as_json(tree)
    return len(header).to_bytes(8, "little") + header + _sealed()[1][-64:]


def _tensor_headers() -> list[Any]:
    data = _sealed()[1]
    return [json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])]


def targets() -> dict[str, Target]:
    """Return targets for the files of a checkpoint."""
    sealed, tensors = _sealed()
    return {
        "manifest": Target(
            _manifest,
            sealed,
            nearly([json.loads(sealed)], resealed, [sealed]),
            hostile=DEEP_JSON,
            peak_bound=lambda size: 4 * size + (17 << 20),  # files are hashed in parts of 16 MiB
        ),
        "tensors": Target(
            _tensors,
            tensors,
            nearly(_tensor_headers(), _tensor_file, [tensors]),
            hostile=(b"\xff" * 64, bytes(64), b"\xff\xff\xff\x07" + bytes(4) + b"[" * 1_000_000),
            peak_bound=lambda size: 4 * size + (17 << 20),
        ),
    }
