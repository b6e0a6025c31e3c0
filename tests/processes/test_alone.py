"""Parts measured alone do what a run does: with any algorithm, with discrete and with Box actions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from actorlearn.processes import alone
from actorlearn.processes.settings import AloneSettings
from launch.description import describe
from launch.instructions import instructions
from launch.plan import plan
from launch.topology import parse


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps of one call of each part, in place of a measurement."""
    steps: list[int] = []

    def once(call: Callable[[], object], number: int, _seconds: float) -> float:
        call()
        steps.append(number)
        return float(number)

    monkeypatch.setattr(alone, "measured", once)
    return steps


CASES = [(name, env_id) for name in ("a2c", "ppo", "impala") for env_id in ("CartPole-v1", "Pendulum-v1")]


@pytest.mark.parametrize(("name", "env_id"), [*CASES, ("dqn", "CartPole-v1"), ("c51", "CartPole-v1")])
def test_every_part_runs_alone(counted: list[int], tmp_path: Path, env_id: str, name: str) -> None:
    keys = ["simulators.count=1", "simulators.envs=4", "algorithm.horizon=8"]
    keys += [] if name in ("dqn", "c51") else ["algorithm.minibatches=2"]
    topology = parse(f"env: {{id: {env_id}}}\nalgorithm: {{name: {name}}}\n", keys)
    made = plan(topology, tmp_path, "run", tmp_path, describe(topology))
    settings = AloneSettings(
        part="",
        simulator=instructions(made, "simulator-0", 0),
        trainer=instructions(made, "trainer", 0),
        device="cpu",
        threads=1,
        environments=4,
        seconds=0.0,
    )
    for part in (alone.simulate, alone.infer, alone.learn):
        part(settings)
    assert counted == [4, 4, 4 if made.description.replayed else 32]  # 32 transitions, each learned from 8 times
