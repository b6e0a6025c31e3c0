"""Benchmark suites: how rates are measured, which stage is slow, and what reports say."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psutil
import pytest

from launch.bench import SUITES, SuiteRequest, report, running, sampling, shipped
from launch.bench.interleaved import Spread, interleave
from launch.bench.parts import Parts, bound
from launch.bench.replay import cases, shape_of
from launch.bench.report import SuiteReport, short
from launch.bench.running import Reading, Running, rates
from launch.bench.sampling import shapes
from launch.bench.training import ADVICE, slow_stage, training
from launch.commands import tune
from launch.errors import FailedError, RunError
from launch.topology.load import load
from tests.launch.bench.late import write_late

CATCH = shipped("catch.yaml")
SMALL = ("simulators.count=2", "simulators.envs=4")


def test_cases_are_measured_in_turn() -> None:
    order: list[str] = []
    spread = interleave({name: lambda name=name: order.append(name) or len(order) for name in "ab"}, 3)
    assert "".join(order) == "ababab"
    assert spread["a"] == Spread((1, 3, 5))
    assert (spread["b"].median, spread["b"].low, spread["b"].high) == (4, 2, 6)


def test_rates_are_of_the_time_between_reports() -> None:
    reports = [
        {"time_s": time_s, "env_steps": steps}
        for time_s, steps in ((0.0, 0), (2.0, 10), (4.0, 40), (4.0, 41), (5.0, 41))
    ]
    assert rates(reports) == (5.0, 15.0)


def test_the_time_of_a_report_without_new_steps_counts_for_the_next_rate() -> None:
    assert rates([{"time_s": float(at), "env_steps": steps} for at, steps in ((0, 0), (2, 0), (4, 400))]) == (100.0,)


LONG_UPDATES = """
import json, sys, time
from pathlib import Path
folder, reports = Path(sys.argv[-1]), int(sys.argv[1])  # reports of an update, five a second
folder.mkdir()
for number in range(500):
    row = {"time_s": number / 5, "env_steps": 100 * (number // reports)}
    waiting = {"update_steps": 100} if number % reports else {}
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row | waiting) + "\\n")
    time.sleep(0.2)
