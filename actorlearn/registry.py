"""Registries of plug-ins: algorithms, networks, optimizers, kinds of environments, modes, roles and engines.

Each entry of a registry is described by a spec, which can be read without loading torch. It has the entry's settings,
its requirements on other entries, and the name of the class that implements it. This class is imported when it is
needed. Entries, including the built-in ones, are registered by entry points:

    [project.entry-points."actorlearn.algorithms"]
    my-ppo = "my_package.my_ppo_spec:SPEC"

A topology may also name an unregistered class or spec, as "package.module:Name".

Reads the metadata of installed packages and, in a checkout, ``pyproject.toml``. Imports code by name, which is trusted.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import msgspec
from msgspec import inspect

from actorlearn import imports

CODE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
"""Form in which a topology names a class or spec that is not registered: package.module:Name."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="name"):
    """Base class of the settings of an entry, that is, of the keys of its section in a topology.

    The key ``name`` is the tag (in the sense of msgspec) by which the subclass is chosen.
    """

    @property
    def name(self) -> str:
        """The entry's name in a topology."""
        return str(self.__struct_config__.tag)


SettingsT = TypeVar("SettingsT", bound=Settings)


def tag_settings(settings: type[SettingsT], name: str) -> type[SettingsT]:
    """Return the class of settings with ``name`` as its tag: the class itself, or else a subclass of it."""
    config = settings.__struct_config__
    if config.tag == name:
        return settings
    made = msgspec.defstruct(
        settings.__name__,
        [],
        bases=(settings,),
        module=settings.__module__,
        namespace={"__doc__": settings.__doc__},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
        tag_field=config.tag_field,
        tag=name,
    )
    return cast("type[SettingsT]", made)


@dataclass(frozen=True, kw_only=True)
class PlugIn:
    """Description of an entry of a registry; base class of the specs of all kinds of entries."""

    methods: ClassVar[tuple[str, ...]] = ()
    """Methods that the entry's class must have."""
    described_in: ClassVar[str] = ""
    """The file that documents these methods."""
    name: str
    made_by: str
    """The entry's class, as package.module:Name."""

    def load(self) -> Any:
        """Import the class that ``made_by`` names; raises ValueError if that fails or if the class lacks methods."""
        found = imports.attribute(self.made_by, f"{self.name!r}")
        if not isfunction(found):  # the methods of a function's result are not known before the call
            self.check(found, f"{self.name!r}: {self.made_by}")
        return found

    def check(self, found: Any, what: str, more: Sequence[str] = ()) -> None:
        """Raise ValueError if a class lacks one of ``methods`` or ``more``; ``what`` names the class in the error."""
        if missing := [method for method in (*self.methods, *more) if not callable(getattr(found, method, None))]:
            raise ValueError(f"{what} lacks {', '.join(missing)} ({self.described_in} describes them)")

    @classmethod
    def of(cls, name: str, found: Any, module: ModuleType) -> Self:
        """Make a spec for a class that a topology names directly; raises ValueError if the class is unsuitable.

        ``name`` is package.module:Name, ``found`` the class, and ``module`` the module that has it.
        """
        raise NotImplementedError

    def under(self, name: str) -> Self:
        """Return a copy with another ``name``."""
        return replace(self, name=name)


@dataclass(frozen=True, kw_only=True)
class Spec(PlugIn):
    """Description of an entry that a section of a topology names; the section's other keys are its settings."""

    tag_field: ClassVar[str] = "name"
    """The key of the section that names the entry."""
    settings: type[Settings]

    def __post_init__(self) -> None:
        """Raise ValueError if ``settings`` is of another class, or has a key of a type that YAML cannot express."""
        settings: Any = self.settings
        if not (isinstance(settings, type) and issubclass(settings, Settings)):
            raise ValueError(f"{self.name!r}: its settings must be a subclass of Settings, not {settings!r:.100}")
        described = inspect.type_info(settings)
        assert isinstance(described, inspect.StructType)
        for field in described.fields:
            if isinstance(field.type, inspect.CustomType):
                raise ValueError(
                    f"{self.name!r}: its key {field.name} has type {field.type.cls.__name__}, which no topology can "
                    "contain: use numbers, text, true and false, or lists and mappings of these"
                )

    def under(self, name: str) -> Self:
        """Return a copy with another ``name``, which is also the tag of its settings; itself if nothing changes."""
        settings = tag_settings(self.settings, name)
        named = name == self.name and settings is self.settings
        return self if named else replace(self, name=name, settings=settings)


