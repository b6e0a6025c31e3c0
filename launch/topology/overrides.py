"""Overrides: ``section.key=value`` replaces a value of the topology's file.

An override that changes a choice (algorithm, network, optimizer, kind of environment, mode), or that sets a count to 0,
may make keys of the file unused. Such keys are left out and reported with the reason. A key in an override is never
left out: it is refused if nothing reads it. A key of the file that the file's own choice does not read is refused too.
An override of a learning rate alone changes the file's final learning rate in proportion, which is reported too.
To replace a whole section, write all of it: ``algorithm={name: ppo}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from actorlearn.envs.specs import STORED, STORED_FILE, STORED_HASH
from actorlearn.parameters.modes import MODES, ModeSpec
from launch.topology import sources, strict_yaml
from launch.topology.defaults import WITHOUT_EFFECT, Tree, resolve, section
from launch.topology.keys import CHOSEN, choice_key, key_at, keys_of, learns_from_replay, struct_at
from launch.topology.schema import TOPOLOGY
from launch.topology.strict_yaml import COMMAND_LINE, Origin, Path, TopologyError, fault, show
from launch.topology.validate import dotted, nearest_key, no_such_key, origin

_ARGUMENTS, _FILE = ("env", "kwargs"), (STORED_FILE, STORED_HASH)
"""Key of an environment's arguments, and the arguments that name the file of a stored environment."""


class Override(NamedTuple):
    """An override of one key, with the place where it was given, so that error messages can name it."""

    text: str
    """``section.key=value``."""
    origin: Origin = Origin(COMMAND_LINE)


def expand(overrides: Sequence[str | Override]) -> list[Override]:
    """Return the overrides, with each text ``@FILE`` replaced by the overrides in that file.

    The file has one override a line; lines that begin with # are comments.
    """
    found: list[Override] = []
    for override in overrides:
        if isinstance(override, str) and override.startswith("@"):
            file = override[1:]
            lines = map(str.strip, sources.read(file).decode(errors="replace").splitlines())
            numbered = enumerate(lines, start=1)
            found += [Override(line, Origin(file, at)) for at, line in numbered if line and not line.startswith("#")]
        else:
            found += placed([override])
    return found


def placed(overrides: Sequence[str | Override]) -> list[Override]:
    """Return each override as an `Override`; those that are plain text come from the command line."""
    return [override if isinstance(override, Override) else Override(override) for override in overrides]


def apply(override: Override, raw: Tree, origins: dict[Path, Origin], others: Sequence[Override] = ()) -> None:
    """Set the key of an override in the raw mapping, and record its origin; raises TopologyError.

    ``others``: all overrides; they may name the algorithm, on which the error for an unknown key depends.
    """
    place, shown = str(override.origin), show(override.text)
    dotted_key, equals, text = override.text.partition("=")
    path: Path = tuple(dotted_key.strip().split("."))
    if not equals or "" in path:
        raise fault(place, shown, "an override is key=value", "write for example env.time_limit_steps=500")
    for end in range(1, min(2, len(path)) + 1):
        known = key_at(path[:end])
        if known is None and end == 2 and path[0] in CHOSEN:  # an unregistered class may have it
            break
        if known is None:
            struct = TOPOLOGY if end == 1 else keys_of(TOPOLOGY)[str(path[0])].section
            siblings = keys_of(struct) if struct else ()
            way_out = nearest_key(path[:end], siblings, _with_algorithm(raw, others))
            raise fault(place, shown, no_such_key(path[:end]), way_out)
        if len(path) > end and not known.is_mapping:
            rule = f"{dotted(path[:-1])} is one value, not a section"
            raise fault(place, shown, rule, f"write {dotted(path[:-1])}=VALUE")
    if len(path) > strict_yaml.MAX_DEPTH:
        rule = f"{len(path)} levels: values nest at most {strict_yaml.MAX_DEPTH} deep"
        raise fault(place, shown, rule, "use fewer levels")
    value = strict_yaml.read(text, f"{place}, {shown}").value
    target = raw
    for depth, part in enumerate(path[:-1], start=1):
        target = target.setdefault(str(part), {})
        if not isinstance(target, dict) and depth <= 2:  # a broken section of the file: validation reports it
            return
        if not isinstance(target, dict):
            rule = f"{dotted(path[:depth])} is {show(target)}, not a mapping"
            raise fault(place, shown, rule, f"write {dotted(path[:depth])}={{...}}")
    stored = str(section(raw, "env").get("id")).startswith(STORED)  # the environment is in a file (``envs/pickled.py``)
    if path == _ARGUMENTS and isinstance(value, dict) and stored:
        value = {name: found for name, found in section(target, "kwargs").items() if name in _FILE} | value
    target[str(path[-1])] = value
    stale = [found for found in origins if found[: len(path)] == path]
    for found in stale:
        del origins[found]
    origins[path] = replace(override.origin, override=True, over=bool(stale))


