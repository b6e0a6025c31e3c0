"""Correct topologies: defaults, overrides, dumps, and the keys of the schema."""

from __future__ import annotations

import json
import keyword
import re
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from actorlearn.algorithms.settings import ALGORITHMS
from actorlearn.metrics.specs import WRITERS
from actorlearn.parameters import published
from actorlearn.parameters.modes import MODES
from actorlearn.parameters.settings import GossipSettings, LearnersSettings
from launch.topology import defaults, strict_yaml
from launch.topology.defaults import WITHOUT_EFFECT, resolve
from launch.topology.keys import CHOSEN, key_at, keys_of, structs_of
from launch.topology.load import TopologyError, dump, load, parse, tree
from launch.topology.schema import TOPOLOGY, SupervisionSection
from launch.topology.strict_yaml import MAX_FAULTS
from tests.examples import examples
from tests.sizes import ROOT

INSTALLED_WRITERS = [spec.name for spec in WRITERS.specs() if all(find_spec(package) for package in spec.needs)]
PONG = "env: {id: ALE/Pong-v5}\nmodel: {name: nips}\nalgorithm: {name: a2c}\n"
CARTPOLE = "env: {id: CartPole-v1}\nmodel: {name: mlp}\nalgorithm: {name: a2c}\n"

fractions = st.floats(0, 1, exclude_max=True, allow_nan=False)
positive = st.floats(1e-12, 1e3, allow_nan=False)
code = st.from_regex(r"[a-z]{1,8}(\.[a-z_]{1,8}){0,2}:[A-Z][a-z]{0,8}", fullmatch=True)
words = st.sampled_from(["on", "off", "yes", "no", "null", "true", "12", "1_000", "1e5", "0777", "-", "~", ".5", "0x1"])
plain = (
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(-1e9, 1e9)
    | words
    | st.text("äb: #'", max_size=4)
)
nested = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
arguments = st.dictionaries(
    st.from_regex(r"[a-z_]{1,8}", fullmatch=True).filter(lambda name: not keyword.iskeyword(name)), nested, max_size=2
)


