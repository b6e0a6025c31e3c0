"""``actorlearn simulate``: what it predicts from given costs, prints and writes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("simpy", reason="the extra `simulate` is not installed")

from launch.commands.simulate import simulate
from launch.errors import RunError
from launch.simulate import model
from launch.simulate.model import Prediction
from launch.simulate.scenario import Scenario
from launch.topology.load import TopologyError

COSTS = ["simulate.step_s=1e-3", "simulate.pass_s=1e-3", "simulate.gradient_s=5e-3", "simulate.optimizer_s=1e-3"]
FEW = [*COSTS, "simulate.weights=10_000", "simulate.updates=10", "simulate.cores=4"]


@pytest.fixture
def topology(tmp_path: Path) -> str:
    path = tmp_path / "catch.yaml"
    path.write_text(
        "name: catch\ntotal_steps: 1000\nenv: {id: 'actorlearn.envs.catch:Catch'}\nmodel: {name: mlp}\n"
        "algorithm: {name: a2c}\nsimulators: {count: 2, envs: 4}\n"
    )
    return str(path)


def predicted(topology: str, overrides: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    assert simulate(topology, [*FEW, *overrides], None, 1.0, None, json=True) == 0
    return json.loads(capsys.readouterr().out)


def exchanging(topology: str, overrides: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    found: str = predicted(topology, overrides, capsys)["scenario"]["exchanging"]
    return found


def test_curves_over_nodes_quorum_and_servers_are_predicted(topology: str, capsys: pytest.CaptureFixture[str]) -> None:
    curves = predicted(topology, ["nodes.count=6"], capsys)["curves"]
    assert [point["at"] for point in curves["nodes"]] == [1, 2, 4, 6]
    assert [point["at"] for point in curves["quorum"]] == [3, 4, 5, 6]
    assert [point["at"] for point in curves["servers"]] == [1, 2, 4, 8]
    assert curves["nodes"][0]["env_steps_per_s"] < curves["nodes"][-1]["env_steps_per_s"]


@pytest.mark.parametrize("nodes", ["nodes.count=0x6", "nodes.count=0.6e1", "nodes={count: 6}", "@keys"])
def test_each_node_has_a_learner_however_the_number_of_nodes_is_written(
    topology: str, nodes: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("keys").write_text("nodes.count=6\n")
    assert predicted(topology, [nodes], capsys)["curves"]["nodes"][-1]["at"] == 6


def test_the_exchange_follows_mode_nodes_and_servers(topology: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exchanging(topology, [], capsys) == "alone"
    assert exchanging(topology, ["learners.count=2"], capsys) == "lock-step"
    assert exchanging(topology, ["nodes.count=2"], capsys) == "hub"
    assert exchanging(topology, ["nodes.count=2", "mode=async", "learners.quorum=1"], capsys) == "quorum"
    assert exchanging(topology, ["learners.count=2", "mode=async"], capsys) == "store"
    assert exchanging(topology, ["nodes.count=2", "mode=async"], capsys) == "servers"
    assert exchanging(topology, ["learners.count=2", "mode=async", "parameter_servers.count=2"], capsys) == "servers"
    assert exchanging(topology, ["nodes.count=2", "mode=gossip", "gossip.graph=ring"], capsys) == "gossip"


def test_the_quorum_is_the_topology_s(topology: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = predicted(topology, ["nodes.count=4", "mode=async", "learners.quorum=3"], capsys)
    assert found["scenario"]["quorum"] == 3
    assert [point["at"] for point in found["curves"]["quorum"]] == [2, 3, 4]


def test_nodes_may_share_machines(topology: str, capsys: pytest.CaptureFixture[str]) -> None:
    apart = predicted(topology, ["nodes.count=4", "simulate.cores=1"], capsys)
    shared = predicted(topology, ["nodes.count=4", "simulate.cores=1", "simulate.machines=1"], capsys)
    rates = [found["curves"]["nodes"][-1]["env_steps_per_s"] for found in (apart, shared)]
    assert rates[1] < 0.5 * rates[0]


def test_the_tables_say_what_is_predicted(topology: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(topology, [*FEW, "nodes.count=2"], None, 1.0, None, json=False) == 0
    said = capsys.readouterr().out
    assert (
        "2 learners on 2 machines of 4 cores, 956 Mbit/s of messages and 0.1 ms; 10,000 weights, exchange: hub" in said
    )
    assert "closed form" in said and "bottleneck" in said and "█" in said


def test_each_table_is_printed_before_the_next_one_is_predicted(
    topology: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said, predict = [], model.simulate

    def predict_later(case: Scenario) -> Prediction:
        said.append(capsys.readouterr().out)
        return predict(case)

    monkeypatch.setattr(model, "simulate", predict_later)
    assert simulate(topology, [*FEW, "nodes.count=2"], None, 1.0, None, json=False) == 0
    assert "2 learners on 2 machines" in said[0]
    assert [found.split()[0] for found in said if "steps/s" in found] == ["nodes", "K"]


def test_updates_of_many_optimizer_steps_are_fewer(topology: str, capsys: pytest.CaptureFixture[str]) -> None:
    """PPO makes 16 optimizer steps in each update."""
    few = [word for word in FEW if not word.startswith("simulate.updates")]
    ppo = ["algorithm={name: ppo, horizon: 4, epochs: 4, minibatches: 4}"]
    for words, updates in (([], 2000), (ppo, 125), ([*ppo, "simulate.updates=300"], 300), (["learners.count=4"], 500)):
        assert simulate(topology, [*few, *words], None, 1.0, None, json=True) == 0
        assert json.loads(capsys.readouterr().out)["scenario"]["updates"] == updates


@pytest.mark.parametrize("name", ["found.csv", "found.svg"])
def test_points_are_written_or_drawn(topology: str, name: str, tmp_path: Path) -> None:
    output = tmp_path / "new" / name
    simulate(topology, [*FEW, "nodes.count=2"], None, 1.0, output, json=True)
    if output.suffix == ".csv":
        with output.open() as file:
            rows = list(csv.DictReader(file))
        assert {row["along"] for row in rows} == {"nodes", "quorum", "servers"}
        assert float(rows[0]["env_steps_per_s"]) > 0
    else:
        assert "</svg>" in output.read_text()


@pytest.mark.parametrize(
    ("word", "rule"),
    [
        ("simulate.steps_s=1", "not a key of simulate, perhaps simulate.step_s"),
        ("simulate.slow_factor=0.5", "`float` >= 1"),
        ("simulate.machines=many", "Expected `int | null`"),
        ("simulate.deviation=1e300", "`float` <= 10"),
        ("learners.count=1", "learners.count=1: each of the 2 nodes needs a learner; write at least 2"),
    ],
)
def test_a_wrong_key_is_refused(topology: str, word: str, rule: str) -> None:
    with pytest.raises(RunError, match=rule.replace("|", r"\|")):
        simulate(topology, [*FEW, "nodes.count=2", word], None, 1.0, None, json=True)


def test_an_update_that_takes_no_time_is_refused(topology: str) -> None:
    nothing = [f"simulate.{name}=0" for name in ("step_s", "pass_s", "gradient_s")]
    with pytest.raises(RunError, match="an update must take some time; give one of them a value above 0"):
        simulate(topology, [*FEW, *nothing], None, 1.0, None, json=True)


def test_a_wrong_number_of_nodes_and_a_wrong_file_are_refused(topology: str) -> None:
    with pytest.raises(TopologyError, match=r"nodes\.count"):
        simulate(topology, [*FEW, "nodes.count=0"], None, 1.0, None, json=True)
    with pytest.raises(RunError, match=r"use a name that ends in \.csv"):
        simulate(topology, FEW, None, 1.0, Path("found.txt"), json=True)


@pytest.mark.nightly
def test_given_costs_of_a_gpu_are_used_on_a_machine_without_one(
    topology: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    words = [*COSTS, "simulate.updates=10", "trainer.device=cuda"]
    assert simulate(topology, words, None, 1.0, None, json=True) == 0
    assert json.loads(capsys.readouterr().out)["scenario"]["weights"] > 0
