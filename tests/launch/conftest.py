"""What tests of the command line within this process have in common."""

from __future__ import annotations

import pytest

from launch.commands import run


@pytest.fixture(autouse=True)
def without_slow_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print nothing about a trial that takes long: on a busy machine each one does."""
    monkeypatch.setattr(run, "TRIAL_S", 60.0)
