"""A death at every failpoint, in every mode, with and without replay: nothing is lost, and nothing is used twice."""

from __future__ import annotations

import pytest

from tests.ledger.histories import ALGORITHMS, MODES, WAYS, History, a_choice, drained, histories, hits, played
from tests.named_failpoints import calls
from tests.sizes import PACKAGES, parsed, source_files

# Each mode with stale rows that are dropped, and each algorithm in one mode; a rollout takes three turns.
DRAINED = [
    *((mode, "a2c", True) for mode in MODES),
    ("alone", "uniform", False),
    ("sync", "prioritised", False),
    ("async", "normalized", False),
    ("gossip", "ppo", False),
    ("alone", "pqn", False),
]
TURNS = (7, 13)


ELSEWHERE = {
    "allreduce.averaged": "by learners that take local steps: tests/parameters/killed_learners.py",
    "buffer.restored": "by a trainer that restores a saved replay: tests/replay",
    "experience.made": "by learners that share experience: tests/ledger/test_killed_learners.py",
    "experience.posted": "likewise",
    "files.renamed_older": "where the file system cannot exchange two folders: tests/test_files.py",
    "simulator_snapshots.asked": "by trainers that gather snapshots, for exact resume: tests/system",
    "simulator_snapshots.put": "likewise",
    "parameter_server.answered": "by parameter servers: tests/parameters/test_killed_served.py",
    "parameter_server.changed": "likewise",
    "parameter_server.kept": "likewise",
    "rollout.hold_from": "by trainers that gather snapshots, for exact resume: tests/system",
    "served.clipped": "by learners of parameter servers: tests/parameters/test_killed_served.py",
    "served.stepped": "likewise",
    "server_lines.answered": "likewise",
    "server_lines.sent": "likewise",
    "snapshots.placed": "by simulators that write a snapshot",
    "snapshots.written": "likewise",
}
"""Failpoints that no trainer of these histories reaches."""


@pytest.mark.nightly
def test_every_failpoint_is_reached_here_or_listed_with_its_tests() -> None:
    names = {name for file in source_files(*PACKAGES) for name, _ in calls(parsed(file))}
    reached = {name for mode in MODES for algorithm in ALGORITHMS for name in hits(mode, algorithm)}
    assert names - reached == ELSEWHERE.keys()


def wrong(chosen: list[History]) -> dict[str, list[str]]:
    assert chosen
    found = {str(history): played(history) for history in chosen}
    return {name: said for name, said in found.items() if said}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("mode", "way"), [(mode, WAYS[n % len(WAYS)]) for n, mode in enumerate(MODES)])
def test_a_death_at_any_failpoint_loses_nothing_and_uses_nothing_twice(mode: str, way: str) -> None:
    """One in thirty failpoints of each mode, in one way; nightly tests try all failpoints in each way."""
    assert wrong(a_choice(mode, way, share=10 * len(WAYS))) == {}


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", MODES)
def test_a_death_at_every_failpoint_in_each_way(mode: str, way: str) -> None:
    assert wrong(a_choice(mode, way)) == {}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("mode", "algorithm", "way"),
    [(mode, algorithm, way) for mode in MODES for algorithm in ALGORITHMS for way in WAYS],
)
def test_a_death_at_any_hit_of_any_failpoint(mode: str, algorithm: str, way: str) -> None:
    assert wrong([history for history in histories(mode, algorithm) if history.way == way]) == {}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("mode", "algorithm", "lagging"), DRAINED)
def test_a_run_that_is_saved_stopped_and_resumed_loses_nothing(mode: str, algorithm: str, lagging: bool) -> None:
    found = {turn: drained(mode, algorithm, turn, lagging) for turn in TURNS}
    assert {turn: said for turn, said in found.items() if said} == {}
