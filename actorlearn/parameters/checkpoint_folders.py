"""The manifest of a checkpoint, and the choice of the checkpoint from which a run continues.

A checkpoint is the folder ``<directory>/<env_steps>/``; ``checkpoint.py`` reads and writes its tensors. This module
never loads torch, so that the supervisor can choose the same checkpoint as the trainer.

The manifest has the size and SHA-256 of every other file, and the SHA-256 of its own preceding text. A checkpoint is
damaged if any bit has changed, or if a file was truncated, added or removed. An older checkpoint is then used, with a
warning. If only the checkpoint of step 0 is valid among several, that is an error: a run never starts from the
beginning because of damage.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from actorlearn.files import flush, write_atomically
from actorlearn.parameters.modes import ModeSpec

FORMAT = 2
"""Format of the manifests that are written and read."""
_MANIFEST = "manifest.json"
TENSORS = "tensors.safetensors"
"""File of a checkpoint with all its tensors."""
_BEFORE = ".before"
_STAND_IN = re.compile(rf"\.[0-9]+{re.escape(_BEFORE)}")
_CHUNK_BYTES = 16 << 20
LOOKS = 5
"""Number of attempts to read a checkpoint. A running trainer may replace or remove it during an attempt."""
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)

Beat = Callable[[], object]


def silent() -> None:
    """Do nothing. It is the default for ``beat``, which long operations call to show that the process does not hang."""


class CheckpointError(RuntimeError):
    """There is no valid checkpoint from which to continue."""


@dataclass(frozen=True)
class Found:
    """A valid checkpoint to continue from, and a list of newer checkpoints that are damaged."""

    path: Path
    state: dict[str, Any]
    """Plain values from the manifest."""
    damaged: tuple[tuple[str, str], ...] = ()
    """Newer checkpoints that are damaged: (folder, description of the damage)."""
    identity: tuple[int, int] | None = None
    """Result of `identity` for the folder when it was read; None if it need not be checked for replacement."""

    @property
    def env_steps(self) -> int:
        """Environment steps at which the checkpoint was saved."""
        return steps_of(self.path)

    def warnings(self) -> list[str]:
        """Return a warning for each newer checkpoint that is damaged, with a description of the damage."""
        return [f"{newer} is damaged, so {short(self.path)} is used instead: {wrong}" for newer, wrong in self.damaged]


def seal(folder: Path, env_steps: int, state: Mapping[str, Any], beat: Beat = silent) -> None:
    """Flush the files of a new checkpoint to disk, and write its manifest; raises OSError.

    ``beat`` is called repeatedly while files are hashed.
    """
    files = {}
    for path in sorted(path for path in folder.iterdir() if not path.name.startswith(".")):
        flush(path)
        files[path.name] = {"bytes": path.stat().st_size, "sha256": _sha256(path, beat)}
    manifest = {"format": FORMAT, "env_steps": env_steps, "files": files, "state": dict(state)}
    text = json.dumps(manifest, indent=1).removesuffix("\n}").encode()
    write_atomically(folder / _MANIFEST, text + _last_line(text))


def read_manifest(folder: Path, beat: Beat = silent, hashed: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Check the files of a checkpoint against its manifest, and return the manifest.

    Raises ValueError or OSError if they differ. ``hashed`` has the SHA-256 of files by name; these are not read.
    """
    manifest = _manifest((folder / _MANIFEST).read_bytes())
    for name, listed in manifest["files"].items():
        path = folder / Path(name).name
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size != listed["bytes"]:
            raise ValueError(f"{name} has {found.st_size} bytes, but the manifest says {listed['bytes']}")
        if (digest := (hashed or {}).get(name) or _sha256(path, beat)) != listed["sha256"]:
            raise ValueError(f"{name} has sha256 {digest[:12]}…, but the manifest says {listed['sha256'][:12]}…")
    # Hidden files belong to other programs, for example NFS or file managers.
    named = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    if strange := named - {_MANIFEST, *manifest["files"]}:
        raise ValueError(f"it contains {', '.join(sorted(strange))}, which its manifest does not list")
    if not isinstance(manifest["state"], dict):
        raise ValueError(f"its state must be a mapping, not {manifest['state']!r:.60}")
    return manifest


