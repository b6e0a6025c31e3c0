"""Checkpoints: whole or not there; damage is found, the one before is taken, nothing starts afresh unasked."""

import random
from pathlib import Path

import pytest
import torch

from actorlearn.parameters import checkpoint
from actorlearn.parameters.checkpoint import CheckpointError

TENSORS = {"weights.a": torch.arange(6.0).reshape(2, 3), "optimizer.m": torch.ones(4)}


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 100, TENSORS, {"updates": 7, "recent": [1.5, -2.0]}, keep=3)
    saved = checkpoint.newest(tmp_path)
    assert saved.state == {"updates": 7, "recent": [1.5, -2.0]}
    assert torch.equal(saved.section("weights")["a"], TENSORS["weights.a"])
    assert set(saved.section("optimizer")) == {"m"}


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for steps in (0, 5, 10, 1000, 200):
        checkpoint.save(tmp_path, steps, TENSORS, {}, keep=2)
    assert [int(p.name) for p in sorted(tmp_path.iterdir())] == [200, 1000]


def test_saving_the_same_steps_again_replaces(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 5, TENSORS, {"try": 1}, keep=2)
    checkpoint.save(tmp_path, 5, TENSORS, {"try": 2}, keep=2)
    assert checkpoint.newest(tmp_path).state == {"try": 2}


@pytest.mark.parametrize("seed", range(40))
def test_every_flipped_bit_and_every_truncation_is_found(tmp_path: Path, seed: int) -> None:
    checkpoint.save(tmp_path, 1, TENSORS, {"which": "old"}, keep=5)
    newest = checkpoint.save(tmp_path, 2, TENSORS, {"which": "new"}, keep=5)
    draw = random.Random(seed)
    file = newest / "tensors.safetensors"
    data = bytearray(file.read_bytes())
    if seed % 4 == 0:
        data = data[: draw.randrange(len(data))]
    else:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(bytes(data))
    assert checkpoint.newest(tmp_path).state == {"which": "old"}


@pytest.mark.parametrize("manifest", ["", "{", "[]", '{"format": 1}', '{"format": 99, "sha256": {}, "state": {}}'])
def test_a_damaged_manifest_is_no_checkpoint(tmp_path: Path, manifest: str) -> None:
    folder = checkpoint.save(tmp_path, 2, TENSORS, {}, keep=5)
    (folder / "manifest.json").write_text(manifest)
    with pytest.raises(CheckpointError, match="no valid checkpoint"):
        checkpoint.newest(tmp_path)


def test_none_at_all_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="none found"):
        checkpoint.newest(tmp_path / "nowhere")


def test_a_failed_save_leaves_the_one_before_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(tmp_path, 1, TENSORS, {"which": "old"}, keep=5)

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "_flush", no_space)
    with pytest.raises(OSError, match="No space"):
        checkpoint.save(tmp_path, 2, TENSORS, {}, keep=5)
    assert [p.name for p in tmp_path.iterdir()] == ["000000000001"]
    assert checkpoint.newest(tmp_path).state == {"which": "old"}
