"""File systems of its own for a run, so that a test can fill them without filling those of others.

A holder process keeps a mount namespace with a small /dev/shm and a small disk for the run's folder. Runs are started
inside it; tests see its files through /proc/<holder>/root. The holder ends with the test process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

DISK, SHARED = "64M", "384M"
_HOLD = (
    'mount -t tmpfs -o size=$2,mode=700 tmpfs "$1" && mount -t tmpfs -o size=$3,mode=1777 tmpfs /dev/shm '
    "&& echo ready && exec cat"
)
_PRIVILEGED = os.geteuid() == 0


class StageError(OSError):
    """This machine gives us no mount namespace."""


class Stage:
    """``with Stage() as stage``: nothing is left of it afterwards."""

    def __init__(self) -> None:
        """Nothing is made yet."""
        self.folder = Path()
        """Folder on the machine's own disk, for rows and sockets of the run."""

    def __enter__(self) -> Stage:
        """Make the namespace; raises StageError."""
        self.folder = Path(tempfile.mkdtemp(prefix="al-"))
        self._inside = self.folder / "disk"
        self._inside.mkdir()
        self.sockets.mkdir(mode=0o700)
        how = [] if _PRIVILEGED else ["--user", "--map-root-user"]
        self._holder = subprocess.Popen(
            [
                *("unshare", *how, "--mount", "--propagation=private"),
                *("sh", "-c", _HOLD, "sh", str(self._inside), DISK, SHARED),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout and self._holder.stderr
        if self._holder.stdout.readline() != "ready\n":
            said = self._holder.stderr.read().strip()
            self.__exit__()
            raise StageError(f"this machine allows no mount namespace: {said}")
        return self

    def __exit__(self, *_: object) -> None:
        """Let the namespace go, with all that is mounted in it."""
        assert self._holder.stdin
        self._holder.stdin.close()
        self._holder.wait()
        for stream in (self._holder.stdout, self._holder.stderr):
            if stream:
                stream.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def holder(self) -> int:
        """Process id of the holder."""
        return self._holder.pid

    @property
    def sockets(self) -> Path:
        """Folder of the run's sockets, with a short path."""
        return self.folder / "s"

    @property
    def temporary(self) -> Path:
        """Where nodes of this machine have their files."""
        return self.folder / "t"

    @property
    def run_dir(self) -> Path:
        """The run's folder, as it is called inside."""
        return self._inside / "run"

    def outside(self, path: Path | str) -> Path:
        """A path of the inside, as this process can open it."""
        return Path(f"/proc/{self._holder.pid}/root{path}")

    @property
    def shared(self) -> Path:
        """The run's /dev/shm."""
        return self.outside("/dev/shm")

    def command(self, arguments: Sequence[str]) -> list[str]:
        """A command line that runs inside, as the same process."""
        how = [] if _PRIVILEGED else ["--user", "--preserve-credentials"]
        return ["nsenter", "-t", str(self._holder.pid), *how, "--mount", *arguments]

    def fill(self, folder: Path) -> None:
        """Fill the file system of a folder to the last byte."""
        with suppress(OSError), (folder / "ballast").open("ab", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        with suppress(OSError), (folder / "ballast").open("ab", buffering=0) as file:
            while True:
                file.write(bytes(1 << 9))

    def free(self, folder: Path) -> None:
        """Free the filled space."""
        (folder / "ballast").unlink(missing_ok=True)
