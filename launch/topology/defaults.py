"""Defaults of a topology: the values of keys that the file and the command line leave out.

`resolve` takes a raw topology (``keys.py``) and returns it with every missing key filled in. A default comes from the
first of these sources that has one:

1. the number of cores of the machine
2. the network
3. the algorithm, for the finer kind of environments (``FINER`` in ``actorlearn/envs/specs.py``)
4. the algorithm, for the kind of environments that the id determines
5. the kind of environments, then ``DEFAULTS`` in ``actorlearn/envs/specs.py``
6. the algorithm's numbers for the optimizer, or else the optimizer's numbers for the kind of environments
7. the key itself (``schema.py``, and the settings of the other packages)

Values that are present are not changed, even if they are wrong: ``launch/topology/validate.py`` checks them.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec import NODEFAULT

from actorlearn.algorithms.settings import ALGORITHMS, AlgorithmSpec
from actorlearn.envs.specs import DEFAULTS, ENVIRONMENTS, FINER, EnvironmentSpec
from actorlearn.models.specs import MIXED, MODELS
from actorlearn.optim.specs import OPTIMIZERS
from launch.machine.cores import usable_cores
from launch.topology.keys import CHOSEN, Key, keys_of, learns_from_replay, section_of_role, struct_at, with_integers
from launch.topology.schema import LONGEST_NAME, TOPOLOGY, learners_of_a_node

Tree = dict[str, Any]


class Spaces(NamedTuple):
    """The properties of an environment's actions and observations on which defaults depend."""

    like: str = ""
    """Kind of environments whose defaults apply (``FINER`` in ``actorlearn/envs/specs.py``); empty: the id's kind."""
    images: tuple[Tree, ...] = ()
    """Images in an observation of several parts, each an `ImagePart` as plain values; empty if there are none."""


Ask = Callable[[Tree], Spaces]
"""Takes the section ``env`` of a raw topology, and returns the properties of the environment's spaces."""

ALGORITHM = "a2c"
"""Algorithm of a topology that names no algorithm."""
BY_CORES = ("simulators.count", "trainer.threads")
"""Keys whose defaults depend on the number of cores; ``launch/plan/auto.py`` gives the reasons for the values."""
BY_STEP_TIME = frozenset({"algorithm.horizon", "algorithm.batch_steps", "algorithm.minibatches"})
"""If all of these keys are left out, ``launch/plan/pace.py`` chooses shorter rollouts for a slow environment."""

WITHOUT_EFFECT: Mapping[str, tuple[str, ...]] = {
    "evaluator.count": ("every_steps", "scheduling", "stop_at_score", "record"),  # `actorlearn eval` reads the others
    "inference.count": ("device", "threads", "cuda_graphs", "batch_rows", "deadline_ms"),  # simulators read precision
    "inference.batch_rows": ("deadline_ms",),
}
"""Key of a count -> other keys of its section, which have no effect if the count is 0."""


def unasked(env: Tree) -> Spaces:
    """Return no properties, for callers that make no environment; defaults then depend on its id alone."""
    del env
    return Spaces()


