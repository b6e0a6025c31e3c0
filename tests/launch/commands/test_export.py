"""``actorlearn export``: what it refuses before it writes anything, and what its model card says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from actorlearn.parameters.chosen_checkpoints import Best, write_best
from launch.commands import evaluate, export
from launch.commands.run import find_resumable
from launch.display.card import card
from launch.errors import RunError
from launch.runs.lives import Life
from launch.runs.view import RunView
from tests.acting.policies import policy_settings, run_folder, save_policy
from tests.launch.runs.folders import make_run

TOLD: dict[str, Any] = {
    "env_steps": 500_170,
    "parameters": 9155,
    "observation_shape": [4],
    "observation_dtype": "float32",
    "state_size": 0,
    "not_made": "",
    "takes_rows": False,
    "elapsed_s": 75.0,
    "episodes": 2618,
    "episodes_in_mean": 100,
    "episode_return_mean": 480.25,
}
SCORED = {"mean": 498.3, "std": 7.41, "episodes": 20, "env_steps": 500_170}
FILES = ["play.py", "policy.onnx", "topology.yaml", "weights.safetensors"]
META = {"version": "0.1.0", "commit": "abc", "dirty": False, "machine": {"cpu": "a processor", "usable_cores": 2.0}}
KEYS: dict[str, Any] = {
    "seed": 3,
    "env": {"id": "CartPole-v1", "time_limit_steps": 0},
    "algorithm": {"name": "a2c"},
    "model": {"name": "mlp"},
}
VIEW = RunView("cartpole-1", "CartPole-v1", 500_000, topology=KEYS)
LIVES = [Life(None, KEYS, META)]


def metadata(text: str) -> Any:
    """Return the head of a model card, as the Hugging Face Hub reads it."""
    return yaml.safe_load(text.split("---\n")[1])


def test_an_output_folder_that_exists_is_refused_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("kept")
    with pytest.raises(RunError, match="--output .*out: already exists; name a new folder"):
        export.export(str(make_run(tmp_path, "run")), tmp_path / "out", None, 0, weights_only=True, json=False)
    assert (tmp_path / "out" / "mine").read_text() == "kept"


def test_a_learner_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run")
    for checkpoint in ("000000000080", "learner-1/000000000080"):
        (run / "checkpoints" / checkpoint).mkdir(parents=True)
    with pytest.raises(RunError, match="run has no checkpoint of learner 3; choose one of 0, 1"):
        export.export(str(run), tmp_path / "out", None, 3, weights_only=True, json=False)
    assert not (tmp_path / "out").exists()


def left_by_the_first(tmp_path: Path) -> Path:
    """Make the folder of a run in mode gossip whose first learner left it after 500 steps."""
    folder = make_run(tmp_path, "run")
    (folder / "topology.yaml").write_text(
        "env: {id: CartPole-v1}\nmode: gossip\nlearners: {count: 2}\ncheckpoint: {every_steps: 10}\n"
        "algorithm: {name: a2c}\nmodel: {hidden_sizes: [8], normalize_observation: false}\n"
    )
    run_folder(folder, policy_settings(), behind_steps=20)
    save_policy(folder / "checkpoints" / "learner-1", policy_settings(), env_steps=900, seed=4)
    write_best(folder / "checkpoints", Best(890, 3.0, "evaluation"))
    return folder


@pytest.mark.parametrize("at", ["newest", pytest.param(20, marks=pytest.mark.nightly)])
def test_the_score_is_that_of_the_exported_weights(at: str | int, tmp_path: Path) -> None:
    """Learner 1 left the run long ago, so `eval` would leave it out; learner 0 has no checkpoint of its steps."""
    folder = make_run(tmp_path, "run")
    (folder / "topology.yaml").write_text(
        "env: {id: CartPole-v1}\nmode: gossip\nlearners: {count: 2}\ncheckpoint: {every_steps: 10}\n"
        "algorithm: {name: a2c}\nmodel: {hidden_sizes: [8], normalize_observation: false}\n"
    )
    run_folder(folder, policy_settings())
    save_policy(folder / "checkpoints" / "learner-1", policy_settings(), env_steps=20, seed=4)
    out = tmp_path / "out"
    assert export.export(str(folder), out, 2, 1, weights_only=True, json=False, at=at) == 0
    assert "of 2 whole games with the likeliest actions, with weights of 20 steps |" in (out / "README.md").read_text()


@pytest.mark.nightly
@pytest.mark.parametrize("at", ["newest", "best", 900])
def test_a_run_that_its_first_learner_has_left_is_exported_evaluated_and_resumed_from_the_next(
    at: str | int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = left_by_the_first(tmp_path), tmp_path / "out"
    assert export.export(str(folder), out, 2, None, weights_only=True, json=False, at=at) == 0
    assert "of 2 whole games with the likeliest actions, with weights of 900 steps |" in (out / "README.md").read_text()
    said = (
        "the weights are those of learner-1/000000000900: the first learner has left the run, or has no such checkpoint"
    )
    assert said in capsys.readouterr().out.splitlines()
    assert evaluate.evaluate(str(folder), 2, None, None, record=False, json=False, at=at) == 0
    assert "run: 2 whole games with the policy of 900 steps" in capsys.readouterr().out
    assert find_resumable(str(folder), at).path == folder
    with pytest.raises(RunError, match=r"run: at 7: no such checkpoint is kept; .*: 500, 900"):
        evaluate.evaluate(str(folder), 2, None, None, record=False, json=False, at=7)


@pytest.mark.nightly
@pytest.mark.parametrize("at", ["newest", 900])
def test_learners_in_step_that_went_on_without_the_first_are_exported_evaluated_and_resumed(
    at: str | int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path, "run")
    (folder / "topology.yaml").write_text(
        "env: {id: CartPole-v1}\nmode: sync\nlearners: {count: 2}\n"
        "algorithm: {name: a2c}\nmodel: {hidden_sizes: [8], normalize_observation: false}\n"
    )
    run_folder(folder, policy_settings(), own_weights=False)
    save_policy(folder / "checkpoints" / "learner-1", policy_settings(), 900, seed=4, learners=[1])
    out = tmp_path / "out"
    assert export.export(str(folder), out, 2, 0, weights_only=True, json=False, at=at) == 0
    assert "of 2 whole games with the likeliest actions, with weights of 900 steps |" in (out / "README.md").read_text()
    assert evaluate.evaluate(str(folder), 2, None, None, record=False, json=False, at=at) == 0
    assert "run: 2 whole games with the policy of 900 steps" in capsys.readouterr().out
    assert find_resumable(str(folder), at).path == folder
    with pytest.raises(RunError, match=r"run: at 7: no such checkpoint is kept; .*: 500, 900"):
        evaluate.evaluate(str(folder), 2, None, None, record=False, json=False, at=7)


def test_without_onnxruntime_export_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "find_spec", lambda name: None if name == "onnxruntime" else object())
    said = r"policy.onnx needs onnxruntime, which is not installed: pip install 'actorlearn\[onnx\]', or .* --weights"
    run = str(make_run(tmp_path, "run"))
    with pytest.raises(RunError, match=said):
        export.export(run, tmp_path / "out", None, 0, weights_only=False, json=False)
    with pytest.raises(RunError, match=r"^run has no checkpoint to export; start another run"):
        export.export(run, tmp_path / "out", None, 0, weights_only=True, json=False)
    assert not (tmp_path / "out").exists()


def test_a_card_describes_the_policy_its_score_and_how_to_train_it_again() -> None:
    text = card(VIEW, LIVES, TOLD, SCORED, FILES)
    assert "resumed" not in text
    for part in (
        "# cartpole-1: a2c on CartPole-v1",
        "| steps | 500,170 of the environment in 1:15, seed 3 |",
        "498.30 ± 7.41, mean and standard deviation of 20 whole games with the likeliest actions",
        "| score in training | 480.2, mean of the last 100 of 2,618 games that it learned from |",
        "| machine | a processor, 2.0 cores |",
        "python play.py 10",
        "version 0.1.0, commit `abc`:",
        "actorlearn run topology.yaml",
    ):
        assert part in text, part
    result = metadata(text)["model-index"][0]["results"][0]
    assert result["metrics"] == [{"type": "mean_reward", "value": "498.30 +/- 7.41"}]
    assert result["dataset"] == {"name": "CartPole-v1", "type": "CartPole-v1"}


def test_a_card_omits_what_is_unknown() -> None:
    unmade = {
        **TOLD,
        "not_made": "only actorlearn makes environments of kind atari",
        "takes_rows": True,
        "episode_return_mean": None,
    }
    text = card(VIEW, [Life(None, KEYS, {})], unmade, None, FILES)
    assert "model-index" not in metadata(text) and "| score |" not in text
    assert "| score in training | –, " in text and "commit" not in text
    assert "python play.py" not in text and "`play.py` cannot make the environment: only actorlearn makes" in text
    assert "# rows float32[4], one or N" in text
    known = card(VIEW, LIVES, {**unmade, "takes_rows": False}, None, FILES)
    assert "# observations as the environment gives them, one or N" in known
    bare = card(VIEW, LIVES, TOLD, None, ["topology.yaml", "weights.safetensors"])
    assert "play.py" not in bare and "policy.onnx" not in bare


def test_a_card_of_few_games_says_how_many_there_were() -> None:
    text = card(VIEW, LIVES, {**TOLD, "episodes": 64, "episodes_in_mean": 64}, SCORED, FILES)
    assert "| score in training | 480.2, mean of the 64 games that it learned from |" in text


def test_a_card_after_a_changed_environment_says_that_no_game_has_ended() -> None:
    text = card(VIEW, LIVES, {**TOLD, "episodes_in_mean": 0, "episode_return_mean": None}, SCORED, FILES)
    assert "| score in training | no game of this environment has ended |" in text


def test_a_card_says_what_the_players_environment_needs() -> None:
    stored = replace(VIEW, env_id="actorlearn.envs.pickled:Own")
    text = card(stored, LIVES, TOLD, None, sorted([*FILES, "environment.pickle"]))
    assert "pip install numpy onnxruntime gymnasium cloudpickle" in text
    assert "* `environment.pickle`: the environment's class or function, stored with cloudpickle" in text
    assert 'actorlearn run topology.yaml env.kwargs.file="$PWD/environment.pickle"' in text
    text = card(replace(VIEW, env_id="own_pole:Own"), LIVES, TOLD, None, FILES)
    assert "start `play.py` in the folder that has the module `own_pole`" in text
    assert "start `play.py` in" not in card(VIEW, LIVES, TOLD, None, FILES)


def test_a_card_lists_the_keys_that_each_resume_has_changed() -> None:
    """Keys that changed after the checkpoint did not train it, but the policy plays in their environment."""
    faster = {**KEYS, "seed": 4, "optimizer": {"learning_rate": 0.001}}
    now = {**faster, "seed": 9, "env": {**KEYS["env"], "time_limit_steps": 50}}
    lives = [Life(None, faster, META), Life(7_000, faster, {}), Life(8_000, {**faster, "seed": 5}, META)]
    text = card(replace(VIEW, topology=now), lives, TOLD, None, FILES)
    for part in (
        "| steps | 500,170 of the environment in 1:15, seed 5 |",
        "| resumed | at 7,000 steps, without changed keys; at 8,000 steps, with seed: 4 → 5 |",
        "| environment since | the policy plays with env.time_limit_steps: 0 → 50 |",
        "* `topology.yaml`: the configuration since the resume at 8,000 steps, with all defaults",
        "used others before it was resumed; the row *resumed* lists the changes",
    ):
        assert part in text, part
