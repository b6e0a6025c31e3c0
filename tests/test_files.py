"""Files and folders replaced whole: the old or the new, never a part, and no rest."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from actorlearn import files
from actorlearn.files import MOST_WAITING, AppendedFile, exchange, flush, write_atomically
from tests.failing_disk import TROUBLES, FailingDisk


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "topology.yaml"
    for content in (b"old" * 1000, b"new", b""):
        write_atomically(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("number", TROUBLES)
def test_what_cannot_be_written_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "meta.json"
    disk = FailingDisk(monkeypatch, tmp_path, number)
    write_atomically(path, b"old")
    assert disk.calls == ["open", "write", "fsync", "replace", "fsync"]
    for call in range(4):
        disk.fails(lambda made, call=call: made == call)  # type: ignore[misc]
        with pytest.raises(OSError, match=str(path)) as failed:
            write_atomically(path, b"new")
        assert failed.value.errno == number
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]
    disk.fails(lambda made: made == 4)
    with pytest.raises(OSError, match=str(path)):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    disk.heals()
    write_atomically(path, b"newer", durable=False)
    assert disk.calls == ["open", "write", "replace"]
    assert path.read_bytes() == b"newer"


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_where_folders_cannot_be_flushed_files_still_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "meta.json"
    disk = FailingDisk(monkeypatch, tmp_path, number)
    disk.fails(lambda made: made == 4)
    write_atomically(path, b"new")
    assert disk.calls == ["open", "write", "fsync", "replace", "fsync"]
    disk.fails(lambda made: disk.calls[made] == "fsync")
    for flushed in (lambda: write_atomically(path, b"newer"), lambda: flush(path)):
        with pytest.raises(OSError, match=os.strerror(number)):
            flushed()
    flush(tmp_path)
    assert path.read_bytes() == b"new"


def test_a_disk_that_takes_only_a_part_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FailingDisk(monkeypatch, tmp_path)
    write_atomically(tmp_path / "summary.json", b"old")
    disk.room = 2
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "summary.json", b"newer")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("summary.json", b"old")]


def test_a_link_stays_one_and_a_device_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    (tmp_path / "nowhere").symlink_to("/dev/null")
    write_atomically(tmp_path / "nowhere", b"new")
    assert Path("/dev/null").is_char_device()
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(OSError, match=str(tmp_path / "full")):
        write_atomically(tmp_path / "full", b"new")


def test_a_pipe_without_a_name_is_written_to() -> None:
    """What a shell passes for ``>(tee FILE)``."""
    reads, writes = os.pipe()
    write_atomically(Path(f"/dev/fd/{writes}"), b"new")
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        assert pipe.read() == b"new"


@pytest.mark.parametrize("number", TROUBLES)
@pytest.mark.parametrize("taken", [0, 1, 4])
@pytest.mark.parametrize("cuts", [True, False])
def test_a_record_is_written_whole_or_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, taken: int, cuts: bool
) -> None:
    """``cuts``: whether what was written of it can be cut off at once, or only when the next comes."""
    path = tmp_path / "metrics.jsonl"
    disk = FailingDisk(monkeypatch, tmp_path, number)
    file = AppendedFile(path)
    file.append(b"one\n")
    disk.room = taken
    disk.fails(lambda call: not cuts and disk.calls[call] == "ftruncate")
    for record in (b"seven\n", b"eight\n"):
        with pytest.raises(OSError, match=str(path)) as failed:
            file.append(record)
        assert failed.value.errno == number
    assert path.read_bytes() == (b"one\n" if cuts else b"one\n" + b"seve"[:taken])
    disk.heals()
    file.append(b"nine\n")
    assert path.read_bytes() == b"one\nseven\neight\nnine\n"
    file.close()


def test_a_record_that_goes_in_two_parts_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, write = AppendedFile(tmp_path / "f"), os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:3]))
    file.append(b"0123456789\n")
    file.close()
    file.close()
    assert (tmp_path / "f").read_bytes() == b"0123456789\n"


def test_what_waits_is_written_at_the_end_and_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FailingDisk(monkeypatch, tmp_path)
    for healed in (True, False):
        file = AppendedFile(tmp_path / f"{healed}")
        disk.room = 0
        for number in range(MOST_WAITING + 2):
            with pytest.raises(OSError, match="No space"):
                file.append(b"%d\n" % number)
        if healed:
            disk.heals()
        file.close()
        assert file.closed
    lines = (tmp_path / "True").read_text().splitlines()
    assert lines == [str(number) for number in range(2, MOST_WAITING + 2)]
    assert (tmp_path / "False").read_bytes() == b""


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
    monkeypatch.setattr(files, "libc", object())
    assert not exchange(tmp_path, tmp_path)


def test_what_is_not_there_cannot_be_exchanged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        exchange(tmp_path, tmp_path / "nowhere")
