"""``actorlearn eval``: what it refuses, and whether it has the run save first."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from actorlearn.wire.messages import Reply
from actorlearn.worker.settings import POLICY_FILE
from launch.commands import evaluate
from launch.errors import FailedError, RunError
from launch.runs.find import RunFolder, start_time
from launch.runs.jsonl import read_object
from tests.acting.policies import policy_settings, run_folder
from tests.launch.runs.folders import make_run


@pytest.mark.parametrize("episodes", [0, -3])
def test_a_number_of_games_below_one_is_refused(episodes: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"episodes={episodes}: at least one game must be played"):
        evaluate.settings(RunFolder(tmp_path, {}), episodes, None, None)


def test_record_without_pyav_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "find_spec", lambda _name: None)
    with pytest.raises(RunError, match=r"--record needs PyAV, .*: pip install 'actorlearn\[video\]'"):
        evaluate.evaluate("no-such-run", None, None, None, record=True, json=False)


def saved_run(tmp_path: Path, **meta: object) -> Path:
    """Make the folder of a run with a checkpoint."""
    folder = make_run(tmp_path, "run", **meta, sockets=str(tmp_path))
    (folder / "topology.yaml").write_text(
        "env: {id: CartPole-v1}\nalgorithm: {name: a2c}\nmodel: {hidden_sizes: [8], normalize_observation: false}\n"
    )
    run_folder(folder, policy_settings())
    return folder


@pytest.mark.nightly
def test_a_run_of_a_gpu_is_recorded_on_a_machine_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    folder = saved_run(tmp_path)
    with (folder / "topology.yaml").open("a") as topology:
        topology.write("trainer: {device: cuda}\ninference: {device: cuda}\n")
    recording = evaluate.settings(RunFolder(folder, {}), 2, None, None, record=True).recording
    assert recording is not None and recording.folder == str(folder / "films")


@pytest.mark.parametrize("content", ["{", None])
def test_a_damaged_or_missing_policy_file_is_one_line_with_a_remedy(content: str | None, tmp_path: Path) -> None:
    folder = saved_run(tmp_path)
    (folder / POLICY_FILE).unlink()
    if content is not None:
        (folder / POLICY_FILE).write_text(content)
    with pytest.raises(RunError, match=r"policy\.json.*; resume the run once, which writes the file again"):
        evaluate.settings(RunFolder(folder, {}), None, None, None)


@pytest.mark.parametrize("ends", [pytest.param("before", marks=pytest.mark.nightly), "meanwhile"])
def test_a_run_that_has_ended_is_evaluated_without_a_save(
    ends: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen(["sleep", "2"]) as supervisor:
        meta = {"supervisor_pid": supervisor.pid, "supervisor_started": start_time(supervisor.pid)}
        folder = saved_run(tmp_path, **(meta if ends == "meanwhile" else {}))
        assert evaluate.evaluate(str(folder), 2, None, None, record=False, json=False, save=True) == 0
    assert "run: 2 whole games with the policy of 500 steps" in capsys.readouterr().out


@pytest.mark.parametrize("phases", [["scoring"], ["draining", "draining", "scoring"], ["draining", ""], ["running"]])
def test_a_run_that_is_ending_is_evaluated_when_its_trainers_have_saved(
    phases: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(phases)

    def ask(run: RunFolder, command: str, **_: object) -> Reply:
        if command == "save":
            raise FailedError("the run ended before the request was completed")
        if not (phase := next(left)):
            supervisor.kill()
            supervisor.wait()
            raise FailedError("the run ended before it answered")
        return Reply(ok=True, text="", data={"phase": phase})

    monkeypatch.setattr(evaluate, "ask", ask)
    with subprocess.Popen(["sleep", "60"]) as supervisor:
        folder = saved_run(tmp_path, supervisor_pid=supervisor.pid, supervisor_started=start_time(supervisor.pid))
        wanted = RunFolder(folder, read_object(folder / "meta.json"))
        try:
            if phases == ["running"]:
                with pytest.raises(FailedError, match="the run ended before"):
                    evaluate.save_present(wanted)
            else:
                evaluate.save_present(wanted)
        finally:
            supervisor.kill()
    assert [*left] == []
