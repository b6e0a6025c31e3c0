"""Reads the files of topologies and overrides, and finds the topologies that are shipped. Does not parse them."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path

from actorlearn.nearest import nearest
from launch.topology.strict_yaml import MAX_BYTES, fault

_ID = re.compile(r"([\w.]+:)?([\w-]+/)?[\w.-]+-v\d+")
"""Form of an environment's id, such as ALE/Pong-v5. A user may give an id where the path of a file is expected."""
_ENDINGS = (".yaml", ".yml")


def read(path: str) -> bytes:
    """Return at most the first MAX_BYTES + 1 bytes of a regular file.

    Raises TopologyError if the file cannot be read, and at once, without waiting for data, if it is a pipe or a device.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        rule = "topologies, and files of overrides (@FILE), are readable files"
        if isinstance(error, FileNotFoundError) and _ID.fullmatch(path):
            way_out = f"write a file of YAML with env: {{id: {path}}}, or call actorlearn.train({path!r}) in Python"
            raise fault(path, "looks like the id of an environment", rule, way_out) from None
        meant = _meant(path) if isinstance(error, FileNotFoundError) else ""
        way_out = f"did you mean {meant}?" if meant else f"check the path; examples are in {examples()}"
        raise fault(path, str(reason), rule, way_out) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            rule = "a topology is a regular file of YAML"
            raise fault(path, "a folder, pipe or device", rule, "name the file, for example configs/pong.yaml")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)


def _meant(path: str) -> str:
    """Return the file that the user probably meant, for an error message about a missing one; "" if none is similar.

    It is the topology in the same folder with the most similar name, or else the shipped topology of this name.
    """
    asked = Path(path)
    if asked.suffix not in ("", *_ENDINGS):
        return ""
    here = {file.stem: str(file) for file in sorted(asked.parent.glob("*")) if file.suffix in _ENDINGS}
    example = examples() / f"{asked.stem}.yaml"
    return here.get(nearest(asked.stem, here), str(example) if example.is_file() else "")


def examples() -> Path:
    """Return the folder of shipped topologies: ``configs/`` of a checkout, or the one that a wheel has installed."""
    checkout = Path(__file__).resolve().parents[2] / "configs"
    return checkout if checkout.is_dir() else Path(sys.prefix) / "share" / "actorlearn" / "configs"
