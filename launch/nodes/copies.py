"""Copies folders of checkpoints and films between machines, and writes ``set.json``.

Each file is sent in pieces, in order. The sender reads a piece when there is room to send it. It reads from hard links,
so that a folder is copied completely even if it is removed in the meantime. The receiver writes to a temporary folder,
checks the files (against the manifest of a checkpoint; films against their sizes), and renames the folder.

Each checkpoint arrives from its node separately, so the newest checkpoints of the learners may have different steps.
The file ``set.json`` names one checkpoint of each learner from which the run can be resumed. It is replaced after a
checkpoint has arrived completely and before any older one is removed. All checkpoints that it names therefore exist
whenever the head or a node dies.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from actorlearn.files import flush, put_in_place, write_atomically
from actorlearn.parameters.checkpoint_folders import (
    complete_steps,
    directory_of,
    folders,
    read_manifest,
    steps_of,
)
from launch.nodes.messages import CHUNK_BYTES, CopyDone, FileChunk, NodeWarning
from launch.plan.roles import FILMS
from launch.supervision import events as ev

LINKED, ARRIVING = "outgoing", ".arriving"
"""Folder in the run's folder with hard links to files that are being sent; prefix of folders being received."""
CHECKPOINTS = "checkpoints"
"""Folder in the run's folder with checkpoints. Only folders in it and in ``FILMS`` are copied."""
SET_FILE = "set.json"
"""File in the folder of checkpoints that names one checkpoint of each learner, from which the run can be resumed."""
FLUSHED_BYTES = 32 << 20
"""Bytes of a file after which the received bytes are flushed to disk, so that the flush at its end is short."""


class CopyError(ValueError):
    """A copied folder is incomplete, or a received piece does not continue its file."""


class Outgoing:
    """The sender's copy of a folder with a checkpoint or films; `messages` yields what must be sent."""

    def __init__(
        self, run_dir: Path, folder: Path, present: Sequence[str] = (), held_back: ev.Received | None = None
    ) -> None:
        """Make hard links to the folder's files; raises OSError. ``present``, ``held_back``: as in `CopyDone`."""
        self._name = str(folder.relative_to(run_dir))
        beside = (run_dir / LINKED / self._name).parent
        beside.mkdir(parents=True, exist_ok=True)
        # A folder may be copied twice at once, so each copy has links of its own.
        self._links = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=beside))
        try:
            for file in sorted(folder.iterdir()):
                if file.is_file() and not file.name.startswith("."):
                    os.link(file, self._links / file.name)
        except BaseException:
            shutil.rmtree(self._links, ignore_errors=True)
            raise
        sizes = {file.name: file.stat().st_size for file in self._links.iterdir()}
        self._done = CopyDone(self._name, list(present), held_back, sizes)
        self._begun = self._withdrawn = False

    def withdraw(self) -> None:
        """Cancel the copy if it has not begun, because a newer checkpoint will be sent instead."""
        if not self._begun:
            self._withdrawn = True
            shutil.rmtree(self._links, ignore_errors=True)

    def messages(self) -> Iterator[FileChunk | CopyDone | NodeWarning]:
        """Yield the pieces of all files, each read when it is requested, then CopyDone; NodeWarning after an error."""
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
    """The receiver's side of the copies from one sender: it writes the folders into the folder of a run."""

    def __init__(self, run_dir: Path, sender: str) -> None:
        """``sender``: a text that is unique to the sender, for the names of temporary folders."""
        self._run_dir, self._sender = run_dir, sender
        self._hashes: dict[Path, Any] = {}
        """SHA-256 of the received part of each file. Hashing a large file at its end would delay the heartbeats."""

    def take(self, part: FileChunk) -> None:
        """Write a piece of a file; raises OSError, and CopyError if bytes before it are missing."""
        beside = self._beside(part.folder)
        path = beside / part.file
        if path.parent != beside:
            raise CopyError(f"{part.folder}/{part.file}: the file is in a subfolder; copied folders have none")
        beside.mkdir(parents=True, exist_ok=True)
        with path.open("ab" if part.offset else "wb") as file:
            if file.tell() != part.offset:
                raise CopyError(
                    f"{part.folder}/{part.file}: a part begins at byte {part.offset}, but {file.tell()} have arrived"
                )
            if not part.offset:
                self._hashes[path] = hashlib.sha256()
            file.write(part.data)
            self._hashes.setdefault(path, hashlib.sha256()).update(part.data)
            if part.offset // FLUSHED_BYTES < (part.offset + len(part.data)) // FLUSHED_BYTES:
                file.flush()
                os.fdatasync(file.fileno())

    def finish(self, done: CopyDone) -> Path:
        """Check a received folder, move it to the run's checkpoints or films, and return its path.

        Raises OSError or CopyError; the received pieces are then removed.
        """
        beside, folder = self._beside(done.folder), self._run_dir / done.folder
        try:
            for file in self._checked(beside, done):
                flush(beside / file)
            put_in_place(beside, folder)
        except (ValueError, KeyError, TypeError) as error:
            raise CopyError(f"{done.folder} was not received completely: {error}") from None
        finally:
            self.drop(done.folder)
        flush(folder.parent)
        return folder

    def _checked(self, beside: Path, done: CopyDone) -> Collection[str]:
        """Return the names of the received files; raises OSError or ValueError if they are incomplete."""
        if not done.folder.startswith(f"{FILMS}/"):
            hashed = {path.name: self._hashes[path].hexdigest() for path in list(self._hashes) if path.parent == beside}
            files: Collection[str] = read_manifest(beside, hashed=hashed)["files"]
            return files
        arrived = {path.name: path.stat().st_size for path in beside.iterdir()}
        for file, size in done.sizes.items():
            if arrived.get(file) != size:
                raise ValueError(f"{file} has {arrived.get(file, 0):,} of {size:,} bytes")
        return done.sizes

    def drop(self, folder: str) -> None:
        """Remove the received pieces of a folder; raises CopyError if its path is not a checkpoint's or films'."""
        beside = self._beside(folder)
        shutil.rmtree(beside, ignore_errors=True)
        self._hashes = {path: found for path, found in self._hashes.items() if path.parent != beside}

    def remove_older(self, done: CopyDone, kept: Collection[Path]) -> None:
        """Remove the run's checkpoints that the sender no longer has, except those in ``kept``; raises OSError."""
        folder = self._run_dir / done.folder
        for old in folders(folder.parent):
            if old.name not in done.present and old not in kept and old != folder:
                gone = self._beside(f"{old.parent.relative_to(self._run_dir)}/{steps_of(old)}")
                old.rename(gone)  # a half-removed folder must not have a checkpoint's name
                shutil.rmtree(gone, ignore_errors=True)

    def close(self) -> None:
        """Remove the incomplete folders of this sender."""
        remove_unfinished(self._run_dir, self._sender)

    def _beside(self, folder: str) -> Path:
        path = self._run_dir / folder
        if path.parts[len(self._run_dir.parts)] not in (CHECKPOINTS, FILMS) or not path.name.isdecimal():
            raise CopyError(f"{folder} is not the folder of a checkpoint or of films")
        return path.with_name(f"{ARRIVING}-{self._sender}-{path.name}")


