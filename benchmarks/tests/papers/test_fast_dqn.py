"""The four ways of Fast DQN do the same work."""

from __future__ import annotations

from benchmarks.papers.fast_dqn import COUNTS, PAPER_HOURS, PERIOD_STEPS
from benchmarks.papers.fast_dqn import keys as keys_of
from benchmarks.request import shipped
from launch.topology.load import load


def test_the_ways_of_fast_dqn_do_the_same_work() -> None:
    for way, hours in PAPER_HOURS.items():
        for count in (count for count, known in zip(COUNTS, hours, strict=True) if known):
            made = load(shipped("atari/fast-dqn.yaml"), keys_of(way, count))
            s = made.simulators
            assert s.count * s.envs == count and made.replay.ratio == 8.0
            steps = made.algorithm.horizon * count * s.blocks
            assert steps == (2 * PERIOD_STEPS if s.weights == "rollout" else max(4, count))
            assert s.groups == (s.envs if way in ("standard", "concurrent") else 1)
