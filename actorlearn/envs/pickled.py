"""Environments whose class or function is stored in a file, because the processes of a run cannot import it.

Such a class or function is defined in a program or in a cell of a notebook. ``write`` stores it with cloudpickle;
``Pickled`` reads the file and makes the environment. In a topology::

    env:
      id: actorlearn.envs.pickled:Corridor
      kwargs: {file: /…/environment.pickle, sha256: 0f3a…, size: 5}

The name after the colon, here Corridor, is only for people: every name that this module lacks means ``Pickled``. Other
arguments, here ``size``, are passed to the class or function. Reading the file runs its code, so use only files that
you trust.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium

from actorlearn.envs.dm_env import as_gymnasium
from actorlearn.envs.pictures import without_pictures
from actorlearn.files import write_atomically

FILE = "environment.pickle"
"""Name of the file in the folder of a run."""

Maker = Callable[..., Any]


def write(maker: Maker, path: Path) -> str:
    """Store a class or function; returns the SHA-256 of the file.

    Raises OSError, and ValueError if ``maker`` refers to something that cannot be stored.
    """
    try:
        data = cloudpickle.dumps(maker)
    except Exception as error:  # an object's own __reduce__ may raise anything
        raise ValueError(
            f"environment {name_of(maker)}: cannot be sent to other processes: {type(error).__name__}: "
            f"{error}; make the objects that it needs inside the class or function, or move the class or "
            "function to a module and write module:Class"
        ) from error
    write_atomically(path, data)
    return hashlib.sha256(data).hexdigest()


def read(path: Path, sha256: str) -> Maker:
    """Return a stored class or function; raises ValueError if the file is missing, changed or unusable."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"env.kwargs.file: {path}: {error.strerror}; write env.kwargs.file=PATH if the folder was moved"
        ) from None
    if (found := hashlib.sha256(data).hexdigest()) != sha256:
        raise ValueError(
            f"env.kwargs.sha256: {path} has SHA-256 {found[:12]}…, but the topology has {sha256[:12]}…: the file was "
            "changed, so its code is not run; restore the file, or start a new run"
        )
    try:
        maker: Maker = cloudpickle.loads(data)
    except Exception as error:  # it imports modules, and those may raise anything
        raise ValueError(f"{path}: cannot be read: {type(error).__name__}: {error}") from error
    return maker


def name_of(maker: Maker) -> str:
    """Return the name of a class or function as an identifier that means ``Pickled`` in this module.

    A name that is no public identifier, or a name in this module, such as Path, is replaced by ``environment``.
    """
    name = getattr(maker, "__name__", "")
    usable = name.isascii() and name.isidentifier() and not name.startswith("_") and name not in globals()
    return name if usable else "environment"


class Pickled(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Wrapper of the environment that a stored class or function makes; it changes nothing and has no state."""

    def __init__(self, file: str, sha256: str, **kwargs: Any) -> None:
        """Read the class or function in ``file`` and call it with ``kwargs``; raises ValueError if that fails."""
        maker = read(Path(file), sha256)
        kwargs = dict(without_pictures(maker, kwargs))
        made = maker(**kwargs)
        env = as_gymnasium(made, maker, kwargs)
        if env is None:
            raise ValueError(
                f"the environment factory in {file} returned {made!r:.200}; it must return a gymnasium.Env or a "
                "dm_env.Environment"
            )
        super().__init__(env)


def __getattr__(name: str) -> type[Pickled]:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return Pickled