"""


def test_a_rate_is_measured_from_the_end_of_one_update_to_the_end_of_another() -> None:
    with Running(CATCH, by=(sys.executable, "-c", LONG_UPDATES, "5")) as run:
        assert [run.rate(seconds) for seconds in (0.4, 1.4)] == [100.0, 100.0]


def test_a_run_whose_updates_do_not_end_in_the_time_limit_has_no_rate() -> None:
    with (
        Running(CATCH, by=(sys.executable, "-c", LONG_UPDATES, "500"), start_limit_s=3.0) as run,
        pytest.raises(FailedError, match="no update of the run of .*catch.yaml ended in 3 s.*: .*algorithm.horizon"),
    ):
        run.rate(0.0)


KEPT_KEYS = """
import json, sys
from pathlib import Path
folder, keys = Path(sys.argv[-1]), [word for word in sys.argv if "=" in word]
folder.mkdir()
(folder / "keys.json").write_text(json.dumps(keys))
(folder / "metrics.jsonl").write_text('{"time_s": 0.0, "env_steps": 0}\\n')
"""
ENDS = ("evaluator.count=1", "stop_at_steps=500", "stop_at_training_score=-0.5", "evaluator.stop_at_score=0.5")


@pytest.mark.parametrize(("total_steps", "ends"), [(running.ENDLESS, [None] * 3), (None, [500, -0.5, 0.5])])
def test_a_measured_run_does_not_end_before_the_measurement(
    tmp_path: Path, total_steps: int | None, ends: list[float | None]
) -> None:
    """Only a run that keeps its total steps also keeps what else may end it."""
    by = (sys.executable, "-c", KEPT_KEYS)
    with Running(CATCH, ENDS, total_steps, by=by, run_dir=tmp_path / "run"):
        topology = load(CATCH, json.loads((tmp_path / "run" / "keys.json").read_text()))
    assert [topology.stop_at_steps, topology.stop_at_training_score, topology.evaluator.stop_at_score] == ends
    assert topology.total_steps == (total_steps or load(CATCH).total_steps)


NORMALIZES = ("model.normalize_observation=true",)


@pytest.mark.parametrize(
    ("keys", "rows"), [(NORMALIZES, 0), ((*NORMALIZES, "model.statistics_rows=70"), 70), ((), None)]
)
def test_a_measured_run_learns_at_once_unless_a_key_says_otherwise(keys: tuple[str, ...], rows: int | None) -> None:
    measured = load(CATCH, (*running.learning_soon(CATCH, keys), f"total_steps={running.ENDLESS}"))
    assert measured.model.statistics_rows == rows


def test_sampling_with_a_server_on_a_gpu_measures_simulators_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, str]] = []

    def seen(path: str, overrides: tuple[str, ...], *_: float) -> float:
        inference = load(path, overrides).inference
        asked.append((inference.count, inference.device))
        return 1.0

    class Simulation(nullcontext[Any]):
        def __init__(self, path: str, overrides: tuple[str, ...]) -> None:
            super().__init__(self)
            self.simulate = lambda _seconds: seen(path, overrides)

    monkeypatch.setattr(sampling, "Parts", Simulation)
    monkeypatch.setattr(sampling, "rate_of", seen)
    keys = (*SMALL, "inference.count=1", "inference.device=cuda", "inference.precision=fp32")
    sampling.sampling(SuiteRequest(CATCH, keys, 1, 1.0))
    assert asked == [(0, "cpu"), (0, "cpu"), (0, "cpu"), (1, "cuda"), (1, "cuda")]


def test_the_bound_for_parts_that_take_turns_adds_their_times() -> None:
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
def test_the_slow_stage_is_that_of_the_process_that_waits_least(
    wall: dict[str, dict[str, float]], found: tuple[str, str]
) -> None:
    assert slow_stage(Reading(1, 1.0, wall, {})) == found
    assert found[0] in ADVICE


def test_a_report_is_written_with_machine_and_spread(tmp_path: Path) -> None:
    made = SuiteReport(
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


def test_the_cases_of_suite_sampling_are_valid_topologies_on_one_core_and_on_many() -> None:
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


def test_suite_time_to_score_needs_a_score() -> None:
    with pytest.raises(RunError, match="--score"):
        SUITES["time-to-score"].load()(SuiteRequest(CATCH, (), 1, 1.0))


@pytest.mark.parametrize(("number", "said"), [(2266.4, "2,266"), (12.34, "12.3"), (0.3581, "0.358"), (0.0, "0")])
def test_small_numbers_in_pictures_keep_digits(number: float, said: str) -> None:
    assert short(number) == said


def test_repetitions_take_the_topologys_seed_and_those_after_it(tmp_path: Path) -> None:
    file = tmp_path / "seven.yaml"
    file.write_text(Path(CATCH).read_text().replace("seed: 1", "seed: 7"))
    assert [*SuiteRequest(CATCH, (), 2, 1.0).seeds] == [1, 2]
    assert [*SuiteRequest(str(file), (), 2, 1.0).seeds] == [7, 8]
    assert [*SuiteRequest(str(file), ("seed=3", "simulators.envs=4"), 2, 1.0).seeds] == [3, 4]


@pytest.mark.system
@pytest.mark.timeout(180)
def test_parts_are_measured_alone_with_the_topologys_sizes() -> None:
    with Parts(CATCH, SMALL) as parts:
        rates = [parts.simulate(0.5), parts.infer(0.5), parts.learn(0.5)]
    assert all(rate > 100.0 for rate in rates)


@pytest.mark.system
@pytest.mark.timeout(120)
def test_a_run_that_cannot_start_is_reported_in_one_line_and_leaves_no_folder() -> None:
    run = Running(CATCH, ("env.id=tests.system.environments:CannotBeMade",))
    with pytest.raises(FailedError, match="the ball is at home") as error, run:
        pass
    assert "\n" not in str(error.value)
    assert not run.run_dir.parent.exists()


@pytest.mark.system
@pytest.mark.timeout(120)
def test_a_rate_during_which_a_process_died_is_refused() -> None:
    with Running(CATCH, SMALL) as run, pytest.raises(FailedError, match="lost simulator-1: signal 9"):
        os.kill(run.pids()["simulator-1"], signal.SIGKILL)
        run.read(5.0)
    assert not run.run_dir.parent.exists()


@pytest.mark.system
@pytest.mark.timeout(180)
def test_a_rate_without_learning_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LEARNING_LIMIT_S", 1.0)
    late = ("algorithm.name=dqn", "replay.learning_starts_steps=1_000_000_000")
    with pytest.raises(FailedError, match="learned nothing .* after 1,000,000,000 of each learner: write a smaller"):
        training(SuiteRequest(CATCH, (*SMALL, *late), 1, 1.0))
    assert tune.rate(CATCH, (*SMALL, "algorithm.name=dqn", "algorithm.epochs=0"), 1.0) > 0, "epochs=0 means no learning"


@pytest.mark.system
@pytest.mark.timeout(180)
def test_a_topology_whose_learning_starts_late_is_measured_while_it_learns(tmp_path: Path) -> None:
    late = write_late(tmp_path)
    assert training(SuiteRequest(late, (), 1, 1.0)).bars["training"].median > 0
    assert tune.rate(late, ("trainer.threads=1",), 1.0) > 0


LEAVES = """
import os, signal, sys
from launch.bench.running import Running
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
