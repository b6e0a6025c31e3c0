"""Key files, with which nodes of a run on several machines connect to its head.

==================  ======  ==========================================================================================
in the folder       mode    content
==================  ======  ==========================================================================================
``head.key``        0600    the head's secret key; never leaves the head's machine
``nodes/NAME.pub``  0644    the public key that may connect as NAME; revoked by removing the file
``NAME.key``        0600    the secret key of node NAME and the head's public key; you move it to that node's machine
==================  ======  ==========================================================================================

The head is the machine with the run's folder; nodes are the other machines. Each line of a file is a word and a value;
keys are 64 hexadecimal digits. A file with a secret key is refused if other users may read it, and the list of public
keys is refused if other users may change it. Files are never overwritten. Secret keys appear in no error, name or
``repr``.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from actorlearn.wire.channel import new_pair
from actorlearn.wire.door import KEY_BYTES, NAME, ClientKeys, Pair, ServerKeys

HEAD_FILE = "head.key"
LIST_FOLDER = "nodes"
LIST_AGAIN_S = 1.0
"""Seconds after which the list of keys is read again, so that added and revoked keys take effect."""
_LIMIT_BYTES = 4096
_OTHERS_READ, _OTHERS_WRITE = 0o077, 0o022
_NAME_RULE = "a node's name is 1 to 64 letters, digits, dots, dashes or underscores, and not head"


class KeysError(ValueError):
    """Keys cannot be made or used; the text has the value, the rule and a remedy."""


class NodeKeys(NamedTuple):
    """A node's key file: the name under which the head lists it, and the keys with which it connects."""

    name: str
    keys: ClientKeys


class AllowList:
    """The list of public keys that may connect, with their names, read from a folder whose files may change."""

    def __init__(self, folder: Path) -> None:
        """Read the folder; raises KeysError if its list cannot be used."""
        self._folder = folder
        self._names = read_list(folder)
        self._read_s = time.monotonic()

    def __call__(self, public: bytes) -> str | None:
        """Return the name of a key, or None if it may not connect.

        If the list has become unreadable, the keys that were read last stay valid.
        """
        if time.monotonic() - self._read_s >= LIST_AGAIN_S:
            with suppress(KeysError, OSError):
                self._names = read_list(self._folder)
            self._read_s = time.monotonic()
        return self._names.get(public)


def make_keys(folder: Path, names: Iterable[str]) -> list[Path]:
    """Make a key file for each node in ``names``, and that of the head if there is none yet.

    Returns the files that you move to the nodes. Raises KeysError, before any file is made, if a name is invalid,
    occurs twice or has a key already.
    """
    wanted = list(names)
    head, listed = folder / HEAD_FILE, folder / LIST_FOLDER
    for name in wanted:
        if not NAME.fullmatch(name) or f"{name}.key" == HEAD_FILE:
            raise KeysError(f"{name!a:.100}: {_NAME_RULE}; for example node-1")
        if wanted.count(name) > 1 or any(path.exists() for path in (folder / f"{name}.key", listed / f"{name}.pub")):
            raise KeysError(
                f"{name}: this node has a key in {folder} already; use another name, or revoke the key first"
            )
    if not wanted and head.exists():
        raise KeysError(f"{head}: the file exists and is never overwritten; add nodes with --node NAME")
    listed.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(folder.stat().st_mode & ~_OTHERS_WRITE)
    if not head.exists():
        pair = new_pair()
        _write(head, {"public": pair.public, "secret": pair.secret}, 0o600)
    server = _read_pair(head).public
    made = []
    for name in wanted:
        pair, file = new_pair(), folder / f"{name}.key"
        _write(file, {"name": name, "public": pair.public, "secret": pair.secret, "head": server}, 0o600)
        _write(listed / f"{name}.pub", {"public": pair.public}, 0o644)
        made.append(file)
    return made


def server_keys(folder: Path) -> ServerKeys:
    """Read the head's keys and its list of nodes from a folder of `make_keys`; raises KeysError if that fails."""
    return ServerKeys(_read_pair(folder / HEAD_FILE), AllowList(folder / LIST_FOLDER))