PlugInT = TypeVar("PlugInT", bound=PlugIn)
SpecT = TypeVar("SpecT", bound=Spec)


def settings_of(found: Any, module: ModuleType, base: type[SettingsT]) -> type[SettingsT]:
    """Return the attribute ``Settings`` of a class, else of its module, else ``base``.

    Raises ValueError if ``Settings`` is not a subclass of ``base``.
    """
    own = getattr(found, "Settings", getattr(module, "Settings", None))
    if own is None:
        return base
    if not (isinstance(own, type) and issubclass(own, base)):
        raise ValueError(f"its Settings must be a subclass of {base.__module__}.{base.__name__}, not {own!r}")
    return own


@dataclass(frozen=True)
class Entry(Generic[PlugInT]):
    """An entry point of a registry: the name of an entry, its spec, and the distribution that registers it."""

    name: str
    value: str
    """The spec, as package.module:NAME."""
    distribution: str
    kind: str
    spec_type: type[PlugInT]

    def load(self) -> PlugInT:
        """Import the spec; raises ValueError if that fails."""
        what = f"{self.kind} {self.name!r} of {self.distribution}"
        found = imports.attribute(self.value, what)
        if not isinstance(found, self.spec_type):
            raise ValueError(f"{what}: {self.value} must be {_a(self.spec_type)}, not {imports.describe(found)}")
        return found.under(self.name)


class PlugIns(Generic[PlugInT]):
    """A registry: the entries of one kind, such as all algorithms."""

    def __init__(self, kind: str, group: str, spec_type: type[PlugInT]) -> None:
        """Make a registry of the entry points in ``group``; ``kind`` is the word for an entry in error messages."""
        self.kind = kind
        self.group = group
        self.spec_type = spec_type
        self._specs: dict[str, PlugInT] = {}

    def names(self) -> tuple[str, ...]:
        """Return the names of all entries, the built-in ones first; loads none."""
        return tuple(self._entries())

    def entries(self) -> tuple[Entry[PlugInT], ...]:
        """Return all entries, the built-in ones first, including those that cannot be loaded."""
        return tuple(self._entries().values())

    def specs(self) -> tuple[PlugInT, ...]:
        """Return the specs of all entries that can be loaded."""
        return tuple(self._loaded())

    def known(self) -> tuple[PlugInT, ...]:
        """Return the specs of all entries that can be loaded, and of the classes that `spec` has found by name."""
        return tuple({spec.name: spec for spec in (*self._loaded(), *self._specs.values())}.values())

    def spec(self, name: str) -> PlugInT:
        """Return the spec of an entry, or of the class that "package.module:Name" names.

        Raises ValueError if there is none or it is unsuitable.
        """
        if name not in self._specs:
            self._specs[name] = self._found(name)
        return self._specs[name]

    def _entries(self) -> dict[str, Entry[PlugInT]]:
        return {
            name: Entry(name, value, distribution, self.kind, self.spec_type)
            for name, (value, distribution) in _points(self.group).items()
        }

    def _loaded(self) -> Iterator[PlugInT]:
        for name in self.names():
            try:
                yield self.spec(name)
            except ValueError:  # a broken package must not hide the others; `actorlearn doctor` reports it
                continue

    def _found(self, name: str) -> PlugInT:
        if entry := self._entries().get(name):
            return entry.load()
        what = f"{self.kind}.name: {name!r}"
        if not CODE.fullmatch(name):
            raise ValueError(f"{what} must be {', '.join(self.names())} or package.module:Name")
        found = imports.attribute(name, what)
        if isinstance(found, self.spec_type):
            return found.under(name)
        if not isinstance(found, type):
            way_out = f"; name the class, or {_a(self.spec_type)} whose made_by is {name!r}" if callable(found) else ""
            raise ValueError(f"{what} must be a class or {_a(self.spec_type)}, not {imports.describe(found)}{way_out}")
        module = imports.module(name.partition(":")[0], what)
        try:
            spec = self.spec_type.of(name, found, module)
            spec.check(found, "it")
        except ValueError as error:
            raise ValueError(f"{what} cannot be used: {error}") from None
        return spec