def values(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Any value that a key's type allows."""
    if isinstance(kind, inspect.Metadata):
        return values(kind.type)
    if isinstance(kind, inspect.UnionType):
        return st.one_of(*map(values, kind.types))
    if isinstance(kind, inspect.LiteralType):
        return st.sampled_from(kind.values)
    if isinstance(kind, inspect.IntType):
        return st.integers(kind.ge, kind.le)
    if isinstance(kind, inspect.FloatType):
        least, most = (kind.ge if kind.gt is None else kind.gt), (kind.le if kind.lt is None else kind.lt)
        return st.floats(least, most, exclude_min=kind.gt is not None, exclude_max=kind.lt is not None)
    if isinstance(kind, inspect.TupleType):
        return st.tuples(*map(values, kind.item_types)).map(list)
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return st.lists(values(kind.item_type), min_size=kind.min_length or 0, max_size=3)
    if isinstance(kind, inspect.StructType):
        return section(kind.cls)
    if isinstance(kind, inspect.DictType) and isinstance(kind.value_type, inspect.StructType):
        return st.dictionaries(st.sampled_from(["actor", "critic_1"]), values(kind.value_type))
    return {inspect.BoolType: st.booleans(), inspect.NoneType: st.none(), inspect.DictType: arguments}.get(
        type(kind), code
    )


@cache
def section(struct: type[msgspec.Struct]) -> st.SearchStrategy[dict[str, Any]]:
    """Any section with these keys, every key given."""
    return st.fixed_dictionaries({name: values(key.kind) for name, key in keys_of(struct).items()})


@st.composite
def topologies(draw: st.DrawFn) -> dict[str, Any]:
    """Any topology the rules allow, every key given."""
    count, groups = draw(st.integers(1, 1024)), draw(st.integers(1, 16))
    device = st.sampled_from(["cpu", "cuda", "cuda:0", "cuda:17"])
    names = st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True).filter(lambda name: name not in {".", ".."})
    ids = {
        "atari": st.just("ALE/Pong-v5"),
        "envpool": st.just("envpool:CartPole-v1"),
        "envpool-atari": st.just("envpool:ALE/Pong-v5"),
        "gymnasium": st.sampled_from(["CartPole-v1", "yes", "0777", "1e5"]) | code,
        "pettingzoo": st.just("pettingzoo:mpe2.simple_spread_v3"),
    }
    names_of_graphs = key_at(("gossip", "graph")).kind.types[0].values
    graphs = st.sampled_from(names_of_graphs) | st.just([[n] for n in (*range(1, 64), 0)])
    special: dict[str, dict[str, st.SearchStrategy[Any]]] = {
        "algorithm": {"batch_steps": st.none()},
        "gossip": {"graph": graphs, "experience_graph": graphs},
        "simulators": {
            "count": st.just(count),
            "envs": st.integers(1, 4096 // groups).map(lambda n: n * groups),
            "groups": st.just(groups),
        },
        "inference": {"count": st.integers(0, count), "batch_rows": st.just(0), "device": device},
        "evaluator": {"count": st.just(1), "record": st.just(False)},  # to stop at a score; PyAV may not be installed
        "trainer": {"device": device},
        "report": {"writers": st.lists(st.sampled_from(INSTALLED_WRITERS), max_size=3)},
        "supervision": {
            name: st.floats(1000, 3600) if "_spin" in name or name.startswith("longest") else st.floats(2, 1000)
            for name, key in keys_of(SupervisionSection).items()
            if isinstance(key.kind, inspect.FloatType)
        },
    }
    tree: dict[str, Any] = {}
    for name, key in keys_of(TOPOLOGY).items():
        if name in CHOSEN:
            chosen = draw(st.sampled_from([*structs_of(name)]))
            tree[name] = draw(section(structs_of(name)[chosen]))
            tree[name] |= {"id": draw(ids[chosen])} if name == "env" else {"name": chosen}
        else:
            tree[name] = draw(section(key.section) if key.section else values(key.kind))
        if name == "roles":  # none is installed
            tree[name] = {}
        for inner, strategy in special.get(name, {}).items():
            tree[name][inner] = draw(strategy)
    return tree | {"name": draw(names | words.filter(lambda word: word != "~"))}


def keys_of_servers(tree: dict[str, Any]) -> dict[str, Any]:
    """Return the section of parameter servers, after making it and the sections that it depends on fit together."""
    servers: dict[str, Any] = tree["parameter_servers"]
    learners = tree["learners"]
    if tree["mode"] != "async":
        servers["count"] = 0
    if servers["count"]:
        learners |= {"local_steps": 1, "chunks": 3, "quorum": min(learners["quorum"], learners["count"])}
    else:
        servers["wire"] = "float32"
        tree["nodes"]["count"] = 1 if tree["mode"] == "async" else tree["nodes"]["count"]
    return servers


def keys_of_absent_processes(tree: dict[str, Any]) -> None:
    """Set keys that nothing reads to their defaults."""
    usual = resolve({"env": {"id": tree["env"]["id"]}, "algorithm": {"name": tree["algorithm"]["name"]}})
    for count, unread in WITHOUT_EFFECT.items():
        section, _, name = count.partition(".")
        if not tree[section][name]:
            tree[section] |= {key: usual[section][key] for key in unread}


def schedule_with_an_end(tree: dict[str, Any]) -> None:
    """Remove final values that a constant rate ignores, end the warm-up early, and unset target_kl in mode sync."""
    optimizer = tree["optimizer"]
    if optimizer["schedule"] == "constant":
        optimizer["learning_rate_final"] = 0.0
        for group in optimizer["groups"].values():
            group["learning_rate_final"] = None
    optimizer["warmup_steps"] = min(optimizer["warmup_steps"], (tree["schedule_steps"] or tree["total_steps"]) - 1)
    if tree["mode"] == "sync" and "target_kl" in tree["algorithm"]:
        tree["algorithm"]["target_kl"] = None


def as_the_rules_want(tree: dict[str, Any]) -> dict[str, Any]:
    """Return the tree with its keys changed where rules about several keys require it."""
    algorithm = tree["algorithm"]
    if ALGORITHMS.spec(algorithm["name"]).replayed:
        tree["model"] |= {"recurrence": "none", "normalize_observation": False}
        algorithm |= {"horizon": 1, "n_step": 3, **({"epsilon_final": 1.0} if "epsilon_final" in algorithm else {})}
        tree["replay"] |= {"capacity_steps": 10**9, "learning_starts_steps": 10**9}
        tree["replay"] |= {"sequence_steps": 1, "burn_in_steps": 0, "sequence_every": 1}
        tree["simulators"]["weights"] = "newest"
        if tree["mode"] != "sync" or tree["learners"]["count"] > 1:
            tree["replay"]["secondary_batch_size"] = 0
    else:
        tree["model"]["noisy"] = 0.0
        algorithm["minibatches"] = min(algorithm["minibatches"], tree["simulators"]["count"])
        del tree["replay"]
    tree["model"]["statistics_rows"] = 7 if tree["model"]["normalize_observation"] else None
    by_ratio = ALGORITHMS.spec(algorithm["name"]).by_ratio
    tree["optimizer"]["sample_size_scaling"] = "sqrt" if by_ratio else "none"
    schedule_with_an_end(tree)
    if tree["env"]["id"].startswith("envpool:ALE/"):
        tree["evaluator"]["noop_max"] = max(tree["evaluator"]["noop_max"], 1)
    if ALGORITHMS.spec(algorithm["name"]).unit_actions and "scale_actions" in tree["env"]:
        tree["env"]["scale_actions"] = True
    if "value_max" in algorithm:
        algorithm |= {"value_min": -1.0, "value_max": 1.0}
    if not tree["evaluator"]["count"]:
        tree["evaluator"]["stop_at_score"] = None
    keys_of_absent_processes(tree)
    if "preset" not in tree["env"]:
        tree["evaluator"]["fire_after"] = 0
    servers, learners = keys_of_servers(tree), tree["learners"]
    if tree["simulators"]["weights"] == "rollout":
        tree["simulators"]["blocks"] = min(tree["simulators"]["blocks"], published.SLOTS)
        tree["learners"]["pull_rows"] = 0
    if tree["mode"] == "async" and tree["optimizer"]["name"] == "rmsprop":
        tree["learners"]["local_steps"] = 1
    defaults = {"learners": LearnersSettings(), "gossip": GossipSettings()}
    for key in filter(MODES.asked_for(tree["mode"], learners["count"], servers["count"]).unread, MODES.keys):
        section, _, name = key.partition(".")
        tree[section][name] = getattr(defaults[section], name)
    if tree["mode"] != "gossip":
        del tree["gossip"]
    else:
        across = tree["nodes"]["count"] > 1 or tree["nodes"]["listen"] is not None
        tree["gossip"]["age_corrected"] &= tree["gossip"]["transport"] == "shm" and not across
        most = tree["simulators"]["count"] * tree["simulators"]["envs"] if by_ratio and not across else 0
        tree["gossip"]["experience"] = min(tree["gossip"]["experience"], most)
    return tree


def as_yaml(value: Any) -> str:
    """JSON, but characters beyond 16 bits are one escape, because YAML does not read the two of JSON."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isascii() and letter.isprintable() else f"\\U{ord(letter):08x}" for letter in text)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(topologies().map(as_the_rules_want))
def test_dump_and_parse_are_inverse(given_tree: dict[str, Any]) -> None:
    given_topology = parse(as_yaml(given_tree))
    assert tree(given_topology) == given_tree
    text = dump(given_topology)
    assert parse(text) == given_topology
    assert dump(parse(text)) == text


@settings(max_examples=examples(300))
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_input_gives_a_topology_or_one_line(text: str | bytes) -> None:
    try:
        parse(text)
    except TopologyError as error:
        assert str(error).isprintable()
        assert str(error).startswith("topology:")


@settings(max_examples=examples(300))
@given(st.sampled_from(["simulators.count", "name", "env", "model.hidden_sizes", "x.y", ""]), st.text(max_size=60))
def test_any_override_gives_a_topology_or_one_line(key: str, value: str) -> None:
    try:
        parse(CARTPOLE, [f"{key}={value}"])
    except TopologyError as error:
        assert str(error).isprintable()
        assert str(error).startswith("command line")


def test_atari_defaults_are_those_of_the_paac_code() -> None:
    t = parse("env: {id: ALE/Breakout-v5}")
    assert (t.total_steps, t.env.preset, t.env.time_limit_steps, t.model.name) == (80_000_000, "paac", 0, "nips")
    a, o = t.algorithm, t.optimizer
    assert (a.name, a.horizon, a.discount) == ("a2c", 5, 0.99)
    assert (a.entropy_cost, a.value_cost, a.loss_scale) == (0.02, 0.25, 5)
    assert (a.reward_clip, a.life_loss_terminal, a.bootstrap_on_truncation) == (1.0, False, False)
    assert (o.name, o.learning_rate, o.learning_rate_final, o.decay, o.epsilon) == ("rmsprop", 0.0224, 0, 0.99, 0.1)
    assert (o.epsilon_inside_root, o.accumulator_init, o.centered, o.clip_norm) == (True, 1.0, False, 3.0)


def test_cheap_environments_have_defaults_of_their_own() -> None:
    t = parse("env: {id: actorlearn.envs.catch:Catch}")
    assert (t.name, t.model.name, t.algorithm.reward_clip) == ("Catch-a2c", "mlp", None)
    assert t.algorithm.bootstrap_on_truncation
    assert t.algorithm.loss_scale == 1.0


@pytest.mark.parametrize(
    ("env", "algorithm", "normalised"),
    [
        ("CartPole-v1", "a2c", True),
        ("CartPole-v1", "ppo", True),
        ("CartPole-v1", "impala", False),
        ("ALE/Pong-v5", "a2c", False),
        ("ALE/Pong-v5", "ppo", False),
    ],
)
def test_a2c_and_ppo_normalise_except_in_atari_games(env: str, algorithm: str, normalised: bool) -> None:
    t = parse(f"env: {{id: {env}}}\nalgorithm: {{name: {algorithm}}}\n")
    assert t.model.normalize_observation == t.algorithm.normalize_reward == normalised


def test_algorithms_have_defaults_of_their_own() -> None:
    ppo, impala = (parse(f"env: {{id: ALE/Pong-v5}}\nalgorithm: {{name: {name}}}") for name in ("ppo", "impala"))
    assert (ppo.algorithm.horizon, ppo.algorithm.epochs, ppo.algorithm.gae_lambda) == (64, 4, 0.95)
    assert (ppo.optimizer.name, ppo.optimizer.learning_rate) == ("adam", 1e-3)
    transitions = ppo.simulators.count * ppo.simulators.envs * ppo.algorithm.horizon
    assert transitions // ppo.algorithm.minibatches == 256
    assert (impala.algorithm.reduction, impala.algorithm.horizon, impala.simulators.blocks) == ("sum", 20, 2)
    assert (impala.optimizer.name, impala.optimizer.learning_rate, impala.optimizer.clip_norm) == ("rmsprop", 6e-4, 40)
    other = parse("env: {id: ALE/Pong-v5}\nalgorithm: {name: impala}", ["optimizer.name=adam"])
    assert other.optimizer == parse(PONG, ["optimizer.name=adam"]).optimizer


@pytest.mark.parametrize(
    ("keys", "first", "final"),
    [
        ([], 0.2, None),
        (["algorithm.ratio_clip=0.3"], 0.3, None),
        (["algorithm.ratio_clip=0.3", "algorithm.ratio_clip_final=0"], 0.3, 0.0),
    ],
)
def test_the_ratio_clip_is_constant_unless_a_final_value_is_set(
    keys: list[str], first: float, final: float | None
) -> None:
    algorithm = parse("env: {id: CartPole-v1}\nalgorithm: {name: ppo}", keys).algorithm
    assert (algorithm.ratio_clip, algorithm.ratio_clip_final) == (first, final)


def test_another_optimizer_does_not_inherit_paacs_learning_rate() -> None:
    assert parse(PONG, ["optimizer.name=adam"]).optimizer.learning_rate < 0.01


@pytest.mark.parametrize(
    ("env", "cores", "count", "envs"),
    [
        ("ALE/Pong-v5", 0.5, 1, 32),
        ("ALE/Pong-v5", 1, 1, 32),
        ("ALE/Pong-v5", 1.5, 2, 16),
        ("ALE/Pong-v5", 2, 2, 16),
        ("ALE/Pong-v5", 3, 2, 16),
        ("ALE/Pong-v5", 6, 4, 8),
        ("ALE/Pong-v5", 8, 8, 4),
        ("ALE/Pong-v5", 96, 8, 4),
        ("CartPole-v1", 1, 1, 16),
        ("CartPole-v1", 96, 2, 8),
    ],
)
def test_simulators_follow_the_allowed_cores(
    env: str, cores: float, count: int, envs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defaults, "usable_cores", lambda: cores)
    t = parse(f"env: {{id: {env}}}")
    assert (t.simulators.count, t.simulators.envs) == (count, envs)


@pytest.mark.parametrize(
    ("cores", "learners", "threads"), [(0.5, 1, 1), (1.5, 1, 1), (2, 1, 2), (2.9, 1, 2), (4.5, 2, 2), (96, 1, 8)]
)
def test_the_trainers_threads_are_whole_cores(
    cores: float, learners: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defaults, "usable_cores", lambda: cores)
    assert parse(PONG, [f"learners.count={learners}"]).trainer.threads == threads
    assert parse("env: {id: CartPole-v1}").trainer.threads == 1


@pytest.mark.parametrize(
    ("learners", "nodes", "simulators", "threads"), [(4, 4, 8, 8), (4, 2, 4, 4), (3, 2, 4, 4), (1, 4, 8, 8)]
)
def test_learners_on_several_nodes_have_the_cores_of_as_many_machines(
    learners: int, nodes: int, simulators: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defaults, "usable_cores", lambda: 8.0)
    t = parse("env: {id: ALE/Pong-v5}", [f"learners.count={learners}", f"nodes.count={nodes}"])
    assert (t.simulators.count, t.trainer.threads) == (simulators, threads)
    assert t.simulators.envs == max(1, 32 // learners // simulators)


def test_default_environments_fit_count_and_groups() -> None:
    assert parse(PONG, ["simulators.count=5", "simulators.groups=4"]).simulators.envs == 4
    assert parse(PONG, ["simulators.count=100"]).simulators.envs == 1
    assert parse(PONG, ["simulators.count=32", "simulators.groups=2"]).simulators.envs == 2


@pytest.mark.parametrize(
    ("overrides", "horizon"),
    [
        (["simulators.count=1"], 128),
        (["simulators.count=2"], 64),
        (["simulators.count=8", "simulators.groups=2"], 16),
        (["simulators.count=2", "simulators.envs=1024"], 1),
        (["algorithm.batch_steps=null", "simulators.count=8"], 16),  # the default of this kind
    ],
)
def test_the_horizon_shrinks_as_simulators_grow(overrides: list[str], horizon: int) -> None:
    text = "env: {id: CartPole-v1}\nalgorithm: {batch_steps: 2_048}\nsimulators: {envs: 16}"
    t = parse(text, overrides)
    assert t.algorithm.horizon == horizon
    assert t.algorithm.batch_steps in (None, horizon * t.simulators.count * t.simulators.envs)
    assert parse(dump(t)) == t


def test_later_overrides_win_and_their_values_are_yaml() -> None:
    overrides = ["seed=3", "seed=4", "model.hidden_sizes=[8, 16]", "algorithm.reward_clip=null", "name='on'"]
    t = parse(CARTPOLE, overrides)
    assert (t.seed, tree(t)["model"]["hidden_sizes"], t.algorithm.reward_clip, t.name) == (4, [8, 16], None, "on")
    assert parse(CARTPOLE, ["simulators={count: 3, envs: 2}"]).simulators.count == 3
    assert parse("", ["env.id=CartPole-v1"]).env.id == "CartPole-v1"


def test_arguments_and_wrappers_of_an_environment_are_kept_as_they_are_written() -> None:
    text = """
env:
  id: minigrid:MiniGrid-Empty-5x5-v0
  kwargs: {size: 6, config: {lanes: [1, 2], "on": null}}
  wrappers:
    - minigrid.wrappers:FlatObsWrapper
    - name: gymnasium.wrappers:TimeLimit
      kwargs: {max_episode_steps: 100}
"""
    t = parse(text)
    assert t.name == "MiniGrid-Empty-5x5-v0-a2c"
    assert t.env.kwargs == {"size": 6, "config": {"lanes": [1, 2], "on": None}}
    assert [msgspec.to_builtins(wrapper) for wrapper in t.env.wrappers] == [
        "minigrid.wrappers:FlatObsWrapper",
        {"name": "gymnasium.wrappers:TimeLimit", "kwargs": {"max_episode_steps": 100}},
    ]
    assert parse(dump(t)) == t


def test_overrides_reach_into_the_arguments_of_an_environment() -> None:
    text = "env: {id: CartPole-v1, kwargs: {sutton_barto_reward: true, config: {lanes: 2, speed: 3}}}"
    t = parse(text, ["env.kwargs.config.lanes=4", "env.kwargs.sutton_barto_reward=false", "env.kwargs.new.deep=[x]"])
    assert t.env.kwargs == {"sutton_barto_reward": False, "config": {"lanes": 4, "speed": 3}, "new": {"deep": ["x"]}}
    assert parse(text, ["env.kwargs={}"]).env.kwargs == {}
    assert parse(CARTPOLE, ["env.kwargs.size=6"]).env.kwargs == {"size": 6}
    assert parse(CARTPOLE, ["env.wrappers=['a.b:C']"]).env.wrappers == ("a.b:C",)


def test_an_override_replaces_a_wrong_value_of_the_file() -> None:
    assert parse(CARTPOLE + "seed: x\n", ["seed=5"]).seed == 5


def test_words_and_numbers_follow_yaml_1_2_and_not_1_1() -> None:
    t = parse(CARTPOLE + "name: on\n")
    assert t.name == "on"
    assert parse(CARTPOLE + "total_steps: 0x10\n").total_steps == 16
    assert parse(CARTPOLE + "total_steps: 250_000\n").total_steps == 250_000
    assert parse(CARTPOLE + "total_steps: 0o17\n").total_steps == 15


def test_integers_are_accepted_for_floats() -> None:
    t = parse(CARTPOLE, ["optimizer.learning_rate=1", "algorithm.discount=1"])
    assert (t.optimizer.learning_rate, t.algorithm.discount) == (1.0, 1.0)
    assert isinstance(t.algorithm.discount, float)


def test_whole_floats_are_accepted_for_integers() -> None:
    """Keys that take any number, and arguments of a class, keep a float."""
    made = parse(
        CARTPOLE + "total_steps: 1e6\nevaluator: {count: 1.0, every_steps: 2e3}\n",
        [
            "model.hidden_sizes=[64.0, 32]",
            "seed=5.0",
            "simulators.count=2.0",
            "env.kwargs={sutton_barto_reward: 1.0}",
            "optimizer.learning_rate=1.0",
        ],
    )
    assert parse(dump(made)) == made
    found = [made.total_steps, made.evaluator.every_steps, *made.model.hidden_sizes, made.seed]
    found += [made.simulators.count]
    assert found == [1_000_000, 2_000, 64, 32, 5, 2] and {type(number) for number in found} == {int}
    assert type(made.env.kwargs["sutton_barto_reward"]) is type(made.optimizer.learning_rate) is float
    for wrong in ("total_steps=1.5", "total_steps=true", "total_steps='1e6'"):
        with pytest.raises(TopologyError, match=r"^command line: total_steps = .*: must be an integer"):
            parse(CARTPOLE, [wrong])


def test_a_topology_is_immutable() -> None:
    with pytest.raises(Exception, match="immutable"):
        parse(CARTPOLE).seed = 3  # type: ignore[misc]


def test_load_reads_a_file_and_its_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(CARTPOLE, encoding="utf-8")
    assert load(path) == load(str(path)) == parse(CARTPOLE)
    path.write_text(CARTPOLE + "sead: 1\n", encoding="utf-8")
    with pytest.raises(TopologyError, match=re.escape(f"{path}:4: sead = 1: ") + ".*did you mean seed"):
        load(path)


def test_several_problems_are_counted_and_all_are_reported() -> None:
    text = "env: {id: CartPole-v1}\nsimulators:\n  count: 0\nseed: -1\nmode: both\n"
    with pytest.raises(TopologyError, match=r"^topology:3: simulators.count = 0: .* \(and 2 more\)\n") as refused:
        parse(text)
    assert [note.partition(": must")[0] for note in refused.value.__notes__] == [
        "topology:4: seed = -1",
        "topology:5: mode = 'both'",
    ]


def test_all_overrides_with_unknown_keys_are_reported() -> None:
    with pytest.raises(TopologyError, match=r"^command line: 'sead=1': .* \(and 1 more\)\n") as refused:
        parse(CARTPOLE, ["sead=1", "total_steps=300", "simulators.cuont=2"])
    assert [note.partition(": section")[0] for note in refused.value.__notes__] == [
        "command line: 'simulators.cuont=2'"
    ]


def test_only_the_first_of_many_problems_are_reported() -> None:
    with pytest.raises(TopologyError, match=r"\(and 39 more\)\n") as refused:
        parse(CARTPOLE + "".join(f"wrong_{number}: 1\n" for number in range(40)))
    assert len(refused.value.__notes__) == MAX_FAULTS - 1


def test_every_key_has_a_description() -> None:
    for name, key in keys_of(TOPOLOGY).items():
        structs = structs_of(name).values() if name in CHOSEN else [key.section] if key.section else []
        for inner, inside in [pair for struct in structs for pair in keys_of(struct).items()] or [("", key)]:
            assert inside.description, f"{name}.{inner}"


def test_dump_shows_every_key_and_other_yaml_readers_agree() -> None:
    import yaml

    t = parse(CARTPOLE, ["optimizer.epsilon=1e-5", "optimizer.learning_rate_final=1e-20", "name=Norway-no"])
    assert yaml.safe_load(dump(t)) == tree(t)
    assert "total_steps: 500_000" in dump(t)


def test_values_follow_the_core_schema_of_yaml_1_2() -> None:
    text = "[yes, No, on, OFF, y, 1:30, 0o17, 0x1F, 1_000, 1_0, .5, 1., -2e3, True, ~, null, '1', 2001-01-01, =, 12e03]"
    expected = ["yes", "No", "on", "OFF", "y", "1:30", 15, 31, 1000, "1_0", 0.5, 1.0, -2000.0, True, None, None]
    assert strict_yaml.read(text, "here").value == [*expected, "1", "2001-01-01", "=", 12000.0]
    assert strict_yaml.read("on: |\n  text\n", "here").value == {"on": "text\n"}


def test_lines_of_keys_and_items_are_kept() -> None:
    document = strict_yaml.read("a:\n  b: 1\n  c:\n  - 1\n  - 2\n", "here")
    assert document.lines == {("a",): 1, ("a", "b"): 2, ("a", "c"): 3, ("a", "c", 0): 4, ("a", "c", 1): 5}


def test_a_topology_has_no_keys_of_choices_that_it_does_not_make() -> None:
    t = tree(parse("env: {id: ALE/Pong-v5}\nalgorithm: {name: dqn}"))
    assert "entropy_cost" not in t["algorithm"] and "betas" not in t["optimizer"] and "kwargs" not in t["env"]
    assert "replay" not in tree(parse(CARTPOLE)) and "\nreplay:" not in dump(parse(CARTPOLE))


def test_presets_are_those_of_the_atari_environments() -> None:
    atari = pytest.importorskip("actorlearn.envs.atari")
    assert set(key_at(("env", "preset")).kind.values) == set(atari.PRESETS)


def test_loading_topologies_imports_neither_torch_nor_gymnasium() -> None:
    program = "import sys, launch.topology.load; sys.exit(sorted({'torch', 'gymnasium'} & set(sys.modules)) or 0)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=30)