def read_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a checkpoint by name, without reading the tensors.

    Raises ValueError or OSError.
    """
    try:
        with safe_open(folder / TENSORS, "numpy") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{folder / TENSORS}: {error!s:.500}") from None


def find_at(folder: Path, beat: Beat = silent) -> Found:
    """Return the checkpoint in a folder; raises ValueError or OSError if it is damaged."""
    seen = identity(folder)
    manifest = read_manifest(folder, beat)
    if manifest["env_steps"] != steps_of(folder):
        raise ValueError(f"its manifest has {manifest['env_steps']} steps, so the folder was renamed")
    return Found(folder, manifest["state"], identity=seen)


def newest(*directories: Path, beat: Beat = silent, among: Collection[int] = ()) -> Found:
    """Return the newest valid checkpoint in these directories: that of the most steps.

    Of several with equal steps, it is the one with the most changes of shared weights (`Exchange.shared_changes`), and
    of several such ones that of the first directory. Learners in mode async may leave with equal counts and different
    weights, because each counts local steps that others have not merged yet.

    If ``among`` is not empty, only checkpoints of these steps are considered. Raises CheckpointError if none is valid,
    or if only that of step 0 is valid although there are later ones. The error describes the damage of each checkpoint.
    """
    for _ in range(LOOKS):
        found: Found | None = None
        wrong: dict[Path, str] = {}
        seen: dict[Path, tuple[int, int] | None] = {}
        those = [f for d in directories for f in folders(d) if not among or steps_of(f) in among]
        for folder in _newest_first(those):
            seen[folder] = identity(folder)
            try:
                damaged = tuple((short(f), damage) for f, damage in wrong.items())
                found = replace(find_at(folder, beat), damaged=damaged)
                break
            except _DAMAGE as error:
                wrong[folder] = f"{error!s:.500}"  # cut, because the error may quote what was read
        if all(identity(folder) == seen[folder] for folder in wrong):
            break
    what = "; ".join(f"{short(folder)}: {damage}" for folder, damage in wrong.items()) or "none found"
    where = " and ".join(map(str, directories))
    if found is None:
        raise CheckpointError(f"{where}: no valid checkpoint ({what}); restore one from a copy, or start a new run")
    if not found.env_steps and any(steps_of(folder) for folder in wrong):
        raise CheckpointError(
            f"{where}: only the checkpoint of step 0 is valid ({what}), and a run never starts over by "
            "itself; restore a later one from a copy, or remove the damaged ones to start at step 0"
        )
    return found


def newest_state(directory: Path) -> tuple[int, dict[str, Any]]:
    """Return steps and state of the newest checkpoint whose manifest is undamaged; (0, {}) if there is none.

    The checkpoint's other files are not compared with the manifest, because that may take minutes.
    """
    return _first_state(sorted(folders(directory), key=steps_of, reverse=True))


def nearest_state(directory: Path, env_steps: int) -> tuple[int, dict[str, Any]]:
    """Do as `newest_state`, but for the checkpoint whose steps are nearest to ``env_steps``."""
    return _first_state(sorted(folders(directory), key=lambda folder: abs(steps_of(folder) - env_steps)))


def _first_state(ordered: Sequence[Path]) -> tuple[int, dict[str, Any]]:
    for folder in ordered:
        with suppress(*_DAMAGE):
            return steps_of(folder), dict(_manifest((folder / _MANIFEST).read_bytes())["state"])
    return 0, {}


def choose_to_resume(root: Path, learner: int, mode: ModeSpec, beat: Beat = silent) -> tuple[Found, Found]:
    """Return two checkpoints: the one from which a learner continues, and the one whose weights it takes.

    They differ only in mode async: there the weights come from the newest checkpoint of any learner. Learners in mode
    sync continue from the newest complete checkpoint (`complete_steps`), if there is one; a learner that is not in it
    continues from an earlier one, and takes the others' weights when it joins them. A learner may also begin from the
    first learner's (`begins_from_first`). If all checkpoints of a learner are damaged, it continues from another
    learner's, provided that in this mode the weights survive the death of a trainer (``ModeSpec.outlived``). Raises
    CheckpointError if no checkpoint is valid.
    """
    own = root if begins_from_first(root, learner, mode) else directory_of(root, learner)
    others = [directory for directory in directories(root).values() if directory != own]
    weights = newest(own, *others, beat=beat) if mode.central else None
    if mode.in_step and (complete := {*complete_steps([own, *others])} - {0}):
        with suppress(CheckpointError):
            return (mine := newest(own, beat=beat, among=complete)), mine
    try:
        mine = newest(own, beat=beat) if weights is None or weights.path.parent != own else weights
    except CheckpointError as error:
        if not mode.outlived:
            raise
        weights = weights or newest(*others, beat=beat)
        mine = replace(weights, damaged=(*weights.damaged, (own.name, str(error))))
    return mine, weights or mine


def begins_from_first(root: Path, learner: int, mode: ModeSpec) -> bool:
    """Whether a learner continues from the first learner's checkpoints because it has none, or has learned nothing.

    A learner that was attached to the run saves its initial weights at step 0. If it continued with them while the
    first learner continues with trained ones, others would mix its untrained weights with theirs.
    """
    own = directory_of(root, learner)
    return own != root and (not folders(own) or (mode.elastic and _learned(root) and not _learned(own)))


def _learned(directory: Path) -> bool:
    """Whether a directory has a checkpoint of a later step than 0."""
    return any(steps_of(folder) for folder in folders(directory))


def find_common(directories: Sequence[Path]) -> list[Found] | None:
    """Return the newest valid checkpoints of equal steps, one in each directory; None if there are none.

    Learners in mode sync continue exactly from these. There are none if some learners went on without others. Those of
    step 0 are returned only if they are the only common ones, and no learner has more than two checkpoints. A run thus
    never starts from the beginning because of damaged checkpoints.
    """
    common = find_common_steps(directories)
    before_all_saved = common == {0} and all(len(folders(d)) <= 2 for d in directories)
    for steps in complete_steps(directories):
        if steps not in common or (steps == 0 and not before_all_saved):
            return None
        with suppress(*_DAMAGE):
            own = [next(folder for folder in folders(d) if steps_of(folder) == steps) for d in directories]
            return [find_at(folder) for folder in own]
    return None


def complete_steps(directories: Sequence[Path]) -> Iterator[int]:
    """Yield the steps of the complete checkpoints of learners in mode sync, newest first.

    A checkpoint names the learners that had learned together (``learners`` in its state), without those that were lost
    before. It is complete if all learners that it names have it, or if all learners in ``directories`` have it.
    """
    own = {learner_of(directory): {steps_of(each): each for each in folders(directory)} for directory in directories}
    for steps in sorted(set().union(*own.values()), reverse=True):
        having = {learner: there[steps] for learner, there in own.items() if steps in there}
        if len(having) == len(own):
            yield steps
            continue
        with suppress(*_DAMAGE):  # also if an earlier version of actorlearn saved it, which named no learners
            learners = _manifest((next(iter(having.values())) / _MANIFEST).read_bytes())["state"]["learners"]
            if learners and having.keys() >= {*learners}:
                yield steps


def find_common_steps(directories: Sequence[Path]) -> set[int]:
    """Return the steps at which every directory has a checkpoint."""
    return set.intersection(*({steps_of(folder) for folder in folders(d)} for d in directories))


def directory_of(root: Path, learner: int) -> Path:
    """Return the directory in which a learner saves; the first learner saves in ``root`` itself."""
    return root / f"learner-{learner}" if learner else root


def learner_of(directory: Path) -> int:
    """Return the number of the learner that saves in a directory; the inverse of `directory_of`."""
    name = directory.name
    return int(name.removeprefix("learner-")) if re.fullmatch(r"learner-[0-9]+", name) else 0


def directories(root: Path) -> dict[int, Path]:
    """Return the directories in which learners have saved, by learner; the first learner's comes first."""
    names = (path.name.removeprefix("learner-") for path in root.glob("learner-*"))
    return {number: directory_of(root, number) for number in sorted({0, *map(int, filter(str.isdecimal, names))})}


