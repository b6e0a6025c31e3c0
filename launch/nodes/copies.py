"""Checkpoint folders copied from one machine to another: parts of files, in order, checked against the manifest.

The sender reads parts when there is room to send them, from hard links, so that a folder that is removed meanwhile is
copied whole. The receiver writes beside the folder's place, and puts it there when its manifest says it is whole.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from actorlearn.files import flush, put_in_place
from actorlearn.parameters.checkpoint_folders import folders, read_manifest, steps_of
from launch.nodes.messages import CHUNK_BYTES, CopyDone, FileChunk, NodeWarning
from launch.supervision import events as ev

LINKED, ARRIVING = "outgoing", ".arriving"
FLUSHED_BYTES = 32 << 20
"""Bytes of a file after which what has arrived is put on disk, so that little is left to do at its end."""


class CopyError(ValueError):
    """A copied folder that is not whole, or a part that cannot be taken."""


class Outgoing:
    """A folder on its way to another machine."""

    def __init__(
        self, run_dir: Path, folder: Path, present: Sequence[str] = (), held_back: ev.Received | None = None
    ) -> None:
        """Link the folder's files; raises OSError. ``present``, ``held_back``: as in `CopyDone`."""
        self._name = str(folder.relative_to(run_dir))
        self._links = run_dir / LINKED / self._name
        shutil.rmtree(self._links, ignore_errors=True)
        self._links.mkdir(parents=True)
        for file in sorted(folder.iterdir()):
            if file.is_file() and not file.name.startswith("."):
                os.link(file, self._links / file.name)
        self._done = CopyDone(self._name, list(present), held_back)
        self._begun = self._withdrawn = False

    def withdraw(self) -> None:
        """Send nothing of it, unless its first part was sent already: there is a newer one to be sent."""
        if not self._begun:
            self._withdrawn = True
            shutil.rmtree(self._links, ignore_errors=True)

    def messages(self) -> Iterator[FileChunk | CopyDone | NodeWarning]:
        """Yield the parts of all files, each read when it is asked for, and then that the folder is whole."""
        self._begun = True
        if self._withdrawn:
            return
        try:
            for path in sorted(self._links.iterdir()):
                with path.open("rb") as file:
                    offset = 0
                    while (data := file.read(CHUNK_BYTES)) or not offset:
                        yield FileChunk(self._name, path.name, offset, data)
                        offset += max(1, len(data))
            yield self._done
        except OSError as error:
            yield NodeWarning(f"{self._name} cannot be copied: {error}", self._name)
        finally:
            shutil.rmtree(self._links, ignore_errors=True)


class Arriving:
    """Folders that are arriving below the folder of a run."""

    def __init__(self, run_dir: Path, sender: str) -> None:
        """Begin with none; ``sender``: a word for names of folders that are not whole yet."""
        self._run_dir, self._sender = run_dir, sender
        self._hashes: dict[Path, Any] = {}
        """SHA-256 of what has arrived of each file: to hash a large one at its end would hold up its reader's beats."""

    def take(self, part: FileChunk) -> None:
        """Write a part; raises OSError, and CopyError for one that does not continue its file."""
        beside = self._beside(part.folder)
        path = beside / part.file
        if path.parent != beside:
            raise CopyError(f"{part.folder}: {part.file} is in a folder of its own, and checkpoints have none")
        beside.mkdir(parents=True, exist_ok=True)
        with path.open("ab" if part.offset else "wb") as file:
            if file.tell() != part.offset:
                raise CopyError(
                    f"{part.folder}/{part.file}: a part at {part.offset}, and {file.tell()} bytes are there"
                )
            if not part.offset:
                self._hashes[path] = hashlib.sha256()
            file.write(part.data)
            self._hashes.setdefault(path, hashlib.sha256()).update(part.data)
            if part.offset // FLUSHED_BYTES < (part.offset + len(part.data)) // FLUSHED_BYTES:
                file.flush()
                os.fdatasync(file.fileno())

    def finish(self, done: CopyDone) -> Path:
        """Put a folder in its place, on disk; returns it. Raises OSError or CopyError, and then it is as it was."""
        beside, folder = self._beside(done.folder), self._run_dir / done.folder
        try:
            hashed = {path.name: self._hashes[path].hexdigest() for path in list(self._hashes) if path.parent == beside}
            for file in read_manifest(beside, hashed=hashed)["files"]:
                flush(beside / file)
            put_in_place(beside, folder)
        except (ValueError, KeyError, TypeError) as error:
            raise CopyError(f"{done.folder} has not arrived whole: {error}") from None
        finally:
            self.drop(done.folder)
        flush(folder.parent)
        return folder

    def drop(self, folder: str) -> None:
        """Remove what has arrived of a folder; raises CopyError where there can be none."""
        beside = self._beside(folder)
        shutil.rmtree(beside, ignore_errors=True)
        self._hashes = {path: found for path, found in self._hashes.items() if path.parent != beside}

    def remove_older(self, done: CopyDone, kept: Collection[Path]) -> None:
        """Remove neighbours of a folder that the sender has no more, but for those in ``kept``; raises OSError."""
        folder = self._run_dir / done.folder
        for old in folders(folder.parent):
            if old.name not in done.present and old not in kept and old != folder:
                gone = self._beside(f"{old.parent.relative_to(self._run_dir)}/{steps_of(old)}")
                old.rename(gone)  # never half of one under its name
                shutil.rmtree(gone, ignore_errors=True)

    def close(self) -> None:
        """Remove what has not arrived whole, and will not."""
        remove_unfinished(self._run_dir, self._sender)

    def _beside(self, folder: str) -> Path:
        path = self._run_dir / folder
        if path.parts[len(self._run_dir.parts)] != "checkpoints" or not path.name.isdecimal():
            raise CopyError(f"{folder} is no checkpoint's folder")
        return path.with_name(f"{ARRIVING}-{self._sender}-{path.name}")


def remove_unfinished(run_dir: Path, sender: str = "") -> None:
    """Remove what has not arrived whole: of one sender, or of all of them, which a killed head has left."""
    for left in (run_dir / "checkpoints").glob(f"**/{ARRIVING}-{sender and f'{sender}-'}*"):
        shutil.rmtree(left, ignore_errors=True)


def steps_beside(folder: Path) -> list[str]:
    """Return the names of a checkpoint's folder and of those beside it."""
    with suppress(OSError):
        return [path.name for path in folder.parent.iterdir() if path.name.isdecimal() and path.is_dir()]
    return []
