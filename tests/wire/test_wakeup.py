"""Wakeups: heard by a sleeper, harmless when nobody listens, and the same through a listener's incarnations."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actorlearn.wire.wakeup import Wakeup, Wakeups


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The wakeup's path."""
    return tmp_path / "trainer.wakeup"


@pytest.fixture
def wakeups(path: Path) -> Iterator[Wakeups]:
    """The ringer's end."""
    wakeups = Wakeups({"trainer": path})
    yield wakeups
    wakeups.close()


def woken(wakeup: Wakeup) -> bool:
    """Whether a sleeper would wake."""
    return bool(select.select([wakeup.fd], [], [], 0)[0])


def test_a_ring_is_heard_until_it_is_hushed(path: Path, wakeups: Wakeups) -> None:
    wakeup = Wakeup(path)
    assert not woken(wakeup)
    assert wakeups.wake("trainer")
    assert woken(wakeup)
    wakeup.clear()
    assert not woken(wakeup)
    wakeup.clear()  # with nothing to clear
    wakeup.close()


def test_it_is_its_owners_alone(path: Path) -> None:
    wakeup = Wakeup(path)
    assert path.stat().st_mode & 0o077 == 0
    wakeup.close()


def test_a_wakeup_nobody_hears_does_not_stop_the_ringer(path: Path, wakeups: Wakeups) -> None:
    wakeup = Wakeup(path)
    assert all(wakeups.wake("trainer") for _ in range(100_000))  # the pipe is full long before
    assert woken(wakeup)
    wakeup.clear()
    assert not woken(wakeup)
    wakeup.close()


def test_nobody_there_is_said_and_the_next_incarnation_is_heard(path: Path, wakeups: Wakeups) -> None:
    assert not wakeups.wake("trainer")
    for _ in range(3):
        wakeup = Wakeup(path)
        assert wakeups.wake("trainer")
        assert woken(wakeup)
        wakeup.close()
        assert not wakeups.wake("trainer")


def test_a_listener_that_was_killed_is_heard_of_and_its_successor_woken(path: Path, wakeups: Wakeups) -> None:
    code = "import sys, pathlib, time; from actorlearn.wire.wakeup import Wakeup; Wakeup(pathlib.Path(sys.argv[1])); "
    child = subprocess.Popen(
        [sys.executable, "-c", code + "print('up', flush=True); time.sleep(60)", str(path)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None and child.stdout.readline() == b"up\n"
    assert wakeups.wake("trainer")
    child.kill()
    child.wait()
    child.stdout.close()
    assert not wakeups.wake("trainer")
    wakeup = Wakeup(path)
    assert wakeups.wake("trainer") and woken(wakeup)
    wakeup.close()


def test_following_others_lets_go_of_the_wakeups_before(path: Path, wakeups: Wakeups) -> None:
    wakeup = Wakeup(path)
    wakeups.wake("trainer")
    before = len(os.listdir("/proc/self/fd"))
    wakeups.follow({"simulator-0.0": path.with_name("other.wakeup")})
    assert len(os.listdir("/proc/self/fd")) == before - 1
    wakeups.wake_all()  # nobody hung that one up
    wakeup.close()


@pytest.mark.parametrize("what", ["file", "link"])
def test_what_lies_in_a_wakeups_place_is_never_rung_and_goes_when_it_is_hung_up(
    path: Path, wakeups: Wakeups, what: str
) -> None:
    other = path.with_name("other")
    other.write_bytes(b"ours")
    if what == "file":
        path.write_bytes(b"no wakeup")
    else:
        path.symlink_to(other)
    before = len(os.listdir("/proc/self/fd"))
    assert not any(wakeups.wake("trainer") for _ in range(3))
    assert len(os.listdir("/proc/self/fd")) == before
    assert what == "link" or path.read_bytes() == b"no wakeup"
    wakeup = Wakeup(path)
    assert not woken(wakeup)
    assert wakeups.wake("trainer") and woken(wakeup)
    wakeup.close()
    assert other.read_bytes() == b"ours"
