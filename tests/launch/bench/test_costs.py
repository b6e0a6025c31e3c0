"""Costs that are computed from a measured run, and predict its rate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("simpy", reason="the extra `simulate` is not installed")

from actorlearn.metrics.timings import SECTIONS
from launch.bench import shipped
from launch.bench.costs import (
    alone,
    costs_of,
    costs_of_run,
    deviation_of,
    measure,
    measure_addition,
    measure_wire,
)
from launch.bench.running import POLL_S, Reading
from launch.errors import RunError
from launch.runs.find import RunFolder
from launch.simulate.model import simulate
from launch.simulate.scenario import Costs, Scenario, Work
from launch.simulate.sweep import work_of
from launch.topology.load import load
from launch.topology.schema import SimulatorsSection
from tests.launch.bench.late import write_late
from tests.launch.runs.folders import write_run

WORK = Work(horizon=5, simulators=SimulatorsSection(count=2, envs=4))
REST = {"optimizer_s": 5e-3, "message_s": 1e-5, "byte_s": 1e-9, "hop_s": 1e-5, "add_s": 1e-4}
SIMULATING = {"simulate": 0.5, "infer": 0.2, "wait": 0.3}
LEARNING = {"copy": 0.02, "learn": 0.2, "publish": 0.02, "wait": 0.76}
WALL = {"simulator-0": SIMULATING, "simulator-1": SIMULATING, "trainer-0": LEARNING}
ROLES = {name: name.partition("-")[0] for name in WALL}
READING = Reading(env_steps=4000, seconds=10.0, wall=WALL, cpu={}, roles=ROLES)


def test_a_simulation_with_the_costs_of_a_reading_predicts_its_rate() -> None:
    costs = costs_of(READING, WORK, 2.0, REST)
    assert costs.step_s == pytest.approx(2 * 5.0 / 4000)
    assert costs.pass_s == pytest.approx(2.0 / (100 * 5))
    assert (costs.gradient_s, costs.optimizer_s) == pytest.approx((0.015, 0.005))
    assert costs.wake_s == pytest.approx(10.0 / 100 * (1 - 0.7 - 0.24))
    outcome = simulate(Scenario(costs=costs, work=WORK, cores=2.0))
    assert outcome.env_steps_per_s == pytest.approx(400)


def test_simulators_that_share_a_core_are_not_slower_than_their_work() -> None:
    costs = costs_of(READING, WORK, 1.0, REST)
    assert costs.step_s == pytest.approx(5.0 / 4000)
    assert simulate(Scenario(costs=costs, work=WORK, cores=1.0)).env_steps_per_s == pytest.approx(400)


def test_work_without_processor_time_counts_as_waiting_of_the_environment() -> None:
    """Two simulators at work for 7 of 10 s: with a core for 2 s of it, in a queue for one for 1 s, idle for 4 s."""
    cpu, queued = {"simulator-0": 0.2, "simulator-1": 0.2}, {"simulator-0": 0.1, "simulator-1": 0.1}
    costs = costs_of(replace(READING, cpu=cpu, queued=queued), WORK, 2.0, REST)
    assert (costs.step_s, costs.step_wait_s) == pytest.approx((2 * 1.0 / 4000, 2 * 4.0 / 4000))
    assert simulate(Scenario(costs=costs, work=WORK, cores=2.0)).env_steps_per_s == pytest.approx(400)


@pytest.mark.parametrize(("horizon", "deviation"), [(5, 0.0), (5, 0.1), (1, 0.2)])
def test_the_deviation_of_update_times_is_estimated(horizon: int, deviation: float) -> None:
    """Updates take 50 or 10 ms, and are seen at the next whole millisecond."""
    work = Work(horizon=horizon, simulators=SimulatorsSection(count=1, envs=1))
    costs = Costs(step_s=0.01, pass_s=0.0, gradient_s=0.0)
    draws = np.random.default_rng(1).normal(1.0, deviation, 2000) * horizon * 0.01
    seen = np.ceil(np.cumsum(draws) / POLL_S) * POLL_S
    assert deviation_of(seen.tolist(), costs, work) == pytest.approx(deviation, rel=0.1, abs=0.005)
    assert deviation_of([0.0, 1.0], costs, work) == 0.0


def test_a_reading_without_an_update_gives_no_costs() -> None:
    with pytest.raises(RunError, match="no update ended .* larger --seconds"):
        costs_of(Reading(env_steps=0, seconds=1.0, wall={}, cpu={}), WORK, 2.0, REST)


def test_the_topology_of_several_learners_is_measured_with_one() -> None:
    words = ["mode=gossip", "gossip.graph=ring", "learners.count=3", "nodes.count=3", "simulators.count=1"]
    made = load(shipped("catch.yaml"), alone(words))
    assert (made.learners.count, made.nodes.count, made.simulators.count) == (1, 1, 1)
    served = load(shipped("catch.yaml"), alone(["mode=async", "parameter_servers.count=2"]))
    assert served.parameter_servers.count == 0


def run_of(folder: Path, rows: list[dict[str, float]], epochs: int = 1, evaluators: int = 0) -> RunFolder:
    sections = (f"algorithm: {{epochs: {epochs}}}", f"evaluator: {{count: {evaluators}}}")
    sections += ("learners: {count: 1}", "simulators: {count: 2}", "inference: {count: 0}")
    return write_run(folder, topology="\n".join(sections) + "\n", rows=rows)


def test_a_simulation_with_the_costs_of_a_run_predicts_its_rate(tmp_path: Path) -> None:
    shares = {"simulate": 1.0 / 3, "infer": 0.4 / 3, "learn": 0.2 / 3, "copy": 0.02 / 3, "publish": 0.02 / 3}
    row = {f"share_{name}": share for name, share in shares.items()}
    row |= {"share_wait": 1 - sum(shares.values()), "env_steps_per_s": 400.0}
    costs = costs_of_run(run_of(tmp_path, [row, row]), WORK, 2.0, REST)
    assert costs.gradient_s == pytest.approx(0.015)
    assert simulate(Scenario(costs=costs, work=WORK, cores=2.0)).env_steps_per_s == pytest.approx(400)


@pytest.mark.parametrize("playing", [0.0, 1.0])
def test_games_of_an_evaluator_do_not_count_as_cost_of_the_simulators(playing: float, tmp_path: Path) -> None:
    """Two simulators, a trainer, and an evaluator that plays or waits the whole time."""
    spent = {"simulate": 1.0 + playing, "infer": 0.4, "learn": 0.2, "copy": 0.02, "publish": 0.02}
    row = {f"share_{name}": seconds / 4 for name, seconds in spent.items()}
    row |= {"share_wait": 1 - sum(row.values()), "simulation_limit_share": 0.5, "env_steps_per_s": 400.0}
    costs = costs_of_run(run_of(tmp_path, [row, row], evaluators=1), WORK, 2.0, REST)
    assert costs.step_s == pytest.approx(1.0 / 400)
    assert simulate(Scenario(costs=costs, work=WORK, cores=2.0)).env_steps_per_s == pytest.approx(400)


def test_a_run_without_reports_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no report with share_learn"):
        costs_of_run(run_of(tmp_path, []), WORK, 2.0, REST)


def test_the_wire_of_this_machine_is_measured() -> None:
    wire = measure_wire()
    assert 0 < wire["message_s"] < 0.05 and 0 <= wire["hop_s"] < 0.05
    assert wire["byte_s"] < 1e-6
    assert 0 < measure_addition(10_000) < 0.01


@pytest.mark.system
@pytest.mark.timeout(180)
def test_a_gradient_is_timed_though_learning_starts_late(tmp_path: Path) -> None:
    late = write_late(tmp_path)
    assert measure(late, (), work_of(load(late)), weights=1_000, cores=2.0, seconds=1.0).gradient_s > 0


def test_reports_from_before_learning_are_no_costs_of_learning(tmp_path: Path) -> None:
    row = {**dict.fromkeys((f"share_{name}" for name in SECTIONS), 0.1), "env_steps_per_s": 400.0}
    storing, learned = {**row, "share_learn": 0.0, "minibatches": 0.0}, {**row, "minibatches": 4.0}
    costs = costs_of_run(run_of(tmp_path, [storing, storing, storing, learned]), WORK, 2.0, REST)
    assert costs == costs_of_run(run_of(tmp_path, [learned]), WORK, 2.0, REST)
    with pytest.raises(RunError, match="no report with share_learn"):
        costs_of_run(run_of(tmp_path, [storing]), WORK, 2.0, REST)
    assert costs_of_run(run_of(tmp_path, [storing], epochs=0), WORK, 2.0, REST), "a run that never learns has costs too"
