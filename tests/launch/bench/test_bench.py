"""Benchmarks: that they measure in turn, name the slow stage, and say what they found."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import psutil
import pytest

from launch.bench import SUITES
from launch.bench.measure import report
from launch.bench.measure.interleaved import Spread, interleave
from launch.bench.measure.parts import Parts, bound
from launch.bench.measure.report import Report, short
from launch.bench.measure.request import Request, shipped
from launch.bench.measure.running import Reading, Running, rates
from launch.bench.papers.fast_dqn import COUNTS, PAPER_HOURS, PERIOD_STEPS
from launch.bench.papers.fast_dqn import keys as keys_of
from launch.bench.peers.compare import REQUIREMENTS
from launch.bench.peers.works import (
    CHEAP,
    OURS,
    SAC_OURS,
    on_cartpole,
    on_continuous_actions,
    on_pong,
    on_ppo_of_numbers,
)
from launch.bench.suites.nodes import cases as cases_of_nodes
from launch.bench.suites.replay import cases, shape_of
from launch.bench.suites.sampling import shapes
from launch.bench.suites.stragglers import slowed
from launch.bench.suites.training import ADVICE, slow_stage
from launch.errors import FailedError, RunError
from launch.topology.load import load

by_learners = import_module("launch.bench.suites.learners")  # its package has the suite under that name
CATCH = shipped("catch.yaml")
SMALL = ("simulators.count=2", "simulators.envs=4")


def test_cases_are_measured_in_turn() -> None:
    order: list[str] = []
    spread = interleave({name: lambda name=name: order.append(name) or len(order) for name in "ab"}, 3)
    assert "".join(order) == "ababab"
    assert spread["a"] == Spread((1, 3, 5))
    assert (spread["b"].median, spread["b"].low, spread["b"].high) == (4, 2, 6)


def test_rates_are_of_the_time_between_reports() -> None:
    reports = [{"time_s": time_s, "env_steps": steps} for time_s, steps in ((0.0, 0), (2.0, 10), (4.0, 40), (4.0, 41))]
    assert rates(reports) == (5.0, 15.0)


def test_parts_in_turn_add_their_times() -> None:
    assert bound([100.0, 100.0]) == pytest.approx(50.0)
    assert bound([4000.0]) == pytest.approx(4000.0)


@pytest.mark.parametrize(
    ("wall", "found"),
    [
        (
            {"trainer": {"learn": 0.3, "wait": 0.7}, "simulator-0": {"simulate": 0.6, "infer": 0.1, "wait": 0.3}},
            ("simulate", "simulator-0"),
        ),
        (
            {
                "trainer": {"learn": 0.1, "wait": 0.9},
                "inference-0": {"infer": 0.9, "wait": 0.1},
                "simulator-0": {"simulate": 0.5, "wait": 0.5},
            },
            ("infer", "inference-0"),
        ),
        (
            {"trainer": {"learn": 0.8, "copy": 0.1, "wait": 0.1}, "simulator-0": {"simulate": 0.4, "wait": 0.6}},
            ("learn", "trainer"),
        ),
    ],
)
def test_the_slow_stage_is_that_of_whoever_waits_least(
    wall: dict[str, dict[str, float]], found: tuple[str, str]
) -> None:
    assert slow_stage(Reading(1, 1.0, wall, {})) == found
    assert found[0] in ADVICE


def test_a_report_is_written_with_machine_and_spread(tmp_path: Path) -> None:
    made = Report(
        "training", ("part", "steps/s"), [("all", "5 (1-9)")], {"all": Spread((1.0, 5.0, 9.0))}, "steps/s", ("a note",)
    )
    report.write(made, tmp_path / "new")
    told = json.loads((tmp_path / "new" / "training.json").read_text())
    assert told["bars"]["all"] == {"median": 5.0, "low": 1.0, "high": 9.0, "values": [1.0, 5.0, 9.0]}
    assert told["machine"]["cores"] >= 1
    assert "| all | 5 (1-9) |" in (tmp_path / "new" / "training.md").read_text()
    assert (tmp_path / "new" / "training.png").read_bytes().startswith(b"\x89PNG")


def test_every_suite_says_in_one_line_what_it_measures() -> None:
    for suite in SUITES.values():
        assert 20 < len((suite.load().__doc__ or "").partition("\n")[0]) < 120


def test_what_peers_are_compared_with_is_a_topology_and_their_environments_are_known() -> None:
    for keys in OURS.values():
        load(shipped("pong.yaml"), keys)
    for keys in CHEAP.values():
        load(shipped("cartpole.yaml"), keys)
    scripts = Path(report.__file__).parents[1] / "peers" / "scripts"
    for ours, theirs in ((OURS, on_pong(cores=2)), (CHEAP, on_cartpole())):
        for name, peer in theirs.items():
            assert (REQUIREMENTS / f"{peer.environment}.txt").is_file()
            assert {peer.against, peer.also} <= {*ours, None}
            assert (scripts / peer.script).is_file()
            for word in ("nips", "nature", "fp32", "bf16"):  # the same network and precision on both sides
                assert (word in name) == (word in peer.against)


def test_sac_is_compared_on_the_topologys_environment_and_sizes_with_one_torch_thread_and_two() -> None:
    topology = load(shipped("pendulum-sac.yaml"), ["model.hidden_sizes=[32, 16]"])
    work = ("Pendulum-v1", "4", "256", "0.001")
    assert [(peer.arguments, peer.against) for peer in on_continuous_actions(topology, cores=2).values()] == [
        ((*work, "1", "32", "16"), SAC_OURS),
        ((*work, "2", "32", "16"), SAC_OURS),
    ]
    assert len(on_continuous_actions(topology, cores=1)) == 1


def test_ppo_of_continuous_actions_is_compared_in_the_topologys_shape() -> None:
    topology = load(shipped("control/halfcheetah-ppo.yaml"), ["simulators.count=1", "simulators.envs=8"])
    peers = on_ppo_of_numbers(topology, cores=2).values()
    work = ("HalfCheetah-v5", "8", "256", "8", "10", "0.001")
    assert [peer.arguments for peer in peers] == [("1", *work), ("2", *work)] * 2
    scripts = Path(report.__file__).parents[1] / "peers" / "scripts"
    for peer in peers:
        assert (REQUIREMENTS / f"{peer.environment}.txt").is_file()
        assert (scripts / peer.script).is_file()


@pytest.mark.parametrize("keys", [["model.hidden_sizes=[32]"], ["algorithm.name=a2c"]])
def test_a_topology_that_ppo_peers_cannot_do_is_refused_with_the_keys_that_they_need(keys: list[str]) -> None:
    with pytest.raises(RunError, match=r"algorithm\.name: ppo, model\.name: mlp and hidden_sizes"):
        on_ppo_of_numbers(load(shipped("control/halfcheetah-ppo.yaml"), keys), cores=2)


def test_nodes_are_measured_in_the_cases_that_the_overrides_allow() -> None:
    assert len(cases_of_nodes(())) == 7
    assert list(cases_of_nodes(("learners.count=4", "mode=gossip", "seed=2"))) == [
        "4 gossip with nobody",
        "4 gossip on a ring",
    ]
    for case in cases_of_nodes(()).values():
        load(shipped("pong.yaml"), [f"{key}={value}" for key, value in case.items()])
    with pytest.raises(FailedError, match=r"mode=async: no case has these keys"):
        cases_of_nodes(("mode=async",))


@pytest.mark.parametrize(
    ("name", "keys"), [("cartpole.yaml", ()), ("pendulum-sac.yaml", ("replay.ratio=128.0",)), ("atari/dqn.yaml", ())]
)
def test_a_topology_that_sac_peers_cannot_do_is_refused_with_the_keys_that_they_need(
    name: str, keys: tuple[str, ...]
) -> None:
    with pytest.raises(RunError, match=r"algorithm\.name: sac.*replay\.ratio equal to replay\.batch_size"):
        on_continuous_actions(load(shipped(name), keys), cores=2)


def test_shapes_fit_one_core_and_many() -> None:
    for cores in (1, 2, 64):
        for count, envs, groups in shapes(cores, quick=False):
            load(
                shipped("pong.yaml"),
                [f"simulators.count={count}", f"simulators.envs={envs}", f"simulators.groups={groups}"],
            )


def test_every_way_of_drawing_from_a_replay_is_measured(tmp_path: Path) -> None:
    measured, stored = cases(tmp_path / "replay", shape_of(1000), seconds=0.01)
    assert len(measured) == 4
    assert min(stored, *(measure() for measure in measured.values())) > 0


def test_a_score_must_be_named() -> None:
    with pytest.raises(RunError, match="--score"):
        SUITES["time-to-score"].load()(Request(CATCH, (), 1, 1.0))


@pytest.mark.parametrize(("number", "said"), [(2266.4, "2,266"), (12.34, "12.3"), (0.3581, "0.358"), (0.0, "0")])
def test_small_numbers_in_pictures_keep_digits(number: float, said: str) -> None:
    assert short(number) == said


def test_repetitions_take_the_topologys_seed_and_those_after_it(tmp_path: Path) -> None:
    file = tmp_path / "seven.yaml"
    file.write_text(Path(CATCH).read_text().replace("seed: 1", "seed: 7"))
    assert [*Request(CATCH, (), 2, 1.0).seeds] == [1, 2]
    assert [*Request(str(file), (), 2, 1.0).seeds] == [7, 8]
    assert [*Request(str(file), ("seed=3", "simulators.envs=4"), 2, 1.0).seeds] == [3, 4]


@pytest.mark.system
@pytest.mark.timeout(180)
def test_parts_are_measured_alone_with_the_topologys_sizes() -> None:
    with Parts(CATCH, SMALL) as parts:
        rates = [parts.simulate(0.5), parts.infer(0.5), parts.learn(0.5)]
    assert all(rate > 100.0 for rate in rates)


@pytest.mark.system
@pytest.mark.timeout(180)
def test_whoever_is_slowed_on_purpose_is_named() -> None:
    with Running(CATCH, (*SMALL, "inference.count=1")) as run:
        pids, named = run.pids(), {}
        for process in ("simulator-1", "inference-0", "trainer"):
            with slowed(pids[process], slower=11.0, period_s=0.022):
                named[process] = slow_stage(run.read(2.0, warmup_s=1.0))
    assert [process for _, process in named.values()] == list(named)
    assert named["inference-0"][0] == "infer"


@pytest.mark.system
@pytest.mark.timeout(120)
def test_a_run_that_cannot_start_is_one_line_and_leaves_nothing() -> None:
    run = Running(CATCH, ("env.id=tests.system.environments:CannotBeMade",))
    with pytest.raises(FailedError, match="the ball is at home") as error, run:
        pass
    assert "\n" not in str(error.value)
    assert not run.run_dir.parent.exists()


@pytest.mark.system
@pytest.mark.timeout(120)
def test_a_rate_with_a_death_in_it_is_refused() -> None:
    with Running(CATCH, SMALL) as run, pytest.raises(FailedError, match="lost simulator-1: signal 9"):
        os.kill(run.pids()["simulator-1"], signal.SIGKILL)
        run.read(5.0)
    assert not run.run_dir.parent.exists()


LEAVES = """
import os, signal, sys
from launch.bench.measure.running import Running
with Running(sys.argv[1], sys.argv[2:]) as run:
    print(run.pid, run.run_dir.parent, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.system
@pytest.mark.timeout(180)
def test_a_run_ends_with_a_benchmark_that_is_killed() -> None:
    left = subprocess.run([sys.executable, "-c", LEAVES, CATCH, *SMALL], capture_output=True, text=True, check=False)
    assert left.returncode == -signal.SIGKILL
    pid, folder = left.stdout.split()
    gone, _ = psutil.wait_procs([psutil.Process(int(pid))] if psutil.pid_exists(int(pid)) else [], timeout=60)
    shutil.rmtree(folder)
    assert gone or not psutil.pid_exists(int(pid))


@pytest.mark.system
@pytest.mark.timeout(180)
def test_a_learner_on_a_node_is_measured_beside_the_same_without() -> None:
    found = SUITES["nodes"].load()(Request(CATCH, ("learners.count=1",), 1, 0.5))
    assert list(found.bars) == ["alone", "alone, on nodes"]
    assert all(spread.median > 100.0 for spread in found.bars.values())
    assert all(spent > 1.0 for (spent,) in found.figures["cpu_us_per_step"].values())


def test_the_ways_of_fast_dqn_do_the_same_work() -> None:
    for way, hours in PAPER_HOURS.items():
        for count in (count for count, known in zip(COUNTS, hours, strict=True) if known):
            made = load(shipped("atari/fast-dqn.yaml"), keys_of(way, count))
            s = made.simulators
            assert s.count * s.envs == count and made.replay.ratio == 8.0
            steps = made.algorithm.horizon * count * s.blocks
            assert steps == (2 * PERIOD_STEPS if s.weights == "rollout" else max(4, count))
            assert s.groups == (s.envs if way in ("standard", "concurrent") else 1)


def test_what_learners_are_counted_with_is_a_topology_and_batch_and_environments_do_not_grow() -> None:
    for name, system in {**by_learners.TABLE_2, **by_learners.TABLE_3}.items():
        for count in by_learners.COUNTS:
            made = load(shipped(f"atari/{system.topology}.yaml"), system.keys(count))
            assert (made.learners.count, made.mode) == (count, "async" if name in ("a3c", "appo") else "sync")
            if name in by_learners.TABLE_3:
                s = made.simulators
                assert (made.env.preset, made.model.name) == ("stooke-abbeel", "dqn-net"), "sections 5.1 and 5.3"
                assert s.decorrelation_steps > 0
                steps, batch = count * s.count * s.envs * made.algorithm.horizon, count * made.replay.batch_size
                assert (batch, made.replay.ratio, made.evaluator.count) == (int(name.rpartition("-")[2]), 8.0, 0)
                assert (steps * 8) % batch == 0, "whole updates a rollout"


def test_hours_by_learners_are_those_of_the_rates_and_stand_over_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    def rate(topology: str, overrides: tuple[str, ...], _seconds: float, _warmup_s: float) -> float:
        learners = int(next(o for o in overrides if o.startswith("learners.count=")).partition("=")[2])
        return 1000.0 * learners * (2 if Path(topology).stem == "c51" else 1)

    monkeypatch.setattr(by_learners, "rate_of", rate)
    monkeypatch.setattr(by_learners, "begun_cores", lambda: 4)
    made = SUITES["learners-dqn"].load()(Request("", ("trainer.precision=fp32",), 2, 1.0))
    assert made.headings == ("50 million steps", "1 learner", "2 learners", "4 learners")
    assert made.rows == [
        ("DQN-512, hours here", "13.9", "6.9", "3.5"),
        ("DQN-512, hours in the paper", "8.3", "4.8", "3.1"),
        ("ε-Rainbow-512, hours here", "13.9", "6.9", "3.5"),
        ("ε-Rainbow-512, hours in the paper", "14.1", "8.6", "6.6"),
        ("C51-2048, hours here", "6.9", "3.5", "1.7"),
        ("C51-2048, hours in the paper", "10.7", "6", "2.8"),
    ]
    quick = SUITES["learners"].load()(Request("", (), 1, 1.0))
    assert [row[0].partition(",")[0] for row in quick.rows] == ["a2c", "a2c", "ppo", "ppo"]