def resolve(raw: Tree, ask: Ask = unasked) -> Tree:
    """Return a copy of the raw topology ``raw`` with every missing key filled in.

    A value such as 1e6 becomes an integer if its key takes integers only. Some defaults depend on the cores of this
    machine. ``ask`` is called only if the default of a missing key depends on the environment's spaces.
    """
    resolved: Tree = copy.deepcopy(with_integers(raw))
    env = kind_of(section(resolved, "env").get("id"))
    cores = usable_cores()
    _fill(resolved, {"simulators": _simulators(resolved, env, cores)})
    _fill(resolved, {"algorithm": {"name": ALGORITHM, **_horizon(resolved)}})
    algorithm = _spec(ALGORITHMS, resolved, "algorithm")
    likes = _likes(resolved, env, algorithm, ask) if algorithm else ()
    _fill(resolved, {"model": _mixed(resolved, env, ask)})
    if named := _spec(MODELS, resolved, "model"):
        _fill(resolved, {"model": named.defaults})
    for like in likes:
        _fill(resolved, algorithm.defaults.get(like, {}))
    _fill(resolved, env.defaults)
    _fill(resolved, DEFAULTS)
    if "learning_rate_final" in section(raw, "optimizer"):  # a constant rate has no final one
        _fill(resolved, {"optimizer": {"schedule": "linear"}})
    optimizer = _spec(OPTIMIZERS, resolved, "optimizer")
    if optimizer:
        own = [algorithm.optimizers.get(like, {}).get(optimizer.name) for like in likes]
        numbers = [*filter(None, own), optimizer.defaults.get(env.like, {})]
        _fill(resolved, {"optimizer": numbers[0]})
    served = resolved.get("mode") == "async" and _count(resolved, "nodes") > 1
    _fill(resolved, {"parameter_servers": {"count": int(served)}})
    _fill_everywhere(resolved)
    _leave_out_what_is_not_read(resolved, raw)
    _fill(resolved, {"inference": {"count": 0 if section(resolved, "inference").get("device") == "cpu" else 1}})
    _fill(resolved, {"trainer": {"threads": _trainer_threads(resolved, env, cores)}})
    _fill(resolved, {"name": _name(resolved)})
    return resolved


def kind_of(env_id: object) -> EnvironmentSpec:
    """Return the kind of environments to which an id belongs; gymnasium if no other kind matches."""
    return ENVIRONMENTS.of(env_id if isinstance(env_id, str) else "")


def section(tree: Tree, key: str) -> Tree:
    """Return the mapping under ``key``, or an empty one if the value is not a mapping."""
    found = tree.get(key)
    return found if isinstance(found, dict) else {}


def _spec(registry: Any, tree: Tree, key: str) -> Any:
    """Return the spec that a section names; None if the name is unknown, which validation reports."""
    try:
        return registry.spec(str(section(tree, key).get("name")))
    except ValueError:
        return None


def _likes(tree: Tree, env: EnvironmentSpec, algorithm: AlgorithmSpec, ask: Ask) -> tuple[str, ...]:
    """Return the kinds of environments whose defaults apply, the most specific first: continuous before vector.

    Calls ``ask`` only if a key is missing whose default depends on the spaces of the environment.
    """
    finer = [like for like, whole in FINER.items() if whole == env.like]
    numbers = [algorithm.defaults.get(like, {}) for like in finer]
    numbers += [{"optimizer": keys} for like in finer for keys in algorithm.optimizers.get(like, {}).values()]
    missing = any(key not in section(tree, name) for some in numbers for name, keys in some.items() for key in keys)
    like = ask(section(tree, "env")).like if missing else ""
    return (like, env.like) if like in finer else (env.like,)


def _mixed(tree: Tree, env: EnvironmentSpec, ask: Ask) -> Tree:
    """Return the defaults of section ``model`` for observations that combine images with other parts.

    For other observations, or if the topology names another network than ``MIXED``, returns {}. Calls ``ask`` only if
    the network may be ``MIXED`` and the topology does not give ``model.images``.
    """
    given = section(tree, "model")
    name = given.get("name", "" if "model" in env.defaults else MIXED.name)
    images = ask(section(tree, "env")).images if name == MIXED.name and "images" not in given else ()
    return {"name": name, "images": list(images)} if images else {}


def _fill(tree: Tree, defaults: Mapping[str, Any]) -> None:
    """Add missing keys to ``tree``; never replace a value, so that validation reports a wrong one as written."""
    for key, default in defaults.items():
        if isinstance(default, Mapping):
            inside = tree.setdefault(key, {})
            _fill(inside if isinstance(inside, dict) else {}, default)
        elif key not in tree:
            tree[key] = list(default) if isinstance(default, tuple) else copy.deepcopy(default)


