"""Fixtures for tests of launch."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from launch.commands import run
from launch.runs import find


@pytest.fixture(autouse=True)
def without_slow_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print nothing about a slow trial of an environment: on a busy machine each trial is slow."""
    monkeypatch.setattr(run, "TRIAL_S", 60.0)


@pytest.fixture(autouse=True)
def without_fork_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no fork server for a command, which imports torch although few tests try an environment."""
    monkeypatch.setattr("launch.spawning.prepared.prepared", nullcontext)


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory; no run of this machine is seen as alive."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(find, "living_runs", list)
    return tmp_path
