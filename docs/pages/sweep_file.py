"""The reference page of sweep files, generated from the keys that their structs describe."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import NODEFAULT

from docs.pages.markdown import KEY_COLUMNS, kind, summary, table, value
from launch.sweeps.axes import DIGITS
from launch.sweeps.keys import OWN, SECTIONS, SweepKeys
from launch.topology.keys import Key, keys_of

_HEAD = f"""# Sweep file reference

<!-- generated from the settings by `make pages` -->

A *topology* is the YAML file that describes one training (a *run*). A sweep trains one topology with different values
of its keys and with several seeds. A **trial** is one choice of values; it has a run for each seed. Another YAML file,
the *sweep file*, describes the sweep. The name of the sweep is that of this file without `.yaml`.

This page lists all keys of a sweep file. [Sweeps](sweeps.md) describes how to use them, the searches, and the rule that
ends trials early.

Only the key `topology` is required. An unknown key is an error, and so is a value that the topology does not allow.

`overrides` and `vary` contain keys of the [topology](topology.md) as they are written on the command line, such as
`optimizer.learning_rate`. They cannot contain {", ".join(f"`{key}`" for key in OWN)}, which the sweep sets itself.
Numbers that the sweep draws from a range are rounded to {DIGITS} significant digits, or to more if the range is narrow.

"""


def page() -> str:
    """Return the text of the page: every key with its type and range, its default and what it means."""
    goal = keys_of(SweepKeys)["goal"].section
    assert goal is not None
    parts = [_HEAD, _table("", SweepKeys), f"\n## goal\n\n{summary(goal)}\n\n{_table('goal', goal)}"]
    for section, structs in SECTIONS.items():
        for name, struct in structs.items():
            parts.append(f"\n## {section}: {name}\n\n{summary(struct)}\n\n{_table(section, struct)}")
    return "".join(parts)


def _table(section: str, struct: type[msgspec.Struct]) -> str:
    tag = f"`{struct.__struct_config__.tag}`"
    return table(KEY_COLUMNS, (_row(section, name, key, tag) for name, key in keys_of(struct).items()))


def _row(section: str, name: str, key: Key, tag: str) -> tuple[str, ...]:
    kinds = "mapping, see below" if key.section else tag if name == "name" else kind(key.kind)
    default = "" if key.default is NODEFAULT else _default(key.default)
    meaning = key.description or ("the number by which trials are compared" if name == "goal" else "name of the method")
    return f"`{f'{section}.{name}'.strip('.')}`", kinds, default, meaning


def _default(default: Any) -> str:
    plain = msgspec.to_builtins(default)
    if isinstance(plain, dict):
        return f"`{{{', '.join(f'{key}: {each}' for key, each in plain.items())}}}`"
    return value(plain)
