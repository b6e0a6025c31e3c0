"""Files and folders replaced whole: the old or the new, never a part, and no rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from actorlearn import files
from actorlearn.files import exchange, write_atomically


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "topology.yaml"
    for content in (b"old" * 1000, b"new", b""):
        write_atomically(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("at", ["fsync", "replace"])
def test_what_cannot_be_written_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    path = tmp_path / "meta.json"
    write_atomically(path, b"old")

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((os, at) if at == "fsync" else (Path, at)), no_space)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_folders_change_places(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / folder.name).touch()
    if not exchange(one, other):
        pytest.skip("this file system cannot exchange two paths")
    assert [p.name for p in one.iterdir()] == ["other"]
    assert [p.name for p in other.iterdir()] == ["one"]


def test_where_the_system_cannot_exchange_nothing_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_libc", object())
    assert not exchange(tmp_path, tmp_path)


def test_what_is_not_there_cannot_be_exchanged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        exchange(tmp_path, tmp_path / "nowhere")