def _fill_everywhere(tree: Tree) -> None:
    """Add the defaults that ``schema.py`` and the settings give to keys that are still missing."""
    for role, keys in section(tree, "roles").items():
        if isinstance(keys, dict):
            with suppress(ValueError):  # validation reports it
                _fill(keys, _defaults_of(keys_of(section_of_role(role))))
    for name, key in keys_of(TOPOLOGY).items():
        if not key.section:
            _fill(tree, {} if key.default is NODEFAULT else {name: key.default})
        elif name != "replay" or learns_from_replay(tree):
            try:
                keys = keys_of(struct_at(name, tree))
            except ValueError:
                continue
            _fill(tree, {name: _defaults_of(keys)})


def _defaults_of(keys: Mapping[str, Key]) -> Tree:
    return {name: key.default for name, key in keys.items() if key.default is not NODEFAULT}


def _leave_out_what_is_not_read(tree: Tree, raw: Tree) -> None:
    """Remove defaults that the environment, network, algorithm or optimizer does not read.

    An example is Atari's ``env.preset`` for another kind of environments.
    """
    for name in CHOSEN:
        try:
            keys = keys_of(struct_at(name, tree))
        except ValueError:
            continue
        for key in section(tree, name).keys() - keys.keys() - section(raw, name).keys():
            del tree[name][key]


def _simulators(tree: Tree, env: EnvironmentSpec, cores: float) -> Tree:
    """Return the default number of a learner's simulators, and of the environments in each.

    The kind of environments sets the number of environments in all (``EnvironmentSpec.environments``). They are divided
    among a power of two of simulators, so that each simulator has the same number. Each learner gets an equal share of
    the environments, and of the cores of its node. Every node is assumed to have as many cores as this machine.

    A fraction of a core from a quota counts as a core: simulators wait for the trainer, and while they step, each has
    a core until the quota is used up. PAAC on two cores with a quota of 1.5 made 2,330 steps/s with two simulators and
    1,650 with one.
    """
    learners = _count(tree, "learners")
    given, here = section(tree, "simulators"), learners_of_a_node(learners, _count(tree, "nodes"))
    count = _positive(given.get("count")) or max(
        power for power in (1, 2, 4, 8) if power <= max(1, min(math.ceil(cores) // here, env.most_simulators))
    )
    groups = _positive(given.get("groups")) or 1
    envs = max(1, env.environments // learners // count)
    return {"count": count, "envs": max(groups, envs // groups * groups)}


def _horizon(tree: Tree) -> Tree:
    """Return the horizon with which a rollout of all environments has ``batch_steps`` steps; {} without that key."""
    steps = _positive(section(tree, "algorithm").get("batch_steps"))
    count, envs = (_positive(section(tree, "simulators").get(key)) for key in ("count", "envs"))
    return {"horizon": max(1, steps // (count * envs))} if steps and count and envs else {}


def _trainer_threads(tree: Tree, env: EnvironmentSpec, cores: float) -> int:
    """Return the default number of a trainer's threads: all whole cores for convolutions, one for small networks.

    Simulators wait during an update, or have little to do while the trainer learns from a replay: on two cores Fast DQN
    made 250 steps/s with two threads, and 188 with one. The fraction of a core from a quota is not used: once the quota
    is spent, all threads wait for the stopped one. PAAC with a quota of 1.5 cores made 1,900 steps/s with two threads
    and 2,330 with one.
    """
    here = learners_of_a_node(_count(tree, "learners"), _count(tree, "nodes"))
    return min(max(1, math.floor(cores) // here), env.most_trainer_threads)


def _count(tree: Tree, key: str) -> int:
    return _positive(section(tree, key).get("count")) or 1


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _name(tree: Tree) -> str:
    """Name the run after its environment and algorithm: ALE/Pong-v5 with a2c is Pong-v5-a2c."""
    parts = [str(section(tree, key).get(field, "")) for key, field in (("env", "id"), ("algorithm", "name"))]
    words = [re.sub(r"[^A-Za-z0-9._-]+", "-", re.split(r"[/:]", part)[-1]).strip("-.") for part in parts]
    return "-".join(word for word in words if word)[:LONGEST_NAME] or "run"
