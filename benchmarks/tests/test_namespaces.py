"""Errors where network namespaces cannot be made; tests/system/test_namespaces.py makes real ones."""

from __future__ import annotations

import os

import pytest

from benchmarks.namespaces import namespaces
from launch.errors import FailedError


def test_who_is_not_root_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda word: f"/sbin/{word}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(FailedError, match="only root makes network namespaces"), namespaces(["node-1"], "100mbit"):
        pass


def test_tools_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda word: None if word == "tc" else f"/sbin/{word}")
    with pytest.raises(FailedError, match="^tc: not installed; install iproute2"), namespaces(["node-1"], "100mbit"):
        pass
