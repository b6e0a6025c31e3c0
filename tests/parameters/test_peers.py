"""A trainer's link to the other learners: joining them, waiting and leaving. No other learner runs."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch import zeros

from actorlearn.address import Shm
from actorlearn.memory.shared import Segment
from actorlearn.parameters.alone import Alone
from actorlearn.parameters.barrier import rows_fields
from actorlearn.parameters.consumed import BEGINNING, Position
from actorlearn.parameters.interface import Joined, Learner
from actorlearn.parameters.peers import Peers
from actorlearn.parameters.settings import AloneExchangeSettings, ExchangeSettings, SyncExchangeSettings
from actorlearn.wire.control import Control
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Left, Message, Order, Warned
from tests import named
from tests.failing_disk import raise_full
from tests.identities import peer


class Told(Control):
    """A trainer's line to the supervisor that keeps its warnings and has the order that a test gives."""

    def __init__(self, own: str) -> None:
        super().__init__(None, peer(own), "run-1")
        self.warnings: list[str] = []
        self.left = False
        self.learners: list[ProcessId] = []
        self.give()

    def give(self, learners: list[ProcessId] | None = None, generation: int = 1, **fields: Any) -> None:
        self.learners = self.learners if learners is None else learners
        self.order = Order(version=1, learners=self.learners, generation=generation, **fields)

    def send(self, message: Message) -> None:
        self.left |= message == Left()
        if isinstance(message, Warned):
            self.warnings.append(message.text)


class Scene:
    """One learner, whose process may be told to end."""

    def __init__(self, own: str, settings: ExchangeSettings) -> None:
        self.alive = True
        self.control = Told(own)
        learner = Learner(named.optimizer(), zeros(4), zeros(4))
        self.peers = Peers(settings, learner, self.control, lambda: self.alive)

    def join(self) -> Joined | None:
        return self.peers.join(30, 2, BEGINNING)


@pytest.mark.parametrize("phase", ["run", "drain"])
@pytest.mark.parametrize("leaving", [[], ["trainer-1"]])
@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("alive", [False, True])
def test_the_exchange_decides_whether_a_pass_goes_on_unless_the_process_is_to_end_at_once(
    phase: str, leaving: list[str], others: bool, alive: bool
) -> None:
    asked: list[bool] = []

    def ending(told: bool) -> bool:
        asked.append(told)
        return told or others

    scene = Scene("trainer-1.0", AloneExchangeSettings())
    exchange: Any = SimpleNamespace(ending=ending)
    scene.alive, scene.peers.exchange = alive, exchange
    scene.control.give(phase=phase, leaving=leaving)
    told = phase == "drain" or bool(leaving)
    assert scene.peers.going_on(0.0) == (alive and not told and not others)
    assert asked == ([told] if alive else [])


def test_a_pass_that_counts_nothing_before_its_end_is_given_time_to_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene("trainer-1.0", AloneExchangeSettings())

    def goes_on(now_s: float, phase: str) -> bool:
        monkeypatch.setattr("actorlearn.parameters.peers.time.monotonic", lambda: now_s)
        scene.control.give(phase=phase)
        return scene.peers.going_on(5.0)

    asked = [(0.0, "run"), (10.0, "drain"), (14.9, "drain"), (15.0, "drain"), (16.0, "run"), (17.0, "drain")]
    assert [goes_on(*when) for when in asked] == [True, True, True, False, True, True]
    scene.alive = False
    assert not goes_on(18.0, "run")


def test_a_new_list_of_learners_ends_joining_but_no_wait_of_a_learner_that_has_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a learner that waits for a slower one would end when a killed third one comes back."""
    first = [peer("trainer-0.0"), peer("trainer-1.0")]
    second = [*first, peer("trainer-2.1")]
    scene = Scene("trainer-1.0", sync(tmp_path))
    made: list[Joining] = []
    asked: list[bool] = []

    class Joining(Alone):
        def __init__(self, settings: Any, learner: Learner) -> None:
            super().__init__(settings, learner)
            self.alive = learner.alive
            made.append(self)

        def join(self, env_steps: int, updates: int, position: Position = BEGINNING) -> Joined:
            for learners, generation in ((first, 1), (second, 2), (first, 1)):
                scene.control.give(learners, generation)
                asked.append(self.alive())
            return Joined(env_steps, updates)

    monkeypatch.setattr("actorlearn.parameters.peers.make", Joining)
    scene.control.give(first, 1)
    assert scene.join() == (30, 2, None) and scene.peers.joined
    assert asked == [True, False, True]
    scene.control.give(second, 2)
    assert not scene.peers.joined and made[-1].alive()
    scene.alive = False
    assert not made[-1].alive()


def test_a_learner_that_is_left_alone_again_does_not_join_the_barrier_of_before(tmp_path: Path) -> None:
    """If a peer dies twice, the list of the learners left is the same both times."""
    scene = Scene("trainer-0.0", sync(tmp_path))
    Segment.create(tmp_path / "gradients", rows_fields(2, 4)).close()
    newer = tmp_path / "learners.10.of-others"
    newer.touch()
    for generation in (1, 4, 9):
        scene.control.give([peer("trainer-0.0")], generation)
        assert not scene.peers.joined
        joined = scene.join()
        assert joined and joined[:2] == (30, 2) and scene.peers.joined
        barriers = [path.name for path in tmp_path.glob("learners.*") if path != newer]
        assert barriers and {name.split(".")[1] for name in barriers} == {
            str(generation)
        }  # the earlier ones are removed
    assert newer.exists()
    scene.peers.exchange.close()


def test_a_learner_that_leaves_the_others_tells_the_supervisor(tmp_path: Path) -> None:
    scene = Scene("trainer-0.0", sync(tmp_path))
    Segment.create(tmp_path / "gradients", rows_fields(2, 4)).close()
    scene.control.give([peer("trainer-0.0")])
    assert scene.join() and not scene.control.left
    scene.peers.leave()
    assert scene.control.left


def test_a_learner_without_memory_to_join_the_others_warns_once_and_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a run lost a learner because /dev/shm was full when another one came back."""
    scene = Scene("trainer-0.0", sync(tmp_path))
    scene.control.give([peer("trainer-0.0")])
    Segment.create(tmp_path / "gradients", rows_fields(2, 4)).close()
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", raise_full)
        assert [scene.join() for _ in range(3)] == [None] * 3
    (warning,) = scene.control.warnings
    assert "cannot join the other learners" in warning and "bytes of shared memory are needed" in warning
    joined = scene.join()
    assert joined and joined[:2] == (30, 2) and scene.peers.joined
    scene.peers.exchange.close()


def sync(folder: Path) -> SyncExchangeSettings:
    """Settings of learners whose segments are in a folder."""
    return SyncExchangeSettings(rendezvous=Shm(path=f"{folder}/learners"), gradients=Shm(path=f"{folder}/gradients"))
