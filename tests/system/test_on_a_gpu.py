"""Whole runs with trainer and inference server on a GPU; the same ones on the CPU show that they run at all."""

from __future__ import annotations

import pytest
import torch

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


def on(device: str) -> list[str]:
    return [f"trainer.device={device}", f"inference.device={device}", "inference.count=1"]


@pytest.mark.parametrize("device", DEVICES)
def test_catch_is_learned(launched: Start, device: str) -> None:
    learned(launched("catch", *CATCH, "seed=2", *on(device)), 0.4)  # of 1; at 100,000 steps it was at 0.56


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("topology", "keys"),
    [
        ("recall", ["total_steps=4000"]),
        ("pendulum-sac", ["total_steps=1200", "replay.learning_starts_steps=1000"]),
        ("recall-r2d1", ["total_steps=6000", "replay.learning_starts_steps=4000"]),
    ],
    ids=["memory", "several networks", "a replay of sequences"],
)
def test_what_learns_elsewhere_learns_there(launched: Start, topology: str, keys: list[str], device: str) -> None:
    told = finished(launched(topology, *keys, *on(device)))
    assert told["env_steps"] >= 1200
    assert told["updates"] > 0
