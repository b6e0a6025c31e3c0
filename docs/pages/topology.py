"""The reference page of topologies, generated from the keys that their structs describe."""

from __future__ import annotations

from typing import Any

from actorlearn.algorithms.settings import ALGORITHMS, AlgorithmSpec
from actorlearn.envs.specs import ENVIRONMENTS, FINER
from docs.pages.markdown import KEY_COLUMNS, kind, summary, table, value
from launch.plan.pace import MOST_SIMULATORS
from launch.topology import defaults
from launch.topology.keys import BASES, CHOSEN, Key, keys_of, structs_of
from launch.topology.schema import TOPOLOGY

_HEAD = """# Topology reference

<!-- generated from the settings by `make pages` -->

A *topology* is the YAML file that describes one training by actorlearn (a *run*): the environment, the network, the
algorithm, and how many processes of each kind the run has. This page lists all keys of a topology.

A topology consists of sections, such as `algorithm`, with keys, such as `algorithm.horizon`. Only the key `env.id` is
required. `actorlearn check FILE --all` prints the value of every key in a topology FILE.

These terms are used in the descriptions of many keys; the [glossary](concepts.md#glossary) defines all terms:

* A *step* is an agent step: one action in one environment.
* A *simulator* is a process that steps environments. A *trainer* is the process that learns, and an *inference server*
  is a process that runs the policy for simulators.
* A *learner* is a trainer with its simulators and inference servers. A run has one learner by default.
* A *rollout* is the steps of all environments of a learner from which its trainer learns together: `algorithm.horizon`
  steps of each environment. This learning is called an *update*.
* The *acting* weights are those that chose an action. They may be some updates older than the weights that learn.

**Defaults.** The column *default* has the defaults with `algorithm.name: a2c`. If it has two values, a / b, then a is
the default for Atari games (ids that start with `ALE/` or `envpool:ALE/`), and b for all other environments. The [last
section](#defaults-by-algorithm) lists the defaults of the other algorithms. A description such as *null = no limit*
says what one value of the key means.

**Headings.** A heading such as `model: mlp` means that the keys below it exist only with `model.name: mlp`. A heading
such as `env: atari` means that they exist only for this kind of environments. `env.id` determines the kind:

| `env.id` begins with | kind |
|---|---|
| `ALE/` | *atari* |
| `envpool:ALE/` | *envpool-atari* |
| `envpool:`, but not `envpool:ALE/` | *envpool* |
| `pettingzoo:` | *pettingzoo* |
| anything else | *gymnasium* |

**Changes.** You can change every key on the command line, which has precedence over the file:

* `section.key=value` changes one key, for example `optimizer.learning_rate=1e-4`.
* `section={key: value, …}` replaces the whole section. Keys that it does not name get their defaults.
* `@FILE` reads changes from a file, one per line.

**Another algorithm than that of the file.** If you give `algorithm.name=ppo` with a file for A2C, the run uses those
keys of the file that PPO has too, such as `algorithm.horizon`. Keys of the file that PPO does not have are ignored, and
`check`, `run` and `top` list them. To get all defaults of PPO, replace the section: `algorithm={name: ppo}`. The same
holds if the command line chooses another network, optimizer, kind of environment or mode.

Apart from these ignored keys, an unknown key is an error, in the file and on the command line.

"""
_BY_ALGORITHM = """
## Defaults by algorithm

The defaults of some keys depend on `algorithm.name` and on the environment. There is one table for each algorithm, with
one column for each group of environments: *atari* for ids that start with `ALE/` or `envpool:ALE/`, *continuous* for
other environments with Box actions, and *vector* for all others. To find out whether an environment has Box actions,
actorlearn makes it once, in a child process, when it reads the topology.

* If a cell is empty, the default in the tables above applies.
* If a table has no column *continuous*, the column *vector* applies to environments with Box actions, too.
* `optimizer.learning_rate (adam)` is the default of `optimizer.learning_rate` if `optimizer.name` is `adam`, and so on.
"""
KINDS = tuple({spec.like: spec.example for spec in reversed(ENVIRONMENTS.specs())}.values())[::-1]
"""An environment of each kind with defaults of its own: they are listed for all of these."""
_EACH = " / ".join(str(ENVIRONMENTS.of(env_id).environments) for env_id in KINDS)
_SIMULATORS = " / ".join(str(ENVIRONMENTS.of(env_id).most_simulators) for env_id in KINDS)
FOLLOWS = {
    "name": "environment and algorithm",
    "env.id": "required",
    "simulators.count": f"one for each core, at most {_SIMULATORS}; {MOST_SIMULATORS} if a step is slow",
    "simulators.envs": f"{_EACH} in all simulators together",
    "inference.count": "`0` with device cpu, else `1`",
    "trainer.threads": "from the machine's cores / `1`",
}
"""Defaults that follow from other keys or from the machine."""


