"""Run folders on odd file systems and under odd names: one line each, or a run as usual.

File systems without locks are in ``tests/launch/runtime/test_workspace.py``, without a flush of folders in
``tests/test_files.py``, and those that fill up during a run in ``tests/system/test_full_disk.py``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.conftest import CONFIGS, PACED, Command, Start

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

Mount = Callable[[str], Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mount a file system in memory with these options, for the time of a test."""
    mounted = []

    def make(options: str) -> Path:
        path = tmp_path / "mounted"
        path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"only root can mount: {done.stderr.strip()}")
        mounted.append(path)
        return path

    yield make
    for path in mounted:
        subprocess.run(["umount", "-l", str(path)], check=True)


def refusal(command: Command, run_dir: Path | str) -> str:
    """The line with which a run in this folder is refused."""
    done = command("run", CONFIGS / "catch.yaml", "total_steps=400", "--run-dir", run_dir)
    assert done.returncode in (1, 2), done
    (line,) = done.stderr.splitlines()
    assert line.startswith("actorlearn: ") and line.isprintable()
    return line


def test_a_mount_that_is_read_only(command: Command, mount: Mount) -> None:
    assert "cannot be made: Read-only file system; name another folder" in refusal(command, mount("ro") / "run")


def test_a_mount_that_has_no_room(command: Command, mount: Mount) -> None:
    assert "No space left on device" in refusal(command, mount("size=4k") / "run")


def test_a_file_is_in_the_way(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert "cannot be made: File exists; name another folder" in refusal(command, tmp_path / "file")
    assert "cannot be made: Not a directory; name another folder" in refusal(command, tmp_path / "file" / "run")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_name_that_is_too_long(command: Command, tmp_path: Path) -> None:
    assert "File name too long; name another path" in refusal(command, tmp_path / ("x" * 300))


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31m", os.fsdecode(b"a\xff")])
def test_a_name_that_no_message_can_show(name: str, command: Command) -> None:
    assert "has control characters or bytes that are not UTF-8; name another folder" in refusal(command, name)


def test_spaces_other_letters_and_200_characters(launched: Start, tmp_path: Path) -> None:
    (parent := tmp_path / ("ä ö 🛞 " * 20)).mkdir()
    run = launched("catch", "total_steps=400", run_dir=parent / ("run " * 10).strip())
    assert run.end(300) == 0, run.screen()
    assert run.leftovers() == [] and run.summary()["status"] == "finished"


def test_64_megabytes_of_shared_memory_suffice(environment: dict[str, str], tmp_path: Path) -> None:
    """In a mount namespace of its own, as in a container."""
    script = 'mount -t tmpfs -o size=64M tmpfs /dev/shm && "$@"; code=$?; ls -A /dev/shm; exit $code'
    run = [sys.executable, "-m", "launch", "run", str(CONFIGS / "catch.yaml"), "total_steps=400", "--run-dir", "new"]
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    command = [*namespace, "sh", "-c", script, "sh", *run]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"this machine allows no mount namespaces: {done.stderr.strip()}")
    assert done.returncode == 0 and done.stderr == "", done
    assert done.stdout.splitlines()[-1].endswith("finished")  # ls shows nothing after it


def test_a_folder_that_is_removed_during_a_run(launched: Start, tmp_path: Path) -> None:
    run = launched("catch", PACED, "checkpoint.every_steps=200")
    run.wait_for(lambda: run.events("saved")[1:], "checkpoint after the first")
    meta = run.meta()
    os.rename(run.run_dir, tmp_path / "elsewhere")
    run.ctrl_c()
    assert run.end(300) in (1, 130), run.screen()
    assert "Traceback" not in run.screen()
    assert not [meta[key] for key in ("shm", "sockets") if Path(meta[key]).exists()]
