"""Parts measured alone do what a run does: with any algorithm, with discrete and with Box actions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from actorlearn.replay.settings import ReplaySettings
from actorlearn.tasks import measure
from actorlearn.worker.settings import MeasureSettings, SimulatorSettings, TrainerSettings
from launch.plan.planning import plan
from launch.plan.probe import describe
from launch.topology.load import parse
from tests.launch.opened import told


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps of one call of each part, in place of a measurement."""
    steps: list[int] = []

    def once(call: Callable[[], object], number: int, _seconds: float) -> float:
        call()
        steps.append(number)
        return float(number)

    monkeypatch.setattr(measure, "measured", once)
    return steps


CASES = [
    *(("a2c", "CartPole-v1"), ("a2c", "Pendulum-v1"), ("ppo", "CartPole-v1"), ("impala", "CartPole-v1")),
    ("pqn", "CartPole-v1"),
    *(("impala", "Pendulum-v1"), ("dqn", "CartPole-v1"), ("c51", "CartPole-v1"), ("r2d1", "CartPole-v1")),
    ("sac", "Pendulum-v1"),
]
"""Beside the one of ``make test``."""


@pytest.mark.parametrize(
    ("name", "env_id"), [("ppo", "Pendulum-v1"), *(pytest.param(*case, marks=pytest.mark.nightly) for case in CASES)]
)
def test_every_part_runs_alone(counted: list[int], tmp_path: Path, env_id: str, name: str) -> None:
    keys = ["simulators.count=1", "simulators.envs=4", "algorithm.horizon=8"]
    keys += [] if name in ("dqn", "c51", "r2d1", "sac") else ["algorithm.minibatches=2"]
    settings = measuring(tmp_path, env_id, name, 4, keys)
    for part in (measure.simulate, measure.infer, measure.learn, measure.optimize):
        part(settings)
    replay = settings.trainer.replay
    assert counted == [4, 4, steps_of_a_minibatch(replay.settings) if replay else 32, 1]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "keys",
    [["simulators.envs=256"], ["simulators.envs=64", "algorithm.n_step=60", "replay.learning_starts_steps=4000"]],
)
def test_learning_from_a_replay_runs_alone_whatever_its_rings_must_hold(
    counted: list[int], tmp_path: Path, keys: list[str]
) -> None:
    settings = measuring(tmp_path, "CartPole-v1", "dqn", 256, ["simulators.count=1", *keys])
    measure.learn(settings)
    assert settings.trainer.replay
    assert counted == [steps_of_a_minibatch(settings.trainer.replay.settings)]


def steps_of_a_minibatch(replay: ReplaySettings) -> float:
    """Environment steps that count as learned when a minibatch is: each step is learned from ``ratio`` times."""
    return replay.batch_steps / replay.ratio


def measuring(folder: Path, env_id: str, name: str, environments: int, keys: list[str]) -> MeasureSettings:
    """Settings of a process that measures one part."""
    topology = parse(f"env: {{id: {env_id}}}\nalgorithm: {{name: {name}}}\n", keys)
    made = plan(topology, describe(topology))
    simulator, trainer = told(made, "simulator-0"), told(made, "trainer")
    assert isinstance(simulator, SimulatorSettings) and isinstance(trainer, TrainerSettings)
    return MeasureSettings(
        part="",
        simulator=simulator,
        trainer=trainer,
        device="cpu",
        threads=1,
        environments=environments,
        seconds=0.0,
    )
