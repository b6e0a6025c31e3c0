"""All the ways in which a run can end, what each of them leaves, and how the run is resumed."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from launch.machine.signals import REPEATED_S
from tests.system.conftest import PACED, Command, Start
from tests.system.launched import Launched
from tests.waiting import within

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

TOTAL_STEPS = 6000
RATE = 0.003
KNOWN = [
    *("catch", PACED, "inference.count=1", f"total_steps={TOTAL_STEPS}"),
    *("algorithm.horizon=5", f"optimizer.learning_rate={RATE}", "optimizer.learning_rate_final=0"),
]


def stopped(run: Launched) -> dict[str, object]:
    """Return the summary of a stopped run; its newest checkpoint must have all that was learned."""
    summary, saved = run.summary(), run.checkpoint()
    assert summary["status"] == "stopped"
    assert 0 < summary["env_steps"] < TOTAL_STEPS
    assert (saved.state["env_steps"], saved.state["updates"]) == (summary["env_steps"], summary["updates"])
    assert run.events("died") == []
    assert run.leftovers() == []
    return summary


def test_a_run_whose_folder_was_removed_is_resumed_from_its_next_checkpoint(launched: Start, command: Command) -> None:
    run = launched(*KNOWN)
    run.wait_for(lambda: run.rows()[2:], "third row")
    shutil.rmtree(run.run_dir, ignore_errors=True)
    run.wait_for(lambda: run.rows() and run.events("warned"), "row in the new folder")
    assert "was removed or renamed while the run is alive" in run.events("warned")[0]["cause"]
    assert command("stop", run.run_dir).returncode == 0
    assert run.end() == 0
    assert stopped(run)
    resumed = launched("resume", run_dir=run.run_dir)
    resumed.full_speed()
    assert resumed.end() == 0, resumed.screen()
    assert resumed.summary()["status"] == "finished"


def test_a_stopped_run_is_resumed_where_it_stopped(launched: Start, command: Command) -> None:
    run = launched(*KNOWN)
    run.wait_for(lambda: run.rows()[2:], "third row")
    assert command("stop", run.run_dir).returncode == 0
    assert run.end() == 0
    before, rows_before, version = stopped(run), len(run.rows()), run.checkpoint().state["policy_version"]

    resumed = launched("resume", run_dir=run.run_dir)
    resumed.wait_for(lambda: resumed.rows()[rows_before:], "row after resuming")
    resumed.full_speed()
    assert resumed.end() == 0, resumed.screen()
    after = resumed.summary()
    assert after["status"] == "finished" and after["env_steps"] >= TOTAL_STEPS
    assert resumed.meta()["resumed_at"] == before["env_steps"]

    rows = resumed.rows()
    first = rows[rows_before]
    assert before["env_steps"] < first["env_steps"]
    assert before["updates"] < first["updates"] < before["updates"] + (first["env_steps"] - before["env_steps"])
    assert first["episodes"] >= before["episodes"]
    for key in ("time_s", "env_steps", "updates", "episodes"):
        assert [row[key] for row in rows] == sorted(row[key] for row in rows)
    for row in rows:  # the rate of an update is that of its beginning, up to 2 x 4 x 5 steps before the report's
        share = 1 - row["env_steps"] / TOTAL_STEPS
        assert share - 1e-9 <= row["learning_rate"] / RATE <= share + 40 / TOTAL_STEPS + 1e-9

    saved = resumed.checkpoint()
    assert saved.state["updates"] == after["updates"]
    assert saved.state["policy_version"] >= version + after["updates"] - before["updates"]  # one for each update
    assert int(saved.tensors["optimizer.steps"]) == after["updates"]  # Adam counts its own: it was restored
    assert saved.tensors["optimizer.square"].gt(0).any()
    assert resumed.leftovers() == []


@pytest.mark.smoke
def test_ctrl_c_saves_the_weights_that_a_resume_restores(launched: Start) -> None:
    run = launched(*KNOWN)
    run.wait_for(run.rows, "row")
    run.ctrl_c()
    assert run.end() == 130
    before = stopped(run)
    assert "stopping: interrupted" in run.screen()

    # Nothing is left to be learned, so the weights at the end are those that were restored.
    resumed = launched("resume", f"total_steps={before['env_steps']}", run_dir=run.run_dir)
    assert resumed.end() == 0, resumed.screen()
    assert resumed.summary()["status"] == "finished"
    for key in ("env_steps", "updates", "episodes", "weights_sha256"):
        assert resumed.summary()[key] == before[key]
    assert resumed.leftovers() == []


def test_ctrl_c_saves_the_statistics_that_are_collected_before_learning_begins(launched: Start) -> None:
    collecting = ["model.normalize_observation=true", "model.statistics_rows=1_000_000"]
    run = launched(*KNOWN, *collecting)
    run.wait_for(run.rows, "row")
    run.ctrl_c()
    assert run.end() == 130
    before = run.summary()
    assert (before["status"], before["env_steps"]) == ("stopped", 0) and before["dropped_statistics"] > 0
    assert "collecting statistics of observations before learning begins: " in run.screen()
    first, last = run.events("saved")
    assert first["path"] == last["path"] and "trainer saved: 0 steps" in run.screen().split("stopping: ")[1]
    number = float(run.checkpoint().tensors["weights.number"])
    assert number == before["dropped_statistics"], "each step gave one observation"

    resumed = launched("resume", f"model.statistics_rows={int(number) + 1}", "total_steps=200", run_dir=run.run_dir)
    resumed.full_speed()
    assert resumed.end() == 0, resumed.screen()
    assert resumed.summary()["status"] == "finished"
    assert resumed.leftovers() == []


def test_a_resume_names_damaged_checkpoints_and_uses_an_older_one_but_not_step_0(launched: Start) -> None:
    run = launched(*KNOWN, "checkpoint.every_steps=100", "checkpoint.keep=1000")
    run.wait_for(lambda: run.events("saved")[2:], "third checkpoint")
    run.ctrl_c()
    assert run.end() == 130
    first, *_, older, newest = sorted((run.run_dir / "checkpoints").iterdir())
    assert int(first.name) == 0
    data = bytearray((newest / "manifest.json").read_bytes())
    data[data.index(b'"env_steps"') + 20] ^= 1
    (newest / "manifest.json").write_bytes(data)

    resumed = launched("resume", f"total_steps={int(newest.name)}", run_dir=run.run_dir)
    resumed.full_speed()
    assert resumed.end() == 0, resumed.screen()
    said = f"checkpoints/{newest.name} is damaged, so checkpoints/{older.name} is used instead: manifest.json"
    (warned,) = resumed.new_events("warned")
    assert warned["cause"].startswith(said) and f"warned: {said}" in resumed.screen()
    assert f"resumed: at {int(older.name)} steps, from checkpoints/{older.name}" in resumed.screen()
    assert resumed.meta()["resumed_at"] == int(older.name)
    assert resumed.checkpoint().state["env_steps"] >= int(newest.name)

    for folder in (run.run_dir / "checkpoints").iterdir():
        if folder != first:
            (folder / "tensors.safetensors").write_bytes(b"")
    refused = launched("resume", "total_steps=9000", run_dir=run.run_dir)
    assert refused.end() == 2
    assert "only the checkpoint of step 0 is valid" in refused.screen() and newest.name in refused.screen()
    assert refused.new_events() == []


def test_ctrl_c_twice_ends_a_run_at_once_even_if_its_processes_are_stopped(launched: Start) -> None:
    run = launched(*KNOWN)
    run.wait_for(run.rows, "row")
    for name in ("trainer", "simulator-0"):
        os.kill(run.pids()[name], signal.SIGSTOP)
    run.ctrl_c()
    run.wait_for(lambda: run.events("stopping"), "answer to Ctrl-C")
    time.sleep(REPEATED_S)
    began_s = time.monotonic()
    run.ctrl_c()
    assert run.end() == 130
    assert time.monotonic() - began_s < 3
    assert run.leftovers() == []
    assert run.summary()["status"] == "stopped"


def test_a_long_update_is_no_hang_and_ctrl_c_ends_it(launched: Start) -> None:
    long = ["algorithm.name=ppo", "algorithm.epochs=1000", "algorithm.minibatches=512", "algorithm.horizon=64"]
    run = launched("catch", *long, "supervision.trainer_hang_s=2")
    run.wait_for_event("ready", "simulator-1")
    began_s = time.monotonic()
    run.wait_for(lambda: time.monotonic() > began_s + 6, "time for the first batch, and three times the limit")
    run.ctrl_c()
    assert run.end() == 130
    assert [e["cause"] for kind in ("silent", "died") for e in run.events(kind)] == []
    assert (run.summary()["status"], run.summary()["env_steps"]) == ("stopped", 0)
    # The steps of the batch and of the next rollout: a batch that is learned in part counts as in flight.
    assert 0 < run.checkpoint().state["in_flight"] == run.summary()["steps_in_flight"]
    assert run.leftovers() == []


def test_ctrl_c_ends_a_run_whose_processes_are_still_starting(launched: Start) -> None:
    run = launched(*KNOWN)
    run.wait_for(lambda: run.events("spawned"), "process")
    run.ctrl_c()
    assert run.end() == 130
    assert run.leftovers() == []
    assert run.summary()["status"] == "stopped"


FEW = ["catch", PACED, "total_steps=400", "evaluator.count=1"]


def test_the_final_weights_are_evaluated_before_a_run_ends(launched: Start) -> None:
    """Played at the rate of the simulators' environments, 40 games take 2 s."""
    run = launched(*FEW, "evaluator.every_steps=150", "evaluator.episodes=40")
    assert run.end() == 0, run.screen()
    summary, scoring = run.summary(), run.events("scoring")
    assert summary["status"] == "finished" and summary["deaths"] == 0
    assert summary["evaluations"]["last"]["env_steps"] == summary["env_steps"] >= 400
    assert summary["evaluations"]["last"]["episodes"] == 40
    assert run.events("evaluated")[-1]["time_s"] > scoring[0]["time_s"] + 1
    assert len(scoring) == 1 and "scoring: the final weights, by evaluator-0" in run.screen()
    assert run.events("died") == [] and run.events("warned") == []
    assert run.leftovers() == []