def remove_unfinished(run_dir: Path, sender: str = "") -> None:
    """Remove incomplete folders: those of one sender, or by default all, which a killed head may have left.

    By default also remove the hard links of all copies that were being sent, because they keep disk space in use.
    """
    for folder in (CHECKPOINTS, FILMS):
        for left in (run_dir / folder).glob(f"**/{ARRIVING}-{sender and f'{sender}-'}*"):
            shutil.rmtree(left, ignore_errors=True)
    if not sender:
        shutil.rmtree(run_dir / LINKED, ignore_errors=True)


def steps_beside(folder: Path) -> list[str]:
    """Return the names of all checkpoint folders in the parent of ``folder``; empty if they cannot be read."""
    with suppress(OSError):
        return [path.name for path in folder.parent.iterdir() if path.name.isdecimal() and path.is_dir()]
    return []


def name_set(checkpoints: Path, learners: Collection[int], in_step: bool) -> list[Path]:
    """Write ``set.json``, and return the folders that it names; raises OSError.

    They are the newest checkpoint of each learner; in mode sync (``in_step``), the newest one with at most the steps of
    the newest complete checkpoint (`complete_steps`). Without any checkpoint the file is removed.
    """
    saved = {learner: folders(directory_of(checkpoints, learner)) for learner in sorted(learners)}
    if in_step and saved:
        last = next(complete_steps([directory_of(checkpoints, learner) for learner in saved]), -1)
        saved = {learner: [each for each in own if steps_of(each) <= last] for learner, own in saved.items()}
    named = {learner: max(own, key=steps_of) for learner, own in saved.items() if own}
    if named:
        said = {str(learner): str(folder.relative_to(checkpoints)) for learner, folder in named.items()}
        most = max(map(steps_of, named.values()))
        text = json.dumps({"env_steps": most, "checkpoints": said}, indent=1)
        write_atomically(checkpoints / SET_FILE, f"{text}\n".encode(), durable=False)
    else:
        (checkpoints / SET_FILE).unlink(missing_ok=True)
    return list(named.values())
