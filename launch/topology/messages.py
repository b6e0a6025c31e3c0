"""Turns what pydantic found wrong in a topology into one line: place, key = value, rule, way out.

Reads pydantic's error list, the values as the user gave them, where each stood, and the defaults. Raises nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from launch.topology.fields import nearest
from launch.topology.schema import Topology
from launch.topology.strict_yaml import MAX_SHOWN, Path, TopologyError, fault, short, show

TYPES = {
    "int_type": "an integer",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
}
USUAL_NAMES = {
    "lr": "optimizer.learning_rate",
    "gamma": "algorithm.discount",
    "gae_lam": "algorithm.gae_lambda",
    "lam": "algorithm.gae_lambda",
    "ent_coef": "algorithm.entropy_cost",
    "vf_coef": "algorithm.value_cost",
    "clip_range": "algorithm.ratio_clip",
    "max_grad_norm": "optimizer.clip_norm",
    "n_steps": "algorithm.horizon",
    "num_steps": "algorithm.horizon",
    "rollout": "algorithm.horizon",
    "n_envs": "simulators.envs",
    "num_envs": "simulators.envs",
    "num_workers": "simulators.count",
    "buffer_size": "replay.capacity_steps",
    "learning_starts": "replay.learning_starts_steps",
    "target_update_interval": "algorithm.target_every_steps",
    "total_timesteps": "total_steps",
    "env_id": "env.id",
}
"""What other programs call our keys."""
RANGES = {"greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"}
LENGTHS = {"too_short", "too_long"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value was given: a file's line, or the command line."""

    source: str
    line: int = 0
    over: bool = False
    """Whether it stands in place of a file's value, which is forgotten: left out, it would not be the default."""

    def __str__(self) -> str:
        """Write as file:line."""
        return f"{self.source}:{self.line}" if self.line else self.source


def explain(error: ValidationError, places: dict[Path, Place], defaults: dict[str, Any]) -> TopologyError:
    """Write the first problem as one line and count the others; first is: command line, then top of the file down."""
    problems = [_located(details) for details in error.errors(include_url=False)]
    problems.sort(key=lambda found: _order(found[0], places))
    path, details = problems[0]
    given = place(path, places)
    rule, way_out = _rule(path, details, {} if given.over else defaults)
    if len(problems) > 1:
        way_out += f" (and {len(problems) - 1} more)"
    value = "is missing" if details["type"] == "missing" else f"= {show(details['input'])}"
    return fault(str(given), f"{dotted(path)} {value}", rule, way_out)


def place(path: Path, places: dict[Path, Place]) -> Place:
    """Return where a key, or the nearest section around it, was given."""
    return next(places[path[:end]] for end in range(len(path), -1, -1) if path[:end] in places)


def dotted(path: Path) -> str:
    """Write a path as simulators.count or optimizer.betas[1]."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return short("".join(parts)[1:]) or "topology"


def field_at(path: Path) -> FieldInfo | None:
    """Return the field a path names; for a list item, the list's."""
    owner: Any = Topology
    found = None
    for part in path:
        if isinstance(part, int) or not (isinstance(owner, type) and issubclass(owner, BaseModel)):
            break
        found = owner.model_fields.get(part)
        owner = found.annotation if found else None
    return found


def type_at(path: Path) -> Any:
    """Return the type of what a path names, items of lists included; None where nothing is known of it."""
    owner: Any = Topology
    for part in path:
        if isinstance(part, int):
            owner = next(iter(get_args(owner)), None)
        else:
            field = owner.model_fields.get(part) if _is_section(owner) else None
            owner = field.annotation if field else None
    return owner


def is_mapping(path: Path) -> bool:
    """Say whether keys stand below a path: those of a section, or arguments of somebody else's code."""
    found = type_at(path)
    return _is_section(found) or get_origin(found) is dict


def _is_section(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, BaseModel)


def leaves() -> list[str]:
    """List every dotted key of a topology."""
    keys = []
    for name, field in Topology.model_fields.items():
        section: Any = field.annotation
        inside = section.model_fields if _is_section(section) else None
        keys += [f"{name}.{inner}" for inner in inside] if inside else [name]
    return keys


def unknown_key(path: Path) -> tuple[str, str]:
    """Return rule and way out for a key that does not exist, naming the nearest that does."""
    parent = path[:-1]
    owner = type_at(parent)
    siblings = list(owner.model_fields) if _is_section(owner) else []
    where = f"section {dotted(parent)}" if parent else "a topology"
    word = str(path[-1])[:MAX_SHOWN]
    closest = nearest(word, siblings)
    if closest:
        return f"{where} has no key {show(word)}", f"did you mean {dotted((*parent, closest))}?"
    if elsewhere := _elsewhere(word):
        return f"{where} has no key {show(word)}", f"did you mean {elsewhere}?"
    return f"{where} has no key {show(word)}", f"remove it; the keys are {', '.join(siblings)}"


def _elsewhere(word: str) -> str:
    """Return the key of any section that this word stands for, or is closest to; or nothing."""
    keys = {leaf.rpartition(".")[2]: leaf for leaf in reversed(leaves())}  # of several the first
    return USUAL_NAMES.get(word) or keys.get(nearest(word, keys), "")