def test_a_run_ends_when_an_evaluation_reaches_stop_at_score(launched: Start) -> None:
    played = ["evaluator.every_steps=100", "evaluator.episodes=2", "evaluator.scheduling=other"]
    run = launched("catch", PACED, "total_steps=1_000_000", "evaluator.count=1", *played, "evaluator.stop_at_score=-1")
    assert run.end() == 0, run.screen()
    summary, (stopping,) = run.summary(), run.events("stopping")
    assert summary["status"] == "finished" and summary["deaths"] == 0
    assert stopping["cause"].endswith(" has reached evaluator.stop_at_score: -1")
    assert run.checkpoint().state["env_steps"] == summary["env_steps"] < 1_000_000
    assert run.events("scoring") == [] and run.leftovers() == []


def test_a_run_ends_at_its_training_score_and_then_evaluates_its_final_weights(launched: Start) -> None:
    played = ["evaluator.count=1", "evaluator.every_steps=null", "evaluator.episodes=30"]
    run = launched("catch", "total_steps=1_000_000", *played, "stop_at_training_score=-1")
    assert run.end() == 0, run.screen()
    summary, (stopping,), (evaluated,) = run.summary(), run.events("stopping"), run.events("evaluated")
    assert summary["status"] == "finished" and summary["deaths"] == 0
    assert summary["cause"] == stopping["cause"] and "stop_at_training_score: -1" in summary["cause"]
    assert run.checkpoint().state["env_steps"] == summary["env_steps"] == evaluated["env_steps"] < 1_000_000
    assert run.checkpoint().state["policy_version"] == evaluated["policy_version"]
    score = f"evaluated: {summary['evaluations']['last']['mean']:.1f} over 30 games at {summary['env_steps']:,} steps"
    assert score in run.screen().splitlines()[-1]
    assert run.leftovers() == []


