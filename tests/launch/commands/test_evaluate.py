"""The command `eval`: what it refuses before it looks at a run."""

from __future__ import annotations

import pytest

from launch.commands import evaluate
from launch.errors import RunError


def test_recording_without_its_package_is_told_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "find_spec", lambda _name: None)
    with pytest.raises(RunError, match=r"--record needs PyAV, .*: pip install 'actorlearn\[video\]'"):
        evaluate.evaluate("no-such-run", None, None, None, record=True, json=False)
