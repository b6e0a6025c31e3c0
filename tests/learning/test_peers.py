"""Learners as their trainer sees them, without others: whether a long pass goes on, and what ends a wait."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch import zeros

from actorlearn.address import Shm
from actorlearn.learning.peers import Peers
from actorlearn.memory.shared import Segment
from actorlearn.parameters.allgather import rows_fields
from actorlearn.parameters.interface import Exchange, Joined, Learner
from actorlearn.parameters.modes import make
from actorlearn.parameters.settings import AloneExchangeSettings, ExchangeSettings, SyncExchangeSettings
from tests import named
from tests.identities import peer


@pytest.mark.parametrize("phase", ["run", "drain"])
@pytest.mark.parametrize("leaving", [[], ["trainer-1"]])
@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("alive", [False, True])
def test_the_exchange_decides_when_a_pass_is_broken_off_and_who_is_to_end_at_once_asks_nobody(
    phase: str, leaving: list[str], others: bool, alive: bool
) -> None:
    asked: list[bool] = []

    def ending(told: bool) -> bool:
        asked.append(told)
        return told or others

    order = SimpleNamespace(phase=phase, leaving=leaving)
    worker: Any = SimpleNamespace(alive=lambda: alive, control=SimpleNamespace(order=order))
    settings: Any = SimpleNamespace(exchange=AloneExchangeSettings(), id=peer("trainer-1.0"))
    learning: Any = SimpleNamespace(exchange=SimpleNamespace(ending=ending), minibatches=SimpleNamespace(finish_s=0.0))
    told = phase == "drain" or bool(leaving)
    assert Peers(settings, worker, learning).going_on() == (alive and not told and not others)
    assert asked == ([told] if alive else [])


def test_a_pass_that_counts_nothing_before_its_end_is_given_time_to_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    order = SimpleNamespace(phase="run", leaving=[])
    worker: Any = SimpleNamespace(alive=lambda: True, control=SimpleNamespace(order=order))
    settings: Any = SimpleNamespace(exchange=AloneExchangeSettings(), id=peer("trainer-1.0"))
    learning: Any = SimpleNamespace(
        exchange=SimpleNamespace(ending=lambda told: told), minibatches=SimpleNamespace(finish_s=5.0)
    )
    learners = Peers(settings, worker, learning)

    def goes_on(now_s: float, phase: str) -> bool:
        monkeypatch.setattr("actorlearn.learning.peers.time.monotonic", lambda: now_s)
        order.phase = phase
        return learners.going_on()

    asked = [(0.0, "run"), (10.0, "drain"), (14.9, "drain"), (15.0, "drain"), (16.0, "run"), (17.0, "drain")]
    assert [goes_on(*when) for when in asked] == [True, True, True, False, True, True]
    worker.alive = lambda: False
    assert not goes_on(18.0, "run")


def test_another_list_breaks_off_joining_and_no_wait_of_who_is_joined(tmp_path: Path) -> None:
    """Or whoever waits for a slower one would end when a third that was killed comes back."""
    first = [peer("trainer-0.0"), peer("trainer-1.0")]
    second = [*first, peer("trainer-2.1")]
    order = SimpleNamespace(version=1, phase="run", leaving=[], learners=first, generation=1)
    worker: Any = SimpleNamespace(alive=lambda: True, control=SimpleNamespace(order=order))
    exchange = sync(tmp_path)
    settings: Any = SimpleNamespace(exchange=exchange, id=peer("trainer-1.0"), learners=3)
    asked: list[bool] = []

    class Joining:
        alive: Callable[[], bool]

        def exchange_by(self, _settings: Any, alive: Callable[[], bool], *_: Any) -> None:
            self.alive = alive

        @property
        def exchange(self) -> Joining:
            return self

        def join(self, env_steps: int, updates: int) -> Joined:
            for order.learners, order.generation in ((first, 1), (second, 2), (first, 1)):
                asked.append(self.alive())
            return Joined(env_steps, updates)

    learning: Any = Joining()
    learners = Peers(settings, worker, learning)
    assert learners.join(30, 2)[:2] == (30, 2) and learners.joined
    assert asked == [True, False, True]
    order.learners, order.generation = second, 2
    assert not learners.joined and learning.alive()
    worker.alive = lambda: False
    assert not learning.alive()


def test_who_is_left_alone_a_second_time_meets_nobody_it_met_before(tmp_path: Path) -> None:
    """A peer that dies twice within the life of this one: the list of those who are left is the same both times."""
    order = SimpleNamespace(version=1, phase="run", leaving=[], learners=[peer("trainer-0.0")], generation=1)
    worker: Any = SimpleNamespace(alive=lambda: True, control=SimpleNamespace(order=order))
    exchange = sync(tmp_path)
    settings: Any = SimpleNamespace(exchange=exchange, id=peer("trainer-0.0"), learners=2)
    Segment.create(tmp_path / "gradients", rows_fields(2, 4)).close()

    class Joining:
        exchange: Exchange | None = None

        def exchange_by(self, settings: ExchangeSettings, alive: Callable[[], bool], *_: Any) -> None:
            before, self.exchange = self.exchange, make(settings, Learner(named.optimizer(), zeros(4), zeros(4)))
            if before:
                before.close()

    learning: Any = Joining()
    learners = Peers(settings, worker, learning)
    newer = tmp_path / "learners.10.of-others"
    newer.touch()
    for order.generation in (1, 4, 9):
        assert not learners.joined
        assert learners.join(30, 2)[:2] == (30, 2) and learners.joined
        met = [path.name for path in tmp_path.glob("learners.*") if path != newer]
        assert met and {name.split(".")[1] for name in met} == {
            str(order.generation)
        }  # nothing is left of those before
    assert newer.exists()
    learning.exchange.close()


def test_who_finds_no_room_to_meet_the_others_says_so_once_and_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with several learners ended one of them when /dev/shm was full while another came back."""
    order = SimpleNamespace(version=1, phase="run", leaving=[], learners=[peer("trainer-0.0")], generation=1)
    warnings: list[str] = []
    control = SimpleNamespace(order=order, warned=warnings.append)
    worker: Any = SimpleNamespace(alive=lambda: True, control=control)
    exchange = sync(tmp_path)
    settings: Any = SimpleNamespace(exchange=exchange, id=peer("trainer-0.0"), learners=2)

    class Joining:
        exchange: Any = SimpleNamespace(join=Joined)

        def exchange_by(self, *_: Any) -> None:
            pass

    learning: Any = Joining()
    learners = Peers(settings, worker, learning)
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", lambda *_: raise_full())
        assert [learners.join(30, 2) for _ in range(3)] == [None] * 3
    (warning,) = warnings
    assert "cannot join the other learners" in warning and "bytes of shared memory needed" in warning
    assert learners.join(30, 2)[:2] == (30, 2) and learners.joined


def sync(folder: Path) -> SyncExchangeSettings:
    """Settings of learners that meet in a folder."""
    return SyncExchangeSettings(rendezvous=Shm(path=f"{folder}/learners"), gradients=Shm(path=f"{folder}/gradients"))


def raise_full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