def _located(details: Any) -> tuple[Path, Any]:
    """Return the path of a problem; our own rules about several fields name the one to blame."""
    blamed = details.get("ctx", {}).get("key", "")
    path: Path = (*details["loc"], *blamed.split(".")) if blamed else tuple(details["loc"])
    if blamed:
        value = details["input"]
        for part in blamed.split("."):
            value = value[part] if isinstance(value, dict) else getattr(value, part)
        details = {**details, "input": value}
    return path, details


def _order(path: Path, places: dict[Path, Place]) -> int:
    return place(path, places).line


def _rule(path: Path, details: Any, defaults: dict[str, Any]) -> tuple[str, str]:
    """Return rule and way out of one problem."""
    kind, context, value = details["type"], details.get("ctx", {}), details["input"]
    field = field_at(path)
    if kind == "rule":
        return context["rule"], context["way_out"]
    if kind == "extra_forbidden":
        return unknown_key(path)
    if kind in {"model_type", "model_attributes_type", "dict_type"}:
        inside = _keys_of(path)
        if get_origin(type_at(path)) is dict:
            return "must be a mapping of arguments", "write for example {size: 6}, or leave the key out"
        word = f"{value:.64}" if isinstance(value, str) and inside[0] in ("id", "name") else "..."
        return f"must be a mapping with keys {', '.join(inside)}", f"write for example {{{inside[0]}: {word}}}"
    if kind == "missing" and len(path) > 2:
        return f"{dotted(path[:-1])} needs it ({field.description if field else ''})", f"write {{{path[-1]}: ...}}"
    if kind == "missing":
        return "every topology names its environment", "add env: {id: ALE/Pong-v5}, or another gymnasium id"
    if kind in TYPES:
        unit = f" ({field.description})" if field and field.description else ""
        return f"must be {TYPES[kind]}{unit}", _retype(kind, value, path, defaults)
    if kind in RANGES:
        return f"must be {interval(details, path)}", f"write a number in that range{_default(path, defaults)}"
    return _rule_of_choice(kind, context, value, _default(path, defaults))


def _rule_of_choice(kind: str, context: dict[str, Any], value: object, default: str) -> tuple[str, str]:
    """Return rule and way out for lists of the wrong length and words that are none of a few."""
    if kind in LENGTHS:
        bound = context.get("min_length") if kind == "too_short" else context.get("max_length")
        word = "at least" if kind == "too_short" else "at most"
        return f"must have {word} {bound} items", f"write a list of that length{default}"
    if kind == "literal_error":
        words = re.findall(r"'([^']+)'", context["expected"])
        closest = nearest(str(value)[:MAX_SHOWN], words)
        return f"must be {' or '.join(words)}", f"did you mean {closest}?" if closest else f"write {words[0]}{default}"
    return kind.replace("_", " "), f"correct it{default}"


def _keys_of(path: Path) -> list[str]:
    owner = type_at(path)
    return list(owner.model_fields) if _is_section(owner) else ["..."]


def interval(details: Any, path: Path) -> str:
    """Write the whole range of a number, not only the bound it broke."""
    field = field_at(path)
    metadata = field.metadata if field else []
    if path and isinstance(path[-1], int) and field:  # an item of a list: the range stands on the item's type
        metadata = [bound for outer in get_args(get_args(field.annotation)[0])[1:] for bound in outer.metadata]
    words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    bounds = {name: getattr(bound, name) for bound in metadata for name in words if hasattr(bound, name)}
    bounds = bounds or {name: bound for name, bound in details.get("ctx", {}).items() if name in words}
    return " and ".join(f"{words[k]} {number(v)}" for k, v in bounds.items()) or "a finite number"


def number(value: float) -> str:
    """Write a number as topologies do, 250_000; a float so that YAML 1.1 readers see a float too, 1.0e-05."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}"
    text = json.dumps(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text and isinstance(value, float) else text


def _default(path: Path, defaults: dict[str, Any]) -> str:
    value: Any = defaults
    for part in path:
        if isinstance(part, int) or not isinstance(value, dict) or part not in value:
            return ""
        value = value[part]
    return f", or leave the key out for the default {number(value) if isinstance(value, int | float) else show(value)}"


def _retype(kind: str, value: object, path: Path, defaults: dict[str, Any]) -> str:
    """Say how to write what was probably meant."""
    if value is None:
        return f"write a value after it{_default(path, defaults)}"
    if kind == "int_type" and isinstance(value, float) and value.is_integer():
        return f"write {number(int(value))}"
    if isinstance(value, str) and kind in {"int_type", "float_type"} and re.fullmatch(r"[-+]?[0-9_.]+", value):
        return f"write it without quotes, thousands split as in 250_000{_default(path, defaults)}"
    if kind == "bool_type":
        return f"write true or false without quotes{_default(path, defaults)}"
    if kind == "string_type":
        return f"write a word, quoted if it looks like a number{_default(path, defaults)}"
    if kind == "list_type":
        return f"write for example [64, 64]{_default(path, defaults)}"
    example = "a whole number such as 8" if kind == "int_type" else "a number such as 0.5"
    return f"write {example}{_default(path, defaults)}"