class Registry(PlugIns[SpecT]):
    """A registry of parts that users choose by name, such as algorithms by ``name: ppo`` in a section of a file."""

    def read(self, section: Mapping[str, Any]) -> Any:
        """Convert a section of a topology to the settings of the entry that it names; raises ValueError."""
        if not isinstance(section, Mapping):
            raise ValueError(f"{self.kind}: {section!r:.100} must be a mapping of keys")
        name = section.get(self.spec_type.tag_field)
        if not isinstance(name, str):
            raise ValueError(
                f"{self.kind}.{self.spec_type.tag_field}: {name!r:.100} must be a string, the name "
                f"of a registered {self.kind}"
            )
        return msgspec.convert(section, self.spec(name).settings)


def open_to(registry: Registry[Any]) -> Any:
    """Return a type for a field of a struct that holds the settings of any entry of a registry.

    A union does not serve, because msgspec must know its members beforehand, and plug-ins are found by name later.
    msgspec treats this type as a custom type, and calls `decode_settings` for its value.
    """
    return _Open(registry.kind, (), {"registry": registry})


class _Open(type):
    """Metaclass of the types that `open_to` returns; their instances are the settings of a registry's entries."""

    registry: Registry[Any]

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Settings)


def decode_settings(kind: type, value: Any) -> Any:
    """Read the settings of an entry; msgspec calls this for the types that `open_to` returns."""
    if not isinstance(kind, _Open):
        raise NotImplementedError(f"unsupported type for a setting: {kind}")
    return kind.registry.read(value)


def _a(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"


@cache
def _points(group: str) -> dict[str, tuple[str, str]]:
    """Return the entry points of a group: name -> (package.module:NAME, distribution).

    If a built-in entry and one of another distribution have the same name, the built-in one is used.
    """
    found = {name: (value, imports.OURS) for name, value in sorted(_of_checkout().get(group, {}).items())}
    in_checkout = bool(found)  # then the metadata of an older installation is ignored
    points = [(_name(point.dist), point) for point in _installed(tuple(sys.path)).select(group=group)]
    for distribution, point in sorted(points, key=lambda each: (each[0] != imports.OURS, each[1].name)):
        if not (in_checkout and distribution == imports.OURS):
            found.setdefault(point.name, (point.value, distribution))
    return found


@cache
def _installed(path: tuple[str, ...]) -> Any:  # EntryPoints; in Python 3.11 another class that has ``select``
    """Return the entry points of all packages; ``path``: sys.path, in whose folders they are installed."""
    del path
    return metadata.entry_points()


@cache  # each call of ``name`` reads the whole metadata
def _name(distribution: metadata.Distribution | None) -> str:
    return distribution.name if distribution else "unknown"


@cache
def _of_checkout() -> Mapping[str, dict[str, str]]:
    """Return group -> name -> package.module:NAME from the ``pyproject.toml`` of a checkout; empty without one."""
    try:
        project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    except (OSError, KeyError, ValueError):
        return {}
    points: dict[str, dict[str, str]] = project.get("entry-points", {}) if project.get("name") == imports.OURS else {}
    return points
