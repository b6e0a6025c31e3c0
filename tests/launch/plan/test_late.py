"""Warnings about values whose time comes after the end of a run."""

from __future__ import annotations

import pytest

from launch.plan.late import never_reached
from launch.topology.load import parse

DQN = "env: {id: CartPole-v1}\nalgorithm: {name: dqn}"


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        (["total_steps=900"], ["replay.learning_starts_steps: 1,000", "algorithm.epsilon_steps: 10,000"]),
        (["total_steps=1000"], ["replay.learning_starts_steps: 1,000", "algorithm.epsilon_steps: 10,000"]),
        (["total_steps=1001"], ["algorithm.epsilon_steps: 10,000"]),
        (["total_steps=10_000"], []),
        (["total_steps=10_000", "algorithm.epsilon_hold_steps=1"], ["algorithm.epsilon_hold_steps: 1 and"]),
        (["total_steps=9_000", "algorithm.epsilon_initial=0.05"], []),
        (["total_steps=900", "algorithm={name: ppo}"], []),
        (
            ["total_steps=40_000", "mode=sync", "learners.count=2", "replay.learning_starts_steps=20_000"],
            ["replay.learning_starts_steps: 20,000 (40,000 for 2 learners)"],
        ),
    ],
)
def test_values_that_the_run_never_reaches_are_named(overrides: list[str], keys: list[str]) -> None:
    found = [*never_reached(parse(DQN, overrides))]
    assert [said.startswith(key) for said, key in zip(found, keys, strict=True)] == [True] * len(keys), found
    assert all("raise total_steps" in said for said in found)