def learners_so_far(root: Path) -> int:
    """Return one more than the highest number of a learner that has saved."""
    return 1 + max(directories(root))


def folders(directory: Path) -> list[Path]:
    """Return the folders of all finished checkpoints, in no order."""
    if not directory.is_dir():
        return []
    there = {path.name: path for path in directory.iterdir() if path.is_dir()}
    finished = [path for name, path in there.items() if name.isascii() and name.isdecimal()]
    # Some file systems cannot exchange two paths. There, a process that was killed between two renames leaves the
    # previous checkpoint under a stand-in name.
    names = {path.name for path in finished}
    before = [
        path for name, path in there.items() if _STAND_IN.fullmatch(name) and name[1 : -len(_BEFORE)] not in names
    ]
    return finished + before


def short(folder: Path) -> str:
    """Return a checkpoint's name with that of the folder above it, for messages."""
    return f"{folder.parent.name}/{folder.name}"


def identity(folder: Path) -> tuple[int, int] | None:
    """Return inode and modification time of a folder, which change if it is replaced; None if it is missing."""
    with suppress(OSError):
        found = folder.stat()
        return found.st_ino, found.st_mtime_ns  # the inode alone may be reused at once
    return None


def steps_of(folder: Path) -> int:
    """Return the number of environment steps that a checkpoint's name contains."""
    return int(folder.name.removeprefix(".").removesuffix(_BEFORE))


