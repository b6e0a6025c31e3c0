"""``actorlearn keys``: makes, lists and revokes the keys with which nodes connect to the head of a run.

A head is the supervisor of a run on several machines.
"""

from __future__ import annotations

import json as json_format
from pathlib import Path

from actorlearn.wire.keys import HEAD_FILE, LIST_FOLDER, make_keys, read_list, revoke


def new(folder: Path, names: list[str]) -> int:
    """Make a key for each node name, and the head's key if there is none; print where to move each file.

    Return the exit status.
    """
    first = not (folder / HEAD_FILE).exists()
    made = make_keys(folder, names)
    if first:
        print(f"{folder / HEAD_FILE}: the secret key of the head; leave it on the head's machine")
    for file in made:
        print(f"{file}: move it to node {file.stem}, e.g. scp -p {file} {file.stem}: && rm {file}")
    if not made:
        print(f"no node can connect yet: add some with `actorlearn keys new --node NAME {folder}`")
    return 0


def show(folder: Path, json: bool) -> int:
    """List the nodes whose keys may connect; return the exit status."""
    names = {name: key.hex() for key, name in read_list(folder / LIST_FOLDER).items()}
    here = [name for name in names if (folder / f"{name}.key").exists()]
    if json:
        print(json_format.dumps({"nodes": names, "secrets_here": here}))
        return 0
    for name, key in names.items():
        print(f"{name:<20} {key}{'  its secret key is still here: move it' if name in here else ''}")
    if not names:
        print(f"no node can connect; add some with `actorlearn keys new --node NAME {folder}`")
    return 0


def take_back(folder: Path, name: str) -> int:
    """Revoke a node's key; return the exit status."""
    revoke(folder, name)
    print(f"{name}: revoked; a running head refuses this node within a second")
    return 0
