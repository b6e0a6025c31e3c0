"""Whole runs with trainer and inference server on a GPU; nightly the same runs on the CPU."""

from __future__ import annotations

import pytest
import torch

from launch.bench import shipped
from launch.bench.parts import Parts
from tests.system.conftest import Start
from tests.system.launched import finished, learned
from tests.system.ways import CATCH

pytestmark = pytest.mark.timeout(240)
DEVICES = [
    pytest.param("cpu", marks=[pytest.mark.system, pytest.mark.nightly]),
    pytest.param(
        "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
    ),
]


TWO = ["learners.count=2", "simulators.count=1", "total_steps=20_000"]


def on(device: str) -> list[str]:
    return [f"trainer.device={device}", f"inference.device={device}", "inference.count=1"]


@pytest.mark.parametrize("device", DEVICES)
def test_catch_is_learned_on_the_device(launched: Start, device: str) -> None:
    learned(launched("catch", *CATCH, "seed=2", *on(device)), 0.4)  # of 1; at 100,000 steps it was at 0.56


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("topology", "keys"),
    [
        ("recall", ["total_steps=4000"]),
        ("pendulum-sac", ["total_steps=1200", "replay.learning_starts_steps=1000"]),
        ("recall-r2d1", ["total_steps=6000", "replay.learning_starts_steps=4000"]),
        ("catch", ["algorithm.name=ppo", "algorithm.normalize_reward=true", "total_steps=20_000"]),
        ("catch", [*TWO, "mode=sync"]),
        ("catch", [*TWO, "mode=async"]),
        ("catch", [*TWO, "mode=gossip"]),
    ],
    ids=["memory", "several networks", "a replay of sequences", "minibatches", "sync", "async", "gossip"],
)
def test_other_kinds_of_topologies_learn_on_the_device(
    launched: Start, topology: str, keys: list[str], device: str
) -> None:
    told = finished(launched(topology, *keys, *on(device)))
    assert told["env_steps"] >= 1200
    assert told["updates"] > 0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("topology", ["atari/rainbow", "atari/impala", "atari/pqn", "cartpole-vaco"])
def test_the_parts_of_a_shipped_topology_can_be_measured_on_the_device(topology: str, device: str) -> None:
    with Parts(shipped(f"{topology}.yaml"), on(device)) as parts:
        assert parts.infer(0.2) > 0
        assert parts.learn(0.2) > 0


@pytest.mark.parametrize("device", DEVICES)
def test_a_run_is_resumed_on_the_device(launched: Start, device: str) -> None:
    run = launched("catch", "total_steps=10_000", *on(device))
    finished(run)
    resumed = launched("resume", "total_steps=20_000", run_dir=run.run_dir)
    assert finished(resumed)["env_steps"] >= 20_000