def _newest_first(found: Iterable[Path]) -> Iterator[Path]:
    """Yield folders of checkpoints by steps and, if several have the same, by changes of shared weights."""
    for _, equal in groupby(sorted(found, key=steps_of, reverse=True), key=steps_of):
        yield from sorted(equal, key=_shared_changes, reverse=True)


def _shared_changes(folder: Path) -> float:
    """Return the number of changes of shared weights in a checkpoint; infinity if its manifest is damaged.

    A damaged checkpoint thus comes first among those of equal steps, and the user is warned of it.
    """
    with suppress(*_DAMAGE):
        changes = _manifest((folder / _MANIFEST).read_bytes())["state"].get("shared_changes", 0)
        return changes if isinstance(changes, int) else 0  # earlier versions of actorlearn saved none
    return float("inf")


def _manifest(data: bytes) -> dict[str, Any]:
    """Parse a manifest; raises ValueError if it is damaged, or if another version of actorlearn has written it."""
    cut = data.rfind(b',\n "sha256"')
    if cut < 0 or data[cut:] != _last_line(data[:cut]):
        raise ValueError(f"{_MANIFEST} is damaged: it does not match its own hash")
    manifest: dict[str, Any] = json.loads(data)
    if manifest["format"] != FORMAT:
        raise ValueError(f"its manifest has format {manifest['format']}, and this version reads format {FORMAT}")
    return manifest


def _last_line(text: bytes) -> bytes:
    """Return the last line of a manifest, which has the hash of the preceding ``text``."""
    return f',\n "sha256": "{hashlib.sha256(text).hexdigest()}"\n}}\n'.encode()


def _sha256(path: Path, beat: Beat) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            beat()
    return digest.hexdigest()
