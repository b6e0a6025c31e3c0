"""The command `eval`: what it refuses before it looks at a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.commands import evaluate
from launch.errors import RunError
from launch.runs.find import RunFolder


@pytest.mark.parametrize("episodes", [0, -3])
def test_a_number_of_games_below_one_is_refused(episodes: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"episodes={episodes}: at least one game must be played"):
        evaluate.settings(RunFolder(tmp_path, {}), episodes, None, None)


def test_recording_without_its_package_is_told_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "find_spec", lambda _name: None)
    with pytest.raises(RunError, match=r"--record needs PyAV, .*: pip install 'actorlearn\[video\]'"):
        evaluate.evaluate("no-such-run", None, None, None, record=True, json=False)
