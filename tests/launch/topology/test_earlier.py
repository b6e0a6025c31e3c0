"""A run of an earlier version goes on as it was: its saved topology lacks keys whose defaults would change the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actorlearn.envs.specs import GymnasiumSettings
from actorlearn.worker.settings import POLICY_FILE, LoadSettings, write
from launch.commands.evaluate import settings
from launch.errors import RunError
from launch.runs.find import RunFolder
from launch.topology.load import dump, load_saved, parse
from tests.acting.policies import policy_settings


def saved(folder: Path, env_id: str = "Taxi-v4") -> RunFolder:
    """Make the folder of a run of a version that had no masks."""
    lines = dump(parse(f"env: {{id: {env_id}}}")).splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("  action_mask: "))
    folder.mkdir(parents=True)
    (folder / "topology.yaml").write_text(text)
    (folder / "checkpoints" / "500").mkdir(parents=True)
    return RunFolder(folder, {})


def mask_of(env: Any) -> str:
    assert isinstance(env, GymnasiumSettings)
    return env.action_mask


def test_an_older_run_has_no_masks_unless_they_are_asked_for(tmp_path: Path) -> None:
    run = saved(tmp_path / "run")
    path = run.path / "topology.yaml"
    assert "action_mask" not in path.read_text()
    assert mask_of(load_saved(path).env) == "none"
    assert mask_of(load_saved(path, ["env.action_mask=info"]).env) == "info"
    assert run.topology()["env"]["action_mask"] == "none"


def test_kinds_without_the_key_do_not_get_it(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", "ALE/Pong-v5")
    assert "action_mask" not in run.topology()["env"]
    assert load_saved(run.path / "topology.yaml").env.id == "ALE/Pong-v5"


def test_an_older_run_is_evaluated_without_masks(tmp_path: Path) -> None:
    run = saved(tmp_path / "run")
    policy = policy_settings(numbers=500, actions=6)
    file = run.path / POLICY_FILE
    write(LoadSettings(env=load_saved(run.path / "topology.yaml").env, policy=policy), file)
    older = json.loads(file.read_text())
    del older["env"]["action_mask"], older["policy"]["action_mask"]
    file.write_text(json.dumps(older))
    wanted = settings(run, None, None, None)
    assert wanted.policy.action_mask is None
    assert mask_of(wanted.env) == "none"


@pytest.mark.timeout(120)
def test_a_run_that_has_saved_no_shapes_is_evaluated_with_those_of_its_environment(tmp_path: Path) -> None:
    wanted = settings(saved(tmp_path / "run"), None, None, None)
    assert (wanted.policy.observation_shape, wanted.policy.action_mask) == ((500,), None)


def test_saved_shapes_that_are_damaged_are_one_line_with_a_remedy(tmp_path: Path) -> None:
    run = saved(tmp_path / "run")
    (run.path / POLICY_FILE).write_text("{")
    with pytest.raises(RunError, match=r"policy\.json.*; or resume the run once, which writes the file again"):
        settings(run, None, None, None)