def test_ctrl_c_ends_the_final_evaluation_of_a_finished_run(launched: Start) -> None:
    run = launched(*FEW, "evaluator.every_steps=1_000_000", "evaluator.episodes=10_000")
    run.wait_for(lambda: run.events("scoring"), "evaluation of the final weights")
    run.wait_for_event("ready", "evaluator-0")
    run.ctrl_c()
    assert run.end(timeout_s=20) == 0, run.screen()
    assert run.summary()["status"] == "finished" and run.summary()["evaluations"] is None
    assert run.events("died") == []
    assert run.leftovers() == []


def test_processes_end_with_a_killed_supervisor_and_the_next_run_removes_its_files(
    launched: Start, command: Command, sockets_root: Path
) -> None:
    run = launched(*KNOWN, "checkpoint.every_steps=100")
    run.wait_for(lambda: run.events("saved")[2:], "third checkpoint")
    meta = run.meta()
    remains = [meta["shm"], meta["sockets"]]
    run.kill()
    assert within(2, lambda: run.leftovers() == remains), run.leftovers()
    assert command("ps", "--json").stdout.count(str(run.run_dir)) == 0
    known = run.checkpoint().state

    resumed = launched("resume", run_dir=run.run_dir)
    resumed.wait_for(lambda: resumed.env_steps() > known["env_steps"] and resumed.new_events("saved"), "learning")
    assert [Path(place).exists() for place in remains] == [False, False]
    assert resumed.meta()["resumed_at"] == known["env_steps"]
    meta = resumed.meta()
    resumed.kill()
    assert within(2, lambda: resumed.leftovers() == [meta["shm"], meta["sockets"]]), resumed.leftovers()

    cleaned = command("clean")
    assert cleaned.returncode == 0
    assert meta["run_id"] in cleaned.stdout
    assert resumed.leftovers() == []
    assert list(sockets_root.iterdir()) == []
    assert resumed.run_dir.exists()