def node_keys(file: Path) -> NodeKeys:
    """Read a node's key file; raises KeysError if that fails."""
    said = _read(file, _OTHERS_READ)
    name = said.get("name", "")
    if not NAME.fullmatch(name):
        raise KeysError(
            f"{file}: the file names no node; use the file NAME.key made by `actorlearn keys new --node NAME`"
        )
    return NodeKeys(name, ClientKeys(_pair(file, said), _key(file, said, "head")))


def read_list(folder: Path) -> dict[bytes, str]:
    """Return the public keys that may connect, as key -> name; raises KeysError if the list cannot be used."""
    try:
        mode = folder.stat().st_mode
        files = sorted(folder.glob("*.pub"))
    except OSError as error:
        raise KeysError(f"{folder}: {error.strerror}; make it with `actorlearn keys new {folder.parent}`") from None
    if mode & _OTHERS_WRITE:
        raise KeysError(
            f"{folder}: other users may add keys to it (mode {stat.S_IMODE(mode):04o}); run chmod 700 {folder}"
        )
    names: dict[bytes, str] = {}
    for file in files:
        key = _key(file, _read(file, _OTHERS_WRITE), "public")
        if not NAME.fullmatch(file.stem):
            raise KeysError(f"{file}: {_NAME_RULE}; rename or remove the file")
        if key in names:
            raise KeysError(f"{file}: has the key of {names[key]}; each node needs its own, so remove the file")
        names[key] = file.stem
    return names


def revoke(folder: Path, name: str) -> None:
    """Remove a node's public key from the list, and its key file, as far as they are still in the folder.

    Raises KeysError for an unknown name.
    """
    files = folder / LIST_FOLDER / f"{name}.pub", folder / f"{name}.key"
    if not NAME.fullmatch(name) or files[1].name == HEAD_FILE or not any(file.exists() for file in files):
        raise KeysError(
            f"{name!a:.100}: this node has no key in {folder}; `actorlearn keys list {folder}` lists the nodes"
        )
    for file in files:
        file.unlink(missing_ok=True)


def _write(file: Path, said: Mapping[str, str | bytes], mode: int) -> None:
    """Make a key file with this mode; raises OSError with its name if it exists."""
    lines = [f"{word} {value if isinstance(value, str) else value.hex()}\n" for word, value in said.items()]
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(handle, "w") as out:
        out.writelines(lines)
        out.flush()
        os.fsync(handle)


def _read(file: Path, forbidden: int) -> dict[str, str]:
    """Return the words and values in a key file; raises KeysError if its mode has any of the ``forbidden`` bits."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise KeysError(
            f"{file}: {error.strerror}; make keys with `actorlearn keys new`, or give the path of a key file"
        ) from None
    try:
        found = os.fstat(handle)
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISREG(found.st_mode):
            raise KeysError(f"{file}: is not a regular file; give the path of a file that `actorlearn keys new` made")
        if mode & forbidden:
            done = "read" if forbidden == _OTHERS_READ else "change"
            raise KeysError(
                f"{file}: other users may {done} it (mode {mode:04o}); run chmod {mode & ~forbidden:o} {file}"
            )
        text = os.read(handle, _LIMIT_BYTES).decode("ascii", "replace")
    finally:
        os.close(handle)
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)


def _read_pair(file: Path) -> Pair:
    return _pair(file, _read(file, _OTHERS_READ))


def _pair(file: Path, said: Mapping[str, str]) -> Pair:
    return Pair(_key(file, said, "public"), _key(file, said, "secret"))


def _key(file: Path, said: Mapping[str, str], word: str) -> bytes:
    """Return the key after the word ``word`` in a key file; raises KeysError, without the value, if it is not valid."""
    try:
        key = bytes.fromhex(said.get(word, ""))
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise KeysError(f"{file}: has no {word} key of {2 * KEY_BYTES} hexadecimal digits; make the file again")
    return key
