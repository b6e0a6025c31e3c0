"""Stand-ins of ``arrays.py`` for what the code under test shares with other processes, beside segments it is given."""

from __future__ import annotations

import pytest

from actorlearn.memory import account
from actorlearn.parameters import barrier, mailbox, published, store
from actorlearn.processes import members, snapshots
from tests.interleavings import arrays

ATTEMPTS = 5
"""Reads of weights that a writer overtook, in a row; no writer here has more versions."""


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
    reasons = {"unfinished": account.REASONS["unfinished"]}  # one is as good as five, and there are fewer words
    monkeypatch.setattr(account, "REASONS", reasons)
    monkeypatch.setattr(snapshots, "write", arrays.write_snapshot)
    monkeypatch.setattr(snapshots, "taken", lambda _groups, number, since: (number, since))
    monkeypatch.setattr(published, "ATTEMPTS", ATTEMPTS)
