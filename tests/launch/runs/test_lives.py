"""The lives of a run that have trained a checkpoint, with the keys of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launch.runs.find import RunFolder
from launch.runs.lives import lives_of


def life(resumed_at: int | None, **changed: tuple[int, int]) -> dict[str, Any]:
    return {
        "resumed_at": resumed_at,
        "changed": {key: {"was": was, "is": now} for key, (was, now) in changed.items()},
    }


@pytest.mark.parametrize(
    ("env_steps", "seeds"),
    [
        (0, {None: 1}),
        (100, {None: 1}),
        (101, {None: 1, 100: 1}),  # without the other life that was resumed at 100 and saved nothing
        (250, {None: 1, 50: 3}),  # resumed from an older checkpoint, so without the previous life
        (301, {None: 1, 50: 3, 300: 4}),
    ],
)
def test_a_checkpoint_belongs_to_the_lives_that_led_to_it(
    tmp_path: Path, env_steps: int, seeds: dict[int | None, int]
) -> None:
    (tmp_path / "topology.yaml").write_text("seed: 4\n")
    lives = [life(None), life(100, seed=(1, 2)), life(100, seed=(2, 1))]
    if env_steps > 101:
        lives += [life(50, seed=(1, 3)), life(300, seed=(3, 4))]
    else:
        (tmp_path / "topology.yaml").write_text("seed: 1\n")
    meta = {**lives[-1], "earlier": lives[:-1]}
    found = lives_of(RunFolder(tmp_path, json.loads(json.dumps(meta))), env_steps)
    assert {one.resumed_at: one.topology["seed"] for one in found} == seeds


def test_a_run_without_metadata_has_one_life(tmp_path: Path) -> None:
    assert len(lives_of(RunFolder(tmp_path, {}), 10)) == 1
