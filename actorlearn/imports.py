"""Imports objects that a topology or an entry point names as "package.module:Name".

If an import fails, the error is one line with the reason and a remedy. Importing runs the named code, which is trusted.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import linecache
import re
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from actorlearn.exceptions import in_one_line

_SHARED_DEFAULT = re.compile(r"Using a non-empty mutable collection \((.*)\) as a default value")
"""msgspec's error for a class of settings; it names neither the class nor the field."""
_OF_EXTRA = re.compile(r"""([\w.-]+).*\bextra *== *["']([\w.-]+)""")


OURS = "actorlearn"
"""Distribution that this file is part of."""


def module(name: str, what: str) -> ModuleType:
    """Import a module; raises ValueError if that fails. The text begins with ``what``, which names the part at fault.

    The text also has a remedy, for example the command that installs a missing package.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        root, missing = name.partition(".")[0], error.name
        if not missing:  # raised by a package in its own words, as jax does without jaxlib
            raise ValueError(f"{what}: importing {name!r} fails: {in_one_line(error)}") from error
        if name.endswith(".py") and name.startswith(missing.removesuffix(".py")):
            file = name.rpartition("/")[2]
            right = what.replace(f"{name}:", f"{file.removesuffix('.py')}:")
            raise ValueError(
                f"{what}: a module is named without .py: write {right}, and start actorlearn in the folder of {file}"
            ) from error
        if missing == root and (called := _module_of_distribution(root)):
            raise ValueError(
                f"{what}: no module {root!r} can be imported: the package {root} is installed, and its module is "
                f"called {called}: write {called}{name.removeprefix(root)}"
            ) from error
        if missing == root and (extra := _extra(OURS, __name__, root)):
            raise ValueError(
                f"{what}: no package {root!r} is installed: run `pip install '{OURS}[{extra}]'`, or, if the package is "
                "your own, start actorlearn in its folder or add that folder to PYTHONPATH"
            ) from error
        if missing == root:  # no command: a stranger's package may have this name
            raise ValueError(
                f"{what}: no module {root!r} can be imported: start actorlearn in the folder that has it, or add that "
                "folder to PYTHONPATH; if it is a package, install it"
            ) from error
        if f"{name}.".startswith(f"{missing}."):
            raise ValueError(f"{what}: the package {root} has no module {missing!r}") from error
        raise ValueError(f"{what} needs {missing!r}, which is not installed: {to_install(name, missing)}") from error
    except TypeError as error:
        reason = _shared_default(error) or in_one_line(error)
        raise ValueError(f"{what}: importing {name!r} fails: {reason}") from error
    except KeyboardInterrupt:  # Ctrl-C ends the command; the processes of a run ignore SIGINT
        raise
    except BaseException as error:  # a user's code may raise anything, also SystemExit
        raise ValueError(f"{what}: importing {name!r} fails: {in_one_line(error)}") from error


def attribute(name: str, what: str) -> Any:
    """Import the object "package.module:Name"; raises ValueError as ``module`` does."""
    module_name, _, path = name.partition(":")
    found: Any = module(module_name, what)
    for part in path.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{what}: {module_name} has no {path!r}")
        found = getattr(found, part)
    return found


def is_installed(package: str) -> bool:
    """Whether a package can be imported. A folder without ``__init__.py`` does not count, because it may be data."""
    found = find_spec(package)
    return found is not None and found.origin is not None


def takes(maker: Callable[..., Any], name: str) -> bool:
    """Whether a class or function has an argument of this name."""
    try:
        return name in inspect.signature(maker).parameters
    except (TypeError, ValueError):  # code that is not Python has no signature
        return False


def describe(found: object) -> str:
    """Describe an imported object for an error: "the function f", "the class C", or the ``repr`` of another value.

    A ``repr`` with an address in memory is replaced by "an object of class C".
    """
    if inspect.isclass(found) or inspect.isroutine(found) or inspect.ismodule(found):
        kind = "class" if inspect.isclass(found) else "module" if inspect.ismodule(found) else "function"
        return f"the {kind} {found.__name__}"
    written = f"{found!r:.100}"
    return f"an object of class {type(found).__qualname__}" if " at 0x" in written else written


def _shared_default(error: TypeError) -> str:
    """Explain msgspec's TypeError about a mutable default: the field, the line and a remedy; empty for other errors."""
    refused = _SHARED_DEFAULT.match(str(error))
    trace = error.__traceback__
    if refused is None or trace is None:
        return ""
    while isinstance(trace.tb_next, TracebackType):
        trace = trace.tb_next
    value, file = refused[1], trace.tb_frame.f_code.co_filename
    written = re.compile(rf"\s+(\w+)\s*:.*=\s*{re.escape(value)}")
    fields = filter(None, map(written.match, linecache.getlines(file)[trace.tb_lineno :]))
    field = next((found[1] for found in fields), "a key")
    way_out = f"write field(default_factory=lambda: {value}), with `from msgspec import field`"
    if value.startswith("["):
        inside = f"{value[1:-1]}," if "," not in value else value[1:-1]
        way_out = (
            f"write a tuple, ({inside}), with a type such as tuple[float, ...], or {way_out.removeprefix('write ')}"
        )
    return (
        f"{Path(file).name}:{trace.tb_lineno}: the default of {field} is {value}, which all settings of the class "
        f"would share: a default must not be a list, mapping or set with items; {way_out}"
    )


def to_install(module_name: str, missing: str) -> str:
    """Return advice to install the module ``missing``, which the module ``module_name`` needs.

    The advice is a command that installs an extra of actorlearn, whose versions are known to work, or else an extra of
    the package that needs the module. If no extra has the module, there is no command, because an unrelated package on
    the index may have the module's name.
    """
    root = module_name.partition(".")[0]
    for package in (OURS,) if root == OURS else (OURS, _distribution(root)):
        if extra := _extra(package, module_name, missing):
            return f"`pip install '{package}[{extra}]'`"
    return "install the package that has it"


def _module_of_distribution(name: str) -> str:
    """Return the first module of the installed package of this name; empty if no package has the name."""
    try:
        metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        return ""  # before the metadata of all packages are read, which takes 0.1 s or more
    found = metadata.packages_distributions().items()
    modules = [module for module, packages in found if _plain(name) in map(_plain, packages)]
    return next((module for module in modules if not module.startswith("_")), "")


@functools.cache
def _distribution(root: str) -> str:
    """Return the distribution of a top-level package; reads the metadata of all packages, which takes 0.1 s or more."""
    return next(iter(metadata.packages_distributions().get(root, ())), root)


def _extra(package: str, module_name: str, missing: str) -> str:
    """Return the extra of an installed package that installs the module ``missing``; empty if there is none.

    If several do, an extra that occurs in the name of the importing module ``module_name`` is preferred.
    """
    try:
        needed = [_OF_EXTRA.match(line) for line in metadata.requires(package) or ()]
    except metadata.PackageNotFoundError:
        return ""
    extras = [found[2] for found in needed if found and _plain(found[1]) == _plain(missing)]
    named = [extra for extra in extras if _plain(extra) in _plain(module_name).split("-")]  # gymnasium.envs.mujoco
    return next(iter((*named, *extras)), "")


def own_extra(package: str) -> str:
    """Return the command that installs an optional package: by an extra of actorlearn, or else by its name."""
    extra = _extra(OURS, __name__, package)
    return f"`pip install '{OURS}[{extra}]'`" if extra else f"`pip install {package}`"


def _plain(name: str) -> str:
    """Return a name in the normal form in which package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()
