"""Bells: heard by a sleeper, harmless when nobody listens, and the same through a listener's incarnations."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actorlearn.wire.bell import Bell, Bells


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the bell hangs."""
    return tmp_path / "trainer.bell"


@pytest.fixture
def bells(path: Path) -> Iterator[Bells]:
    """The ringer's end."""
    bells = Bells({"trainer": str(path)})
    yield bells
    bells.close()


def rung(bell: Bell) -> bool:
    """Whether a sleeper would wake."""
    return bool(select.select([bell.fd], [], [], 0)[0])


def test_a_ring_is_heard_until_it_is_hushed(path: Path, bells: Bells) -> None:
    bell = Bell(path)
    assert not rung(bell)
    assert bells.ring("trainer")
    assert rung(bell)
    bell.hush()
    assert not rung(bell)
    bell.hush()  # with nothing to hush
    bell.close()


def test_it_is_its_owners_alone(path: Path) -> None:
    bell = Bell(path)
    assert path.stat().st_mode & 0o077 == 0
    bell.close()


def test_a_bell_nobody_hears_does_not_stop_the_ringer(path: Path, bells: Bells) -> None:
    bell = Bell(path)
    assert all(bells.ring("trainer") for _ in range(100_000))  # the pipe is full long before
    assert rung(bell)
    bell.hush()
    assert not rung(bell)
    bell.close()


def test_nobody_there_is_said_and_the_next_incarnation_is_heard(path: Path, bells: Bells) -> None:
    assert not bells.ring("trainer")
    for _ in range(3):
        bell = Bell(path)
        assert bells.ring("trainer")
        assert rung(bell)
        bell.close()
        assert not bells.ring("trainer")


def test_a_listener_that_was_killed_is_heard_of_and_its_successor_woken(path: Path, bells: Bells) -> None:
    code = "import sys, pathlib, time; from actorlearn.wire.bell import Bell; Bell(pathlib.Path(sys.argv[1])); "
    child = subprocess.Popen(
        [sys.executable, "-c", code + "print('up', flush=True); time.sleep(60)", str(path)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None and child.stdout.readline() == b"up\n"
    assert bells.ring("trainer")
    child.kill()
    child.wait()
    child.stdout.close()
    assert not bells.ring("trainer")
    bell = Bell(path)
    assert bells.ring("trainer") and rung(bell)
    bell.close()


def test_following_others_lets_go_of_the_bells_before(path: Path, bells: Bells) -> None:
    bell = Bell(path)
    bells.ring("trainer")
    before = len(os.listdir("/proc/self/fd"))
    bells.follow({"simulator-0.0": str(path.with_name("other.bell"))})
    assert len(os.listdir("/proc/self/fd")) == before - 1
    bells.ring_all()  # nobody hung that one up
    bell.close()


@pytest.mark.parametrize("what", ["file", "link"])
def test_what_lies_in_a_bells_place_is_never_rung_and_goes_when_it_is_hung_up(
    path: Path, bells: Bells, what: str
) -> None:
    other = path.with_name("other")
    other.write_bytes(b"ours")
    if what == "file":
        path.write_bytes(b"no bell")
    else:
        path.symlink_to(other)
    before = len(os.listdir("/proc/self/fd"))
    assert not any(bells.ring("trainer") for _ in range(3))
    assert len(os.listdir("/proc/self/fd")) == before
    assert what == "link" or path.read_bytes() == b"no bell"
    bell = Bell(path)
    assert not rung(bell)
    assert bells.ring("trainer") and rung(bell)
    bell.close()
    assert other.read_bytes() == b"ours"
