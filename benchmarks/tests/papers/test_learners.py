"""Hours by number of learners: what is run, and how hours follow from rates."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.registry import SUITES
from benchmarks.request import BenchmarkRequest, shipped
from launch.topology.load import load

by_learners = import_module("benchmarks.papers.learners")  # its package has the suite under that name


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
    made = SUITES["learners-dqn"].load()(BenchmarkRequest("", ("trainer.precision=fp32",), 2, 1.0))
    assert made.headings == ("50 million steps", "1 learner", "2 learners", "4 learners")
    assert made.rows == [
        ("DQN-512, hours here", "13.9", "6.9", "3.5"),
        ("DQN-512, hours in the paper", "8.3", "4.8", "3.1"),
        ("ε-Rainbow-512, hours here", "13.9", "6.9", "3.5"),
        ("ε-Rainbow-512, hours in the paper", "14.1", "8.6", "6.6"),
        ("C51-2048, hours here", "6.9", "3.5", "1.7"),
        ("C51-2048, hours in the paper", "10.7", "6", "2.8"),
    ]
    quick = SUITES["learners"].load()(BenchmarkRequest("", (), 1, 1.0))
    assert [row[0].partition(",")[0] for row in quick.rows] == ["a2c", "a2c", "ppo", "ppo"]
