"""Replace what the code under test shares with other processes by the stand-ins of ``arrays.py``."""

from __future__ import annotations

import pytest

from actorlearn.memory import account
from actorlearn.parameters import barrier, mailbox, published, store
from actorlearn.processes import members, snapshots
from tests.interleavings import arrays

ATTEMPTS = 5
"""Reads in succession that a writer of weights may overtake; no writer here has more versions."""


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (store, barrier):
        monkeypatch.setattr(module, "fcntl", arrays.Flock)
        monkeypatch.setattr(module, "os", arrays.Files)
    for module in (store, mailbox):
        monkeypatch.setattr(module, "time", arrays.CLOCK)
    for name in ("Wakeup", "Wakeups"):
        monkeypatch.setattr(barrier, name, arrays.Silent)
    monkeypatch.setattr(barrier, "NUMBERS", 2)
    monkeypatch.setattr(barrier, "Waiter", arrays.LooksAgain)
    monkeypatch.setattr(mailbox, "Segment", arrays.OpenedSegment)
    monkeypatch.setattr(members, "open_members", arrays.open_members)
    reasons = {"unfinished": account.REASONS["unfinished"]}  # one reason instead of all of them, for fewer words
    monkeypatch.setattr(account, "REASONS", reasons)
    monkeypatch.setattr(snapshots, "write", arrays.write_snapshot)
    monkeypatch.setattr(snapshots, "taken", lambda _groups, number, since: (number, since))
    monkeypatch.setattr(published, "ATTEMPTS", ATTEMPTS)
