from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from actorlearn import failpoints
from actorlearn.failpoints import Killed, armed, hit, through
from actorlearn.files import AppendedFile, write_atomically
from tests.named_failpoints import calls
from tests.sizes import PACKAGES, ROOT, parsed, source_files

TEN = memoryview(b"0123456789")


def test_every_name_stands_once_and_says_where() -> None:
    seen: Counter[str] = Counter()
    for file in source_files(*PACKAGES):
        for name, line in calls(parsed(file)):
            where = f"{file.relative_to(ROOT)}:{line}"
            assert name is not None, f"{where}: a failpoint's name is a literal"
            named = re.fullmatch(r"([a-z_]+)\.[a-z_]+", name)
            assert named and named[1] == file.stem, f"{where}: {name!r} is no file.what_was_done_last"
            seen[name] += 1
    assert seen["files.write"] == 1
    assert [name for name, count in seen.items() if count > 1] == []


def test_unarmed_it_does_nothing() -> None:
    assert failpoints.VARIABLE not in os.environ, "a variable of tests is set"
    hit("x.y")
    assert through("x.y", TEN) is TEN


def test_acts_at_the_nth_hit() -> None:
    with armed("x.y=raise@3") as arms:
        hit("x.y")
        hit("x.z")
        hit("x.y")
        with pytest.raises(Killed, match="x.y=raise@3"):
            hit("x.y")
        hit("x.y")
    assert arms.hits == {"x.y": 4, "x.z": 1}
    assert [arm.text for arm in arms.acted] == ["x.y=raise@3"]
    hit("x.y")


def test_acts_from_the_nth_hit_on() -> None:
    with armed("x.y=nospace@2+"):
        hit("x.y")
        for _ in range(3):
            with pytest.raises(OSError) as error:
                hit("x.y")
            assert error.value.errno == errno.ENOSPC


def test_acts_only_for_who_is_meant() -> None:
    with armed("x.y=raise", lambda: False) as arms:
        hit("x.y")
    assert not arms.hits


def test_changes_bytes() -> None:
    with armed("x.y=short@1;x.y=flip@2"):
        assert bytes(through("x.y", TEN)) == b"01234"
        assert bytes(through("x.y", TEN)) == b"0123446789"
        assert through("x.y", TEN) is TEN
        with armed("x.z=flip"), pytest.raises(ValueError, match="flip changes bytes, but x.z is not before a write"):
            hit("x.z")


@pytest.mark.parametrize("text", ["x.y", "x=kill", "x.y=die", "x.y=kill@", "x.y=kill@-1"])
def test_what_is_no_arm_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not name=action@n"):
        failpoints.parse(text)


def test_text_of_an_arm_is_read_again() -> None:
    for text in ("x.y=sleep:0.5@2", "x.y=nospace@1+"):
        assert [arm.text for arm in failpoints.parse(text)] == [text]


def test_a_variable_arms_processes(tmp_path: Path) -> None:
    program = "from actorlearn.failpoints import hit\nfor _ in range(2): hit('x.y')"
    variables = {
        **os.environ,
        failpoints.VARIABLE: "x.y=sleep:0.01;x.y=kill@2",
        failpoints.ONCE_VARIABLE: str(tmp_path),
    }
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, env=variables, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert subprocess.run(command, env=variables, cwd=ROOT, check=False).returncode == 0, "once is enough"


def test_a_stopped_process_goes_on() -> None:
    program = "from actorlearn.failpoints import hit\nhit('x.y')\nprint('on')"
    variables = {**os.environ, failpoints.VARIABLE: "x.y=stop"}
    with subprocess.Popen([sys.executable, "-c", program], env=variables, cwd=ROOT, stdout=subprocess.PIPE) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        assert process.communicate()[0] == b"on\n"


def test_files_stay_whole_whatever_a_write_takes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"before")
    with armed("files.write=short@1;files.write=short@2;files.write=nospace@3"), pytest.raises(OSError, match="file"):
        write_atomically(path, b"0123456789")
    assert path.read_bytes() == b"before"
    with armed("files.write=short@1+"):
        write_atomically(path, b"0123456789")
    assert path.read_bytes() == b"0123456789"
    log = AppendedFile(tmp_path / "log")
    with armed("files.write=short@1;files.write=nospace@2"), pytest.raises(OSError):
        log.append(b"one\n")
    log.append(b"two\n")
    log.close()
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"


def test_a_watcher_hears_of_every_place_and_may_say_what_is_written() -> None:
    program = (
        "from actorlearn import failpoints\n"
        "class Watcher:\n"
        "    def reach(self, name, data=None):\n"
        "        print(name)\n"
        "        return data and data[:2]\n"
        "failpoints.watch(Watcher())\n"
        "failpoints.hit('x.y')\n"
        "print(bytes(failpoints.through('x.z', memoryview(b'0123'))))\n"
    )
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["x.y", "x.z", "b'01'"]