def page() -> str:
    """Return the text of the page: every key with its type and range, its default and what it means."""
    topology = keys_of(TOPOLOGY)
    parts = [_HEAD, _table("", {name: key for name, key in topology.items() if not key.section})]
    for name, key in topology.items():
        if key.section:
            section = BASES[name] if name in CHOSEN else key.section
            parts.append(f"\n## {name}\n\n{summary(section)}\n\n{_table(name, keys_of(section))}")
        if name in CHOSEN:
            for readers, keys in _of_some(name).items():
                parts.append(f"\n### {name}: {', '.join(readers)}\n\n{_table(name, keys, readers[0])}")
    return "".join([*parts, _BY_ALGORITHM, *(_of_algorithm(spec) for spec in ALGORITHMS.specs())])


def _of_some(name: str) -> dict[tuple[str, ...], dict[str, Key]]:
    """Return the keys of a section that only some choices have: choices -> name -> key."""
    structs, shared = structs_of(name), keys_of(BASES[name])
    found: dict[tuple[str, ...], dict[str, Key]] = {}
    for name, key in ((name, key) for struct in structs.values() for name, key in keys_of(struct).items()):
        if name not in shared:
            readers = tuple(chosen for chosen, struct in structs.items() if _alike(keys_of(struct).get(name), key))
            found.setdefault(readers, {})[name] = key
    return found


def _alike(one: Key | None, other: Key) -> bool:
    """Whether two keys take the same values and mean the same, whatever their defaults."""
    return one is not None and (one.kind, one.description) == (other.kind, other.description)


def _table(section: str, keys: dict[str, Key], chosen: str = "") -> str:
    """Return a table of keys; defaults are those of the chosen algorithm, optimizer or network."""
    rows = (
        (f"`{f'{section}.{name}'.strip('.')}`", kind(key.kind), _default(section, name, chosen), key.description)
        for name, key in keys.items()
    )
    return table(KEY_COLUMNS, rows)


def _default(section: str, name: str, chosen: str) -> str:
    """Return a key's default for each kind of environments, as a / b."""
    if where := FOLLOWS.get(f"{section}.{name}".strip(".")):
        return where
    found = []
    for env_id in (ENVIRONMENTS.spec(chosen).example,) if section == "env" and chosen else KINDS:
        raw: dict[str, Any] = {"env": {"id": env_id}, "algorithm": {}}
        raw.setdefault(section if section in CHOSEN else "algorithm", {})
        if chosen and section != "env":
            raw[section]["name"] = chosen
        elif section == "replay":
            raw["algorithm"]["name"] = "dqn"
        tree = defaults.resolve(raw)
        tree = tree.get(section, {}) if section else tree
        found += [value(tree[name])] if name in tree else []
    return " / ".join(dict.fromkeys(found))


def _of_algorithm(spec: AlgorithmSpec) -> str:
    """Return the table of an algorithm's defaults: one row for each key, one column for each kind of environments."""
    columns = {like: _of_kind(spec, like) for like in (ENVIRONMENTS.of(env_id).like for env_id in KINDS)}
    for finer, base in FINER.items():
        if of_finer := _of_kind(spec, finer):
            columns[finer] = columns[base] | of_finer
    keys = dict.fromkeys(key for column in columns.values() for key in column)
    rows = ((f"`{key}`", *(column.get(key, "") for column in columns.values())) for key in keys)
    return f"\n### {spec.name}\n\n{table(('key', *columns), rows)}"


def _of_kind(spec: AlgorithmSpec, like: str) -> dict[str, str]:
    """Return an algorithm's defaults for one kind of environments: key -> value as code."""
    keys = {f"{s}.{k}": v for s, keys in spec.defaults.get(like, {}).items() for k, v in keys.items()}
    for optimizer, numbers in spec.optimizers.get(like, {}).items():
        keys |= {f"optimizer.{k} ({optimizer})": v for k, v in numbers.items()}
    return {key: value(default) for key, default in keys.items()}
