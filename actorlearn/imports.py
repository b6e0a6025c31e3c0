"""Imports objects that a topology or an entry point names as "package.module:Name"; errors are one line long.

Importing runs the named code, which is trusted.
"""

from __future__ import annotations

import functools
import importlib
import re
from importlib import metadata
from types import ModuleType
from typing import Any

_OF_EXTRA = re.compile(r"""([\w.-]+).*\bextra *== *["']([\w.-]+)""")


OURS = "actorlearn"
"""Distribution that this file is part of."""


def module(name: str, what: str) -> ModuleType:
    """Import a module; raises ValueError, whose text begins with ``what``, if that fails."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        root, missing = name.partition(".")[0], error.name or ""
        if missing == root:
            raise ValueError(
                f"{what}: no package {root!r} is installed: run {own_extra(root)}, or, if the package is "
                "your own, start actorlearn in its folder or add that folder to PYTHONPATH"
            ) from error
        if f"{name}.".startswith(f"{missing}."):
            raise ValueError(f"{what}: the package {root} has no module {missing!r}") from error
        raise ValueError(f"{what} needs {missing!r}, which is not installed: {to_install(name, missing)}") from error
    except (Exception, SystemExit) as error:  # a user's code may raise anything, also SystemExit
        raise ValueError(f"{what}: importing {name!r} fails: {type(error).__name__}: {error}") from error


def attribute(name: str, what: str) -> Any:
    """Import the object "package.module:Name"; raises ValueError as ``module`` does."""
    module_name, _, path = name.partition(":")
    found: Any = module(module_name, what)
    for part in path.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{what}: {module_name} has no {path!r}")
        found = getattr(found, part)
    return found


def to_install(module_name: str, missing: str) -> str:
    """Return the command that installs a missing module: by our extra, else its package's extra, else by its name.

    Our extras come first because they pin versions that work.
    """
    root = module_name.partition(".")[0]
    for package in (OURS,) if root == OURS else (OURS, _distribution(root)):
        if extra := _extra(package, module_name, missing):
            return f"`pip install '{package}[{extra}]'`"
    return f"`pip install {missing.partition('.')[0]}`"


@functools.cache
def _distribution(root: str) -> str:
    """Return the distribution of a top-level package; takes 0.1 s or more, as it reads the metadata of all."""
    return next(iter(metadata.packages_distributions().get(root, ())), root)


def _extra(package: str, module_name: str, missing: str) -> str:
    """Return the extra of an installed package that installs a module; empty if there is none."""
    try:
        needed = [_OF_EXTRA.match(line) for line in metadata.requires(package) or ()]
    except metadata.PackageNotFoundError:
        return ""
    extras = [found[2] for found in needed if found and _plain(found[1]) == _plain(missing)]
    named = [extra for extra in extras if _plain(extra) in _plain(module_name).split("-")]  # gymnasium.envs.mujoco
    return next(iter((*named, *extras)), "")


def own_extra(package: str) -> str:
    """Return the command that installs an optional package: by our extra that pins it, else by its name."""
    return to_install(__name__, package)


def _plain(name: str) -> str:
    """Return a name in the normal form in which package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()
