"""Segments: what they refuse, what they leave behind, and that a full /dev/shm is an error and not a SIGBUS."""

import functools
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from actorlearn.memory import shared
from actorlearn.memory.fields import Field, layout
from actorlearn.memory.owned import name_of, owned_directories
from actorlearn.memory.shared import Segment, SegmentError, SharedMemoryFull, reserve, sweep_shared

FIELDS = [Field("a", "uint8", (3, 5), 0xA5), Field("b", "float32", (7,), float("nan")), Field("c", "int64", (1,), -1)]


def test_arrays_are_poisoned_and_shared(tmp_path: Path) -> None:
    one = Segment.create(tmp_path / "s", FIELDS)
    other = Segment.open(tmp_path / "s")
    assert (other["a"] == 0xA5).all() and np.isnan(other["b"]).all() and other["c"][0] == -1
    one["b"][3] = 2.5
    assert other["b"][3] == 2.5
    assert [(f.name, f.dtype, f.shape) for f in other.fields] == [(f.name, f.dtype, f.shape) for f in FIELDS]
    one.close()
    other.close()


def test_fields_start_on_cache_lines() -> None:
    offsets, size = layout(FIELDS)
    assert offsets == [0, 64, 128]
    assert size == 192


def test_owner_only(tmp_path: Path) -> None:
    Segment.create(tmp_path / "s", FIELDS).close()
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "too few"),
        (b"x" * 100_000, "magic"),
        (b"ACTLEARN" + (99).to_bytes(4, "little") + bytes(100_000), "layout version 99"),
        (b"ACTLEARN" + (2).to_bytes(4, "little") + (2**31).to_bytes(4, "little") + bytes(100_000), "field table"),
        (b"ACTLEARN" + (2).to_bytes(4, "little") + (9).to_bytes(4, "little") + b"\xff" * 100_000, "checksum"),
    ],
)
def test_files_that_are_no_segments_are_refused(tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(SegmentError, match=word):
        Segment.open(tmp_path / "s")


def test_a_truncated_segment_is_refused(tmp_path: Path) -> None:
    Segment.create(tmp_path / "s", FIELDS).close()
    os.truncate(tmp_path / "s", 16 * 1024 + 100)
    with pytest.raises(SegmentError, match="need"):
        Segment.open(tmp_path / "s")


def test_a_header_with_any_bit_turned_is_refused(tmp_path: Path) -> None:
    """Every bit of the prefix and of the table; what follows them up to the data is never read."""
    path = tmp_path / "s"
    Segment.create(path, FIELDS).close()
    whole = path.read_bytes()
    read = len(whole[: 16 * 1024].rstrip(b"\0"))
    assert read > 100
    for bit in range(8 * read):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(SegmentError, match=f"^{path}: "):
            Segment.open(path)
    path.write_bytes(whole)
    Segment.open(path).close()


@pytest.mark.parametrize(
    "table",
    [
        [Field("a", "no dtype", (3,))],
        [Field("a", "object", (3,))],
        [Field("a", "uint8", (-3,))],
        [Field("a", "uint8", (2**62, 2**62))],
        {"a": 1},
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path: Path, table: object) -> None:
    """Written whole, so that its checksum is right, by a program that is not ours."""
    path = tmp_path / "s"
    path.write_bytes(shared.header(msgspec.msgpack.encode(table)).ljust(16 * 1024 + 64, b"\0"))
    with pytest.raises(SegmentError, match=f"^{path}: "):
        Segment.open(path)


def test_links_are_not_followed(tmp_path: Path) -> None:
    Segment.create(tmp_path / "s", FIELDS).close()
    (tmp_path / "link").symlink_to(tmp_path / "s")
    with pytest.raises(OSError, match="symbolic links"):
        Segment.open(tmp_path / "link")


def test_more_than_is_free_is_refused_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "SHM_ROOT", tmp_path)
    with pytest.raises(SharedMemoryFull, match=r"needed, but only [\d,]+ are free"):
        reserve("full", 2**60, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_sweep_removes_the_dead_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "SHM_ROOT", tmp_path)
    uid = os.getuid()
    living = reserve("living", 1, tmp_path)
    dead = tmp_path / f"actorlearn-{uid}-dead"
    dead.mkdir()
    (dead / "lock").touch()
    (dead / "simulator-0.0").write_bytes(b"x")
    keep = [tmp_path / f"actorlearn-{uid + 1}-foreign", tmp_path / "other", tmp_path / f"actorlearn-{uid}-bad name"]
    for path in keep:
        path.mkdir()
    link = tmp_path / f"actorlearn-{uid}-link"
    link.symlink_to(tmp_path / "other")
    assert sweep_shared() == ["dead"]
    assert living.path.exists() and link.is_symlink() and all(path.exists() for path in keep)
    assert Path((living.path / "run").read_text()) == tmp_path
    living.close()
    assert not living.path.exists()


def test_a_run_that_ends_during_the_search_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its directory is removed between any two looks at it."""
    stat, looks = os.stat, 0

    def ending(where: Any, **options: Any) -> os.stat_result:
        nonlocal looks
        looks -= where == path
        if looks < 0:
            with suppress(OSError):
                path.rmdir()
        return stat(where, **options)

    monkeypatch.setattr(os, "stat", ending)
    monkeypatch.setattr(os, "lstat", functools.partial(ending, follow_symlinks=False))
    for looks in range(4):
        path = tmp_path / str(looks) / name_of("ending")
        path.mkdir(parents=True)
        assert owned_directories(path.parent) in (([], []), ([], [path]))


def test_a_full_file_system_is_an_error_and_not_a_sigbus() -> None:
    """In a mount namespace of its own, /dev/shm is 64 KiB; the same code that starts a run must say so."""
    program = (
        "from pathlib import Path\n"
        "from actorlearn.memory.shared import *\nfrom actorlearn.memory.fields import Field\n"
        "try: Segment.create(Path('/dev/shm/s'), [Field('a', 'uint8', (1 << 20,), 1)])\n"
        "except SharedMemoryFull as error: print(error, Path('/dev/shm/s').exists())\n"
    )
    script = f'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "{sys.executable}" -c "$PROGRAM"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    environment = {**os.environ, "PROGRAM": program}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"this machine allows no mount namespaces: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert "1,064,960 bytes of shared memory are needed, but only 65,536 are free" in done.stdout
    assert done.stdout.rstrip().endswith("False")
