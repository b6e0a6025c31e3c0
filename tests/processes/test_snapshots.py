"""Snapshots of simulators: a run that is interrupted anywhere and continued by other simulators learns the same.

Simulators, blocks, turns and batches are the real ones in one process, under a random schedule. The answers of the
policy depend on which rows are answered together, in which order, by which weights. The weights are a checksum of all
batches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actorlearn.failpoints import armed
from actorlearn.processes.snapshots import Snapshots, restore
from tests.ledger.env import Ledger, read_all
from tests.processes.interrupted import (
    CONFIGURATIONS,
    HORIZON,
    MEMBERS,
    ROLLOUTS,
    Play,
    Simulator,
)

PARTS = 13
"""Number of parts of the moments to interrupt at; the gate runs one part."""


@pytest.fixture(autouse=True)
def ledger_of_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACTORLEARN_TEST_LEDGER", raising=False)


@pytest.fixture(scope="module", params=CONFIGURATIONS, ids=str)
def configuration(request: pytest.FixtureRequest) -> tuple[int, int, str, bool]:
    return request.param


@pytest.fixture(scope="module")
def whole(configuration: tuple[int, int, str, bool], tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """The digests of a run without an interruption."""
    return Play(tmp_path_factory.mktemp("whole"), configuration).finish(np.random.default_rng(1))


def test_the_schedule_does_not_change_what_is_learned(
    configuration: tuple[int, int, str, bool], whole: list[int], tmp_path: Path
) -> None:
    assert len(set(whole)) == ROLLOUTS + 1
    assert Play(tmp_path, configuration).finish(np.random.default_rng(2)) == whole


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, PARTS))])
def test_a_run_that_is_interrupted_anywhere_learns_the_same(
    configuration: tuple[int, int, str, bool], whole: list[int], tmp_path: Path, part: int
) -> None:
    """Interrupt a run after any number of events, with groups at different timesteps, and again soon after that."""
    for events in range(part, 140, PARTS):
        random = np.random.default_rng(events)
        play = Play(tmp_path, configuration)
        for _ in range(events):
            play.event(random)
        play = play.interrupted(random)
        for _ in range(random.integers(40) if events % 3 else 0):
            play.event(random)
        assert play.interrupted(random).finish(random) == whole, f"interrupted after {events} events"


class Mute(Ledger):
    """An environment whose ``state`` and ``restore`` raise."""

    def state(self) -> dict[str, Any]:
        raise ArithmeticError("it forgot")

    def restore(self, state: dict[str, Any]) -> None:
        raise ArithmeticError("it forgot")


def test_an_environment_that_raises_in_a_snapshot_is_reported_once_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path, CONFIGURATIONS[0])
    random = np.random.default_rng(0)
    simulator = play.simulators[0]
    monkeypatch.setattr(simulator.groups[0].env, "state", Mute().state)
    for number in (1, 2):
        assert play.rollouts.ask(play.learned) == number
        assert simulator.snapshots.due
        said = simulator.snapshots.answer()
        assert said == ("the simulator cannot take a snapshot: ArithmeticError: it forgot" if number == 1 else "")
        assert simulator.blocks.held == -number and not simulator.snapshots.due
    assert play.finish(random)
    assert not (play.folder / "simulator-0.npz").exists()


def test_a_snapshot_that_finds_the_disk_full_is_reported_and_the_next_one_is_written(tmp_path: Path) -> None:
    play = Play(tmp_path, CONFIGURATIONS[0])
    path, simulator = play.folder / "simulator-0.npz", play.simulators[0]
    path.write_bytes(b"before")
    play.rollouts.ask(play.learned)
    with armed("files.write=nospace@1"):
        assert "No space left on device" in simulator.snapshots.answer()
    assert simulator.blocks.held == -1 and path.read_bytes() == b"before"
    play.rollouts.ask(play.learned)
    simulator.snapshots.answer()
    assert simulator.blocks.held == 2 and path.read_bytes()[:2] == b"PK"


def test_a_simulator_without_a_folder_for_snapshots_refuses_and_says_why(tmp_path: Path) -> None:
    play = Play(tmp_path, CONFIGURATIONS[0])
    simulator = play.simulators[0]
    refuses = Snapshots("", simulator.name, simulator.groups, play.rollouts, simulator.blocks)
    play.rollouts.ask(play.learned)
    assert "settings.states" in refuses.answer() and simulator.blocks.held == -1


def test_a_simulator_that_comes_later_does_not_answer_an_earlier_request(tmp_path: Path) -> None:
    """The folder of that request may be gone. Later requests are answered."""
    play = Play(tmp_path, CONFIGURATIONS[0])
    play.rollouts.ask(play.learned)
    late = Simulator(play, MEMBERS, None)
    assert not late.snapshots.due and late.blocks.held == -1
    play.rollouts.ask(play.learned)
    assert late.snapshots.due and not late.snapshots.answer() and late.blocks.held == 2


def test_a_snapshot_from_a_rollout_that_is_no_longer_in_the_blocks_is_refused(tmp_path: Path) -> None:
    play = Play(tmp_path, CONFIGURATIONS[0])
    random = np.random.default_rng(0)
    while play.learned < 3:
        play.event(random)
    play.rollouts.ask(0)
    assert "requested rows from rollout 0 on" in play.simulators[0].snapshots.answer()


@pytest.mark.parametrize("damage", ["missing", "empty", "half", "of_others", "other_horizon", "env"])
def test_a_damaged_or_unfitting_snapshot_is_refused_and_restores_no_group(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path, CONFIGURATIONS[0])
    random = np.random.default_rng(0)
    for _ in range(30):
        play.event(random)
    play.interrupted(random)
    path = play.folder / "simulator-0.npz"
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage in ("empty", "half"):
        path.write_bytes(whole[: len(whole) // 2 if damage == "half" else 0])
    fresh = Play(tmp_path, CONFIGURATIONS[1] if damage == "of_others" else CONFIGURATIONS[0])
    if damage == "other_horizon":
        fresh.simulators[0].blocks.segment["shape"][2] += 1
    groups = fresh.simulators[0].groups
    if damage == "env":
        monkeypatch.setattr(groups[0].env, "restore", Mute().restore)
    with pytest.raises(ValueError, match="simulator-0.npz: "):
        restore(path, groups, answers_itself=False)
    assert all(group.saved_place is None for group in groups)


def test_a_simulator_admitted_after_its_snapshots_rollout_begins_where_its_environments_are(tmp_path: Path) -> None:
    play = Play(tmp_path, CONFIGURATIONS[1])
    random = np.random.default_rng(3)
    while play.learned < 2:
        play.event(random)
    on = play.interrupted(random)
    late = on.simulators[0]
    newest = read_all(late.groups[0].saved_place.rows[next(iter(late.groups[0].saved_place.rows))][-1])  # type: ignore
    late.blocks.admit(on.learned + 3)
    late.groups[0].advance()
    assert late.groups[0].saved_place is None
    on.rollouts.raise_to(on.learned + 4)
    assert late.groups[0].advance() == "observed"
    assert late.blocks.observed(0) == (on.learned + 3) * HORIZON + 1
    shown = read_all(late.blocks.row("observation", 0, (on.learned + 3) * HORIZON))
    assert [row.stream for row in shown] == [row.stream for row in newest]
