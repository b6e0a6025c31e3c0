"""The keys of a run's topology that a resume has changed, with their values before and after. Pure.

Topologies are nested mappings, as files have them. A change is a mapping with the values ``was`` and ``is``; one of
them is absent if only one of the topologies has the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actorlearn.envs.specs import STORED_FILE, without_stored_path
from launch.topology.strict_yaml import typed

Tree = Mapping[str, Any]
Changes = Mapping[str, Mapping[str, Any]]
"""section.key -> its change."""

_KWARGS = "env.kwargs"


def flat(topology: Tree) -> dict[str, Any]:
    """Return a topology as a flat mapping from dotted key, such as ``optimizer.name``, to value.

    The path of a stored environment (``actorlearn/envs/pickled.py``) is left out, because the folder of a run may be
    moved; its SHA-256 remains.
    """
    found: dict[str, Any] = {}
    for key, value in topology.items():
        if isinstance(value, Mapping) and key != "roles":  # the keys of roles are names of roles
            found |= {f"{key}.{inner}": item for inner, item in value.items()}
        else:
            found[key] = value
    return without_stored_path(found)


def changes(before: Tree, now: Tree) -> dict[str, dict[str, Any]]:
    """Return the keys in which two topologies differ, with their changes.

    Keys that end in ``.name`` or ``.id`` come first, because other changes may follow from them.
    """
    was, has = flat(before), flat(now)
    keys = [key for key in {**was, **has} if key not in was or key not in has or was[key] != has[key]]
    keys.sort(key=lambda key: not key.endswith((".name", ".id")))
    both = (("was", was), ("is", has))
    return {key: {word: values[key] for word, values in both if key in values} for key in keys}


def undo(topology: Tree, changed: Changes) -> dict[str, Any]:
    """Return a topology as it was before these changes."""
    made = {key: dict(value) if isinstance(value, Mapping) else value for key, value in topology.items()}
    for key, change in changed.items():
        section, dot, own = key.partition(".")
        inside = made.setdefault(section, {}) if dot else made
        if "was" not in change:
            inside.pop(own or section, None)
        elif key == _KWARGS and STORED_FILE in inside.get(own, {}):
            inside[own] = {STORED_FILE: inside[own][STORED_FILE], **change["was"]}
        else:
            inside[own or section] = change["was"]
    return {key: value for key, value in made.items() if value != {} or topology.get(key) == {}}


def changes_task(changed: Mapping[str, Any]) -> bool:
    """Whether a value of section ``env`` was changed, so that scores before and after cannot be compared."""
    return any(key.startswith("env.") for key in _of_both(changed))


def say(changed: Changes) -> str:
    """Return the changes in one line, as in ``seed: 1 → 2``; empty if there are none.

    Keys that only one of the topologies has are left out: they follow from another change, such as that of
    ``algorithm.name``, or from another version of actorlearn.
    """
    both = _of_both(changed)
    return ", ".join(f"{key}: {typed(change['was'])} → {typed(change['is'])}" for key, change in both.items())


def _of_both(changed: Mapping[str, Any]) -> Changes:
    """Return the changes of those keys that both topologies have."""
    return {
        key: change for key, change in changed.items() if isinstance(change, Mapping) and change.keys() >= {"was", "is"}
    }
