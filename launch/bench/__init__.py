"""Benchmarks: each suite measures this machine, interleaved, and says what was measured, where and with what."""

from __future__ import annotations

from collections.abc import Callable

from launch.bench.measure.report import Report
from launch.bench.measure.request import Request
from launch.bench.papers.fast_dqn import fast_dqn
from launch.bench.papers.games import games_of
from launch.bench.papers.gossip import gossip
from launch.bench.peers.works import peers, peers_cheap, peers_dqn, sb3
from launch.bench.suites.gpu import gpu
from launch.bench.suites.handover import handover
from launch.bench.suites.learners import learners, learners_dqn
from launch.bench.suites.memory import memory
from launch.bench.suites.neighbours import neighbours
from launch.bench.suites.replay import replay
from launch.bench.suites.sampling import sampling
from launch.bench.suites.scaling import scaling
from launch.bench.suites.stragglers import stragglers
from launch.bench.suites.time_to_score import time_to_score
from launch.bench.suites.training import training

SUITES: dict[str, Callable[[Request], Report]] = {
    "sampling": sampling,
    "training": training,
    "handover": handover,
    "peers": peers,
    "peers-cheap": peers_cheap,
    "peers-dqn": peers_dqn,
    "sb3": sb3,
    "time-to-score": time_to_score,
    "learners": learners,
    "learners-dqn": learners_dqn,
    "fast-dqn": fast_dqn,
    "scaling": scaling,
    "stragglers": stragglers,
    "neighbours": neighbours,
    "gossip": gossip,
    "memory": memory,
    "replay": replay,
    "gpu": gpu,
    "games": games_of,
}
"""Name on the command line -> suite."""
OWN_TOPOLOGY = (
    *("handover", "peers", "peers-cheap", "peers-dqn", "sb3", "learners", "learners-dqn", "fast-dqn", "scaling"),
    "replay",
)
"""Suites that measure what they bring along."""
OF_RUNS = ("games",)
"""Suites that measure nothing and read runs, named where the others have topology and overrides."""
USUAL = {"gossip": "catch.yaml", "neighbours": "atari/paac.yaml"}
"""Suite -> shipped topology it measures when none is named; the others measure pong.yaml."""
