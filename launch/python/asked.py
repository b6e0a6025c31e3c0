"""Converts the arguments of ``train`` and ``start`` into a topology and overrides, like those of the command line.

If the user has not named a file with a topology, one is written into the run's folder. An environment that other
processes cannot import, such as a class in a notebook, is stored there too.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actorlearn.envs import pickled
from actorlearn.envs.specs import STORED, STORED_FILE, STORED_HASH
from actorlearn.files import write_atomically
from launch.errors import RunError
from launch.topology import sources
from launch.topology.defaults import Spaces
from launch.topology.load import Topology, as_text, literal, parse
from launch.topology.overrides import Override
from launch.topology.strict_yaml import ARGUMENT, Origin, TopologyError

GIVEN = "given.yaml"
"""File of the topology in the run's folder, if the caller has named none."""

Maker = Callable[..., Any]
First = str | os.PathLike[str] | Mapping[str, Any] | Maker
"""First argument of ``train`` and ``start``.

It is the id of an environment, the path of a topology, a topology as a mapping, a class of environments, or a function
that makes an environment.
"""

_ALGORITHM = "algorithm.name"
_ID = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Asked:
    """The topology and the overrides of a run that is to be started, from the arguments of ``train`` or ``start``."""

    overrides: tuple[Override, ...]
    path: str = ""
    """Path of the topology; empty: the caller has named no file."""
    given: Mapping[str, Any] | None = None
    """The topology, if it is not in a file."""
    maker: Maker | None = None
    """Class or function that makes the environment, if other processes cannot import it; the topology names it."""

    def check(self) -> Topology:
        """Return the topology if it is valid, else raise TopologyError. This makes no environment.

        The default network depends on the observations, which are not known here. If the topology is invalid for other
        observations, it is checked for observations with several parts, of which one is a made-up image. The run itself
        makes the environment, and checks the topology again.
        """
        text = sources.read(self.path) if self.path else as_text(_plain(self._tree("", "")))
        source = self.path or ARGUMENT
        try:
            return parse(text, self.overrides, source)
        except TopologyError:
            with suppress(TopologyError):
                image = {"start": 0, "shape": [8, 8, 1], "channels_last": True}
                return parse(text, self.overrides, source, lambda _: Spaces(images=(image,)))
            raise

    def write(self, folder: Path) -> str:
        """Return the path of the topology's file; if the caller has named none, write one into the run's folder.

        Raises ValueError if the class or function of the environment cannot be stored.
        """
        if self.path:
            return self.path
        file = folder.absolute() / pickled.FILE
        sha256 = pickled.write(self.maker, file) if self.maker is not None else ""
        write_atomically(folder / GIVEN, as_text(_plain(self._tree(str(file), sha256))).encode())
        return str(folder / GIVEN)

    def _tree(self, file: str, sha256: str) -> Mapping[str, Any]:
        if self.maker is None:
            return self.given or {}
        name = f"{STORED}{pickled.name_of(self.maker)}"
        return {"env": {"id": name, "kwargs": {STORED_FILE: file, STORED_HASH: sha256}}}


def read(first: First, algorithm: str | None, keys: Mapping[str, Any]) -> Asked:
    """Return the arguments of ``train`` or ``start``, converted; ``first``: environment or topology.

    Raises RunError if ``first`` has no type in ``First``, if two different algorithms are given, or if a callback is
    given as a key.
    """
    stored = _maker(first)
    changes = {**({} if algorithm is None else {_ALGORITHM: algorithm}), **keys}
    if algorithm not in (None, changes.get(_ALGORITHM)):
        raise RunError(
            f"algorithm={algorithm!r} and {_ALGORITHM!r}: {keys[_ALGORITHM]!r}: given twice; leave one of the two out"
        )
    if given := [name for name in changes if re.fullmatch(r"(on_.*|callbacks?)", name)]:
        raise RunError(
            f"{given[0]} is no argument of this function; give functions that are called during the run to train or "
            "Run.wait, as on_report, on_evaluation or on_checkpoint"
        )
    found = overrides(changes)
    if stored is not None:
        return Asked(found, maker=stored)
    if isinstance(first, Mapping):
        return Asked(found, given=first)
    if isinstance(first, os.PathLike) or (isinstance(first, str) and first.endswith((".yaml", ".yml"))):
        return Asked(found, path=os.fspath(first))
    return Asked(found, given={"env": {"id": first if isinstance(first, str) else _name(first)}})


def overrides(changes: Mapping[str, Any]) -> tuple[Override, ...]:
    """Return the overrides for changes, dotted key -> value; None becomes null."""
    return tuple(Override(f"{key}={literal(_plain(value))}", Origin(ARGUMENT)) for key, value in changes.items())


def _maker(first: object) -> Maker | None:
    """Return ``first`` if it makes environments and other processes cannot import it, so that it is stored; else None.

    Raises RunError for an environment object, and for a value that names no environment.
    """
    if isinstance(first, str | os.PathLike | Mapping):
        return None
    if not isinstance(first, type) and callable(getattr(first, "step", None)):
        env_id = getattr(getattr(first, "spec", None), "id", "")
        way_out = f"its class, or a function, for example lambda: {type(first).__name__}(...)"
        if env_id:
            way_out = f'its id "{env_id}", or a function, for example lambda: gymnasium.make("{env_id}")'
        raise RunError(
            f"{type(first).__name__} is an environment that has been made; simulators make their own: give {way_out}"
        )
    if not callable(first):
        raise RunError(
            f"{first!r:.100} names no environment; give a gymnasium id, a path of a topology that ends in .yaml, a "
            "dict, a class of environments or a function that makes one"
        )
    return None if isinstance(first, type) and _name(first) else first


def _name(found: object) -> str:
    """Return module:Class for a class that other processes can import; else ""."""
    module, name = getattr(found, "__module__", ""), getattr(found, "__qualname__", "")
    home = sys.modules.get(module)
    importable = module != "__main__" and getattr(home, "__spec__", None) is not None
    word = f"{module}:{name}"
    return word if importable and getattr(home, name, None) is found and _ID.fullmatch(word) else ""


def _plain(value: Any) -> Any:
    """Return a value with types that YAML has: numbers and arrays of numpy, tuples and paths are converted."""
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value
