"""Sweep files: correct ones are read, and wrong ones are refused in one line with value, rule and remedy."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launch.errors import RunError
from launch.sweeps.axes import Choices, Range
from launch.sweeps.decisions import Listed, Population
from launch.sweeps.file import Sweep, changed, read
from launch.sweeps.keys import SweepKeys
from launch.topology import strict_yaml
from launch.topology.load import TopologyError, dump, load, parse, plain
from tests.sizes import ROOT

TOPOLOGY = "env: {id: CartPole-v1}\ntotal_steps: 1_000\n"
SHIPPED = sorted((ROOT / "examples" / "sweeps").glob("*.yaml"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cart.yaml").write_text(TOPOLOGY)
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "rates.yaml"
    path.write_text(text)
    return path


def test_a_sweep_file_needs_only_a_topology(folder: Path) -> None:
    sweep = read(write(folder, "topology: cart.yaml"))
    assert (sweep.name, sweep.keys) == ("rates", SweepKeys(topology="cart.yaml"))
    assert sweep.search() == Listed([{}], (1,))


def test_a_sweep_file_takes_the_keys_of_a_topology_with_values_of_yaml(folder: Path) -> None:
    text = """
        topology: cart.yaml
        overrides: {total_steps: 2_000, "optimizer": {name: adam}}
        vary:
          algorithm.name: [a2c, ppo]
          optimizer.learning_rate: {low: 1.0e-4, high: 0.1, scale: log}
          algorithm.horizon: {low: 5, high: 20}
        seeds: [3, 1]
        search: {name: random, trials: 4}
        goal: {direction: minimize, metric: loss}
        stopping: {name: median}
        at_once: 2
    """
    sweep = read(write(folder, text))
    assert sweep.axes == (
        Choices("algorithm.name", ("a2c", "ppo")),
        Range("optimizer.learning_rate", 1e-4, 0.1, log=True),
        Range("algorithm.horizon", 5, 20),
    )
    assert (sweep.base.total_steps, sweep.sign) == (2000, -1)
    search = sweep.search()
    assert isinstance(search, Listed) and len(search.trials) == 4
    made = sweep.topology({"algorithm.name": "ppo", "algorithm.horizon": 7, "optimizer.learning_rate": 0.01})
    assert (made.algorithm.horizon, made.optimizer.learning_rate, made.total_steps) == (7, 0.01, 2000)


def test_a_trial_has_the_defaults_of_its_own_choices(folder: Path) -> None:
    """As on the command line, defaults of A2C are not kept for PPO."""
    sweep = read(write(folder, "topology: cart.yaml\nvary: {algorithm.name: [a2c, ppo]}"))
    first, second = (sweep.topology({"algorithm.name": name}) for name in ("a2c", "ppo"))
    assert first.algorithm.horizon != second.algorithm.horizon


def test_all_runs_have_the_simulators_and_threads_chosen_on_the_first_machine(folder: Path) -> None:
    sweep = read(write(folder, "topology: cart.yaml\nvary: {optimizer.learning_rate: [0.1]}"))
    assert sweep.pins == {
        "simulators.count": sweep.base.simulators.count,
        "trainer.threads": sweep.base.trainer.threads,
    }
    pinned = replace(sweep, pins={"simulators.count": 1, "trainer.threads": 1})
    assert (pinned.topology({}).simulators.count, pinned.topology({}).trainer.threads) == (1, 1)
    assert pinned.topology({"simulators.count": 2}).simulators.count == 2
    said = read(write(folder, "topology: cart.yaml\noverrides: {simulators.count: 1, trainer.threads: 1}"))
    assert said.pins == {}


@pytest.mark.parametrize(("key", "value"), [("learners.count", 8), ("learners", {"count": 8})])
def test_trials_of_several_learners_have_the_simulators_and_threads_of_single_runs(
    key: str, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launch.topology.defaults.usable_cores", lambda: 8.0)
    (tmp_path / "pong.yaml").write_text("env: {id: ALE/Pong-v5}\n")
    sweep = read(write(tmp_path, f"topology: pong.yaml\nvary: {json.dumps({key: [value]})}"))
    trial = sweep.topology({key: value})
    single = load(tmp_path / "pong.yaml", ["learners.count=8"])
    assert (trial.simulators, trial.trainer) == (single.simulators, single.trainer)
    parent = dump(load(tmp_path / "pong.yaml", []))  # a member of a population continues from a run with one learner
    continued = parse(parent, sweep.overrides({key: value}, saved=True))
    assert (continued.simulators, continued.trainer) == (single.simulators, single.trainer)
    assert single.simulators.environments * single.learners.count == 32


@pytest.mark.parametrize("section", ["overrides: {evaluator.count: 1}", "vary: {evaluator.count: [1]}"])
def test_a_goal_may_be_the_evaluation_score_if_the_runs_have_an_evaluator(folder: Path, section: str) -> None:
    sweep = read(write(folder, f"topology: cart.yaml\n{section}\ngoal: {{metric: eval_return_mean}}"))
    assert sweep.keys.goal.metric == "eval_return_mean"


def test_a_population_divides_a_run_into_generations(folder: Path) -> None:
    text = """
        topology: cart.yaml
        vary: {optimizer.learning_rate: {low: 1.0e-4, high: 0.1}}
        seeds: [1, 2, 3]
        search: {name: population, every_steps: 300}
    """
    sweep = read(write(folder, text))
    search = sweep.search()
    assert isinstance(search, Population)
    assert (search.generations, search.seeds) == (4, (1, 2, 3))


VARY = "topology: cart.yaml\nvary: {optimizer.learning_rate: "
WRONG = {
    "": "rates.yaml:1: topology is missing: must name the topology; add topology: FILE",
    "- a": "rates.yaml:1: ['a']: a sweep is a mapping of keys; start with 'topology: FILE'",
    "topology: cart.yaml\nseed: 1": "rates.yaml:2: seed = 1: a sweep has no key 'seed'; did you mean seeds?",
    "topology: cart.yaml\noptimizer: {}": "optimizer = {}: a sweep has no key 'optimizer'; write keys of the topology",
    "topology: cart.yaml\nseeds: []": "seeds = []: must have at least 1 items",
    "topology: cart.yaml\nseeds: [1, 1]": "seeds = [1, 1]: must not contain a seed twice; remove the repeated seeds",
    "topology: cart.yaml\nseeds: [-1]": "seeds[0] = -1: must be at least 0 and at most 2_147_483_647",
    "topology: cart.yaml\nsearch: {name: grit}": "search.name = 'grit': must be grid or random or optuna or pop",
    "topology: cart.yaml\nsearch: grid": "search = 'grid': must be a mapping with a name; write for",
    "topology: cart.yaml\nsearch: {name: random}": "search.trials is missing: search needs this key",
    "topology: cart.yaml\nsearch: {name: grid, trials: 3}": "search.trials = 3: section search has no key 'trials'",
    "topology: cart.yaml\nsearch: {name: random, trials: 3}": "vary = {}: must have at least one key for search random",
    "topology: cart.yaml\nvary: {seed: [1]}": "a sweep sets seed itself: a sweep's own key is seeds; remove it",
    "topology: cart.yaml\nvary: {nodes.count: [1, 2]}": "all trials must have the same nodes.* keys; write nodes.",
    "topology: cart.yaml\noverrides: {stop_at_steps: 5}": "a sweep sets stop_at_steps itself",
    "topology: cart.yaml\noverrides: [1]": "overrides = [1]: must be a mapping of a topology's keys",
    "topology: cart.yaml\ngoal: {metric: episode_return}": "goal.metric = 'episode_return': must be a column of",
    "topology: cart.yaml\ngoal: {metric: eval_return_mean}": "rates.yaml:2: goal.metric = 'eval_return_mean': needs an",
    "topology: cart.yaml\nat_once: 0": "at_once = 0: must be at least 1",
    "topology: cart.yaml\nstopping: {}": "stopping.name is missing: must be median; write for example median",
    VARY + "0.1}": "vary.optimizer.learning_rate = 0.1: must be a list of values, or a range of low and high; wr",
    VARY + "[]}": "= []: must have at least one value",
    VARY + "[0.1, 0.1]}": "= [0.1, 0.1]: must not contain a value twice",
    VARY + "{low: 1, high: 2, scale: lin}}": "scale = 'lin': must be linear or log; write linear",
    VARY + "{low: 2, high: 1}}": "high = 1: must be greater than low, 2",
    VARY + "{low: 0, high: 1, scale: log}}": "low = 0: must be greater than 0 if the scale is log",
    VARY + "{low: a, high: 1}}": "low = 'a': must be a number",
    VARY + "{low: 1, high: 2, by: 1}}": "must be a list of values, or a range of low and high",
    VARY + "{low: 0.1, high: 0.2}}": "must be a list of values for a grid; write a list, or search by random or optuna",
    VARY + "[0.1]}\noverrides: {optimizer.learning_rate: 1}": "must not be in both vary and overrides; remove one",
    VARY + "[0.1, 0.2]}\nsearch: {name: random, trials: 3}": "search.trials = 3: must be at most 2, the number",
    VARY + "[0.1, -1]}": "rates.yaml:2: optimizer.learning_rate = -1: must",
    VARY + "[-1, 0.1]}": '(in the trial with {"optimizer.learning_rate": -1})',
    "topology: cart.yaml\nvary: {optimizer.rate: [1]}": "rates.yaml:2: optimizer.rate = 1: section",
    "topology: cart.yaml\noverrides: {optimizer.rate: 1}": "rates.yaml:2: optimizer.rate = 1: section",
    VARY + "[0.1]}\noverrides:\n  learners.count: -1": "rates.yaml:4: learners.count = -1: must",
    VARY + "[0.1]}\noverrides: {simulators.envs: 3, simulators.groups: 2}": "rates.yaml:3: simulators.envs = 3: env",
    "topology: no.yaml": "no.yaml: No such file or directory",
    VARY + "[0.1]}\nsearch: {name: population, every_steps: 10}": "must have one seed for each member of a population;",
    VARY
    + "[0.1]}\nseeds: [1, 2]\nsearch: {name: population, every_steps: 1_000}": "must be less than total_steps, 1000",
    VARY
    + "[0.1]}\nseeds: [1, 2]\nsearch: {name: population, every_steps: 10}\nstopping: {name: median}": "must be null",
    "topology: cart.yaml\ntopology: cart.yaml": "a key may be in a section only once",
    "topology: cart.yaml\n---\na: 1": "a sweep is one document",
}


@pytest.mark.parametrize(("text", "said"), WRONG.items(), ids=range(len(WRONG)))
def test_a_wrong_sweep_file_is_refused_in_one_line(text: str, said: str, folder: Path) -> None:
    with pytest.raises(TopologyError) as refused:
        read(write(folder, text))
    line = str(refused.value)
    assert said in line and "\n" not in line and "; " in line


def test_all_wrong_keys_of_a_trial_are_reported(folder: Path) -> None:
    with pytest.raises(TopologyError, match=r"(?s)horizn.* \(and 1 more\) \(in the trial with ") as refused:
        read(write(folder, "topology: cart.yaml\nvary: {algorithm.horizn: [8], algorithm.discont: [0.5]}"))
    assert ["discont" in note for note in refused.value.__notes__] == [True]


def test_a_file_name_that_runs_cannot_have_is_refused(folder: Path) -> None:
    (folder / "a b.yaml").write_text("topology: cart.yaml")
    with pytest.raises(TopologyError, match=r"'a b': the name of the file must have.*; rename it"):
        read(folder / "a b.yaml")


def test_a_begun_sweep_accepts_more_trials_and_seeds_and_no_other_changes(folder: Path) -> None:
    def keys(**own: Any) -> SweepKeys:
        return read(write(folder, json.dumps({"topology": "cart.yaml", **own}))).keys

    rates = {"vary": {"optimizer.learning_rate": {"low": 0.1, "high": 0.2}}}
    random = {**rates, "search": {"name": "random", "trials": 3}, "seeds": [1, 2]}
    before = plain(keys(**random))
    assert changed(before, keys(**random)) == ""
    assert changed(before, keys(**{**random, "search": {"name": "random", "trials": 4}})) == ""
    assert changed(before, keys(**{**random, "seeds": [1, 2, 3], "at_once": 7})) == ""
    assert changed(before, keys(**{**random, "seeds": [2, 1]})) == "seeds has changed from [1, 2] to [2, 1]"
    assert changed(before, keys(**{**random, "seeds": [1]})).startswith("seeds has changed")
    assert changed(before, keys(**{**random, "search": {"name": "random", "trials": 2}})).startswith(
        "search has changed"
    )
    assert changed(before, keys(**{**random, "search": {"name": "random", "trials": 4, "seed": 2}})).startswith(
        "search"
    )
    assert changed(before, keys(**{**random, "goal": {"metric": "loss"}})).startswith("goal has changed")


def test_a_begun_sweep_accepts_other_nodes_and_no_other_overrides(folder: Path) -> None:
    def keys(overrides: dict[str, Any]) -> SweepKeys:
        return read(write(folder, json.dumps({"topology": "cart.yaml", "overrides": overrides}))).keys

    begun = keys({"total_steps": 10, "nodes.hosts": ["a"]})
    assert changed(plain(begun), keys({"total_steps": 10, "nodes": {"hosts": ["b"]}})) == ""
    assert changed(plain(begun), keys({"total_steps": 10})) == ""
    assert changed(plain(begun), keys({"total_steps": 20, "nodes.hosts": ["a"]})).startswith("overrides has changed")


@pytest.mark.parametrize(
    ("key", "whole"),
    [("total_steps", True), ("algorithm.horizon", True), ("env.frame_skip", True), ("optimizer.learning_rate", False)],
)
def test_whole_floats_as_ends_of_a_range_are_integers_if_the_key_takes_only_integers(
    key: str, whole: bool, folder: Path
) -> None:
    sweep = read(
        write(
            folder,
            f"topology: cart.yaml\noverrides: {{env.id: ALE/Pong-v5}}\nvary: {{{key}: {{low: 1.0, high: 2e0}}}}\n"
            "search: {name: random, trials: 1}",
        )
    )
    (axis,) = sweep.axes
    assert isinstance(axis, Range) and axis.whole is whole


@pytest.mark.parametrize("nodes", [{"nodes.listen": "10.0.0.1:0", "nodes.hosts": ["a"]}, {"nodes.count": 2}, {}])
@pytest.mark.parametrize("now", [{"nodes": {"listen": "10.0.0.2:0", "hosts": ["b"]}}, {}])
def test_a_continued_run_has_the_nodes_of_the_present_sweep_file(
    nodes: dict[str, Any], now: dict[str, Any], folder: Path
) -> None:
    def sweep(overrides: dict[str, Any]) -> Sweep:
        return read(write(folder, json.dumps({"topology": "cart.yaml", "overrides": overrides})))

    saved = folder / "topology.yaml"
    saved.write_text(dump(sweep({"learners.count": 2, **nodes}).base))
    going_on = sweep({"learners.count": 2, **now})
    assert load(saved, going_on.overrides_of_nodes()).nodes == going_on.base.nodes
    assert load(saved, going_on.overrides({"seed": 7}, saved=True)).nodes == going_on.base.nodes


def test_a_missing_optuna_is_reported_with_the_way_to_install_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(RunError, match="search.name: optuna: optuna is not installed; .*, or search by random"):
        read(write(folder, VARY + "[0.1]}\nsearch: {name: optuna, trials: 1}"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_sweep_is_valid_and_points_editors_to_the_schema(path: Path) -> None:
    assert read(path).keys.search is not None
    schema = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / schema).resolve() == ROOT / "launch" / "sweeps" / "sweep.schema.json"


def test_the_page_shows_the_shipped_sweeps() -> None:
    page_text = (ROOT / "docs" / "sweeps.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", page_text, re.DOTALL)
    shown = [strict_yaml.read(text, "page").value for text in blocks if "topology:" in text]  # the others are sections
    names = ("catch-rates.yaml", "pong-hosts.yaml", "catch-population.yaml")
    shipped = [(ROOT / "examples" / "sweeps" / name).read_text() for name in names]
    assert shown == [strict_yaml.read(text, "example").value for text in shipped]