def _with_algorithm(raw: Tree, overrides: Sequence[Override]) -> Tree:
    """Apply the overrides of the algorithm to ``raw``, and return the topology with the defaults for it."""
    for override in overrides:
        if override.text.lstrip().startswith("algorithm"):
            with suppress(TopologyError):
                apply(override, raw, {})
    return resolve(raw)


def leave_out_unread(raw: Tree, before: Tree, origins: dict[Path, Origin]) -> dict[str, str]:
    """Remove keys of the file from ``raw`` that overrides have made unused; return key -> reason.

    ``before`` is the topology in the file, resolved; ``raw`` is the raw topology with the overrides applied.
    """
    found = {}
    for name, key, why in _without_reader(before, resolve(raw)):
        if key in section(raw, name) and not origin((name, key), origins).override:
            del raw[name][key]
            found[f"{name}.{key}"] = why
    if any(key.startswith("replay.") for key in found):
        if left := raw["replay"]:  # keys of overrides, which validation refuses
            origins[("replay",)] = origin(("replay", next(iter(left))), origins)
        else:
            del raw["replay"]
    return found


def keep_proportions(raw: Tree, before: Tree, origins: dict[Path, Origin]) -> dict[str, float]:
    """Scale the file's final learning rates if only their learning rates are overridden; return key -> new value.

    The schedule keeps its form: a constant rate stays constant, and a rate that falls to a tenth still falls to a
    tenth. Arguments are as for ``leave_out_unread``.
    """
    changed = {}
    groups = [name for name, group in section(section(raw, "optimizer"), "groups").items() if isinstance(group, dict)]
    for path in (("optimizer",), *(("optimizer", "groups", name) for name in groups)):
        rate, final = (*path, "learning_rate"), (*path, "learning_rate_final")
        if not origin(rate, origins).override or origin(final, origins).override:
            continue
        numbers = [_at(before, rate) or _at(before, ("optimizer", "learning_rate")), _at(raw, rate), _at(raw, final)]
        if all(isinstance(number, int | float) for number in numbers) and numbers[0] > 0:
            old, new, old_final = numbers
            _section_at(raw, path)["learning_rate_final"] = changed[".".join(final)] = new * (old_final / old)
    return changed


def _section_at(tree: Tree, path: tuple[str, ...]) -> Tree:
    for part in path:
        tree = section(tree, part)
    return tree


def _at(tree: Tree, path: tuple[str, ...]) -> Any:
    return _section_at(tree, path[:-1]).get(path[-1])


def _without_reader(before: Tree, after: Tree) -> Iterator[tuple[str, str, str]]:
    """Yield section, key and reason for each key that has an effect in topology ``before``, and none in ``after``."""
    for name in CHOSEN:
        try:
            had, has = (keys_of(struct_at(name, tree)) for tree in (before, after))
        except ValueError:  # the choice does not exist; validation reports it
            continue
        by = choice_key(name)
        yield from ((name, key, f"{after[name][by]} does not read it") for key in had if key not in has)
    if learns_from_replay(before) and not learns_from_replay(after):
        yield from (
            ("replay", key, f"{after['algorithm']['name']} does not learn from a replay") for key in before["replay"]
        )
    for count, keys in WITHOUT_EFFECT.items():
        name, _, key = count.partition(".")
        if section(before, name).get(key) and section(after, name).get(key) == 0:
            yield from ((name, unread, f"{count} is 0") for unread in keys)
    schedules = [section(tree, "optimizer").get("schedule") for tree in (before, after)]
    if schedules[1] == "constant" != schedules[0]:
        yield "optimizer", "learning_rate_final", "optimizer.schedule is constant"
    was, now = _mode(before), _mode(after)
    if was and now:
        for dotted_key in sorted(key for key in MODES.keys if now.unread(key) and not was.unread(key)):
            name, _, key = dotted_key.partition(".")
            yield name, key, f"learners in mode {now.asked_as} do not read it"


def _mode(tree: Tree) -> ModeSpec | None:
    count, servers = (section(tree, name).get("count") for name in ("learners", "parameter_servers"))
    try:
        return MODES.asked_for(
            str(tree.get("mode")),
            count if isinstance(count, int) else 1,
            servers if isinstance(servers, int) else 0,
        )
    except ValueError:
        return None
