"""``train`` and ``start`` before the run has begun."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

import actorlearn
from launch.python import child


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize("call", [actorlearn.train, actorlearn.start])
def test_ctrl_c_before_the_run_begins_leaves_no_folder_and_shows_no_internal_frames(
    call: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(child, "start", interrupted)
    with pytest.raises(KeyboardInterrupt, match="^interrupted before the run began; nothing was saved$") as caught:
        call("CartPole-v1", "ppo", total_steps=1000)  # type: ignore[operator]
    shown = "".join(traceback.format_exception(caught.value))
    assert "in interrupted" not in shown and "During handling" not in shown
    assert [*Path("runs").iterdir()] == []
