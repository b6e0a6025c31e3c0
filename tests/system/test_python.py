"""Runs that Python starts: what ``train``, ``start`` and ``Run`` promise, through real processes."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import site
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import actorlearn
from actorlearn.envs.catch import Catch
from launch.commands.evaluate import evaluate
from launch.commands.run import new_folder
from tests.sizes import ROOT
from tests.system.blocks import blocks
from tests.system.conftest import CONFIGS
from tests.system.environments import PACED_VARIABLE
from tests.waiting import within

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

CATCH = CONFIGS / "catch.yaml"
QUICK = {"report.every_s": 0.2, "simulators.count": 2, "simulators.envs": 4, "checkpoint.every_steps": 1000}
PACED = {**QUICK, "env.id": "tests.system.environments:Paced"}
"""Never ends by itself, because it waits while the file that PACED_VARIABLE names is there."""


@pytest.fixture(autouse=True)
def here(environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the folder, sockets and variables of a system test in this process."""
    monkeypatch.chdir(tmp_path)
    for name in ("PYTHONPATH", "XDG_RUNTIME_DIR", "TERM", PACED_VARIABLE):
        monkeypatch.setenv(name, environment[name])


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also if these tests were started in the background, where it is ignored."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


def corridor() -> type[gymnasium.Env]:
    """A class as a notebook's cell defines it: no other process can import it."""

    class Corridor(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self, length: int = 3) -> None:
            self.length = length

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.place = 0
            return self._seen(), {}

        def step(self, action):
            self.place += int(action)
            over = self.place >= self.length
            return self._seen(), float(over) - 0.1, over, False, {}

        def _seen(self):
            return np.float32([self.place / self.length])

    return Corridor


@pytest.mark.smoke
def test_a_class_of_this_program_is_trained_by_two_simulators() -> None:
    told: dict[str, list[Any]] = {"reports": [], "checkpoints": []}
    run = actorlearn.train(
        corridor(),
        "ppo",
        total_steps=3_000,
        seed=1,
        progress=False,
        on_report=lambda _, row: told["reports"].append(row["env_steps"]),
        on_checkpoint=lambda _, saved: told["checkpoints"].append(saved["env_steps"]),
        **QUICK,
        **{"env.kwargs": {"length": 4}, "algorithm.horizon": 32},
    )
    assert run.state == "finished" and run.steps >= 3_000
    assert told["reports"] == [row["env_steps"] for row in run.metrics()]
    log = (run.folder / "logs" / "supervisor.log").read_text()
    assert 2 <= log.count(" steps/s ") < len(told["reports"]), "the first report and the last, and one in ten seconds"
    assert told["checkpoints"][-1] == run.checkpoints()[-1] == run.policy().env_steps
    assert {f"simulator-{number}" for number in (0, 1)} <= {event["process"] for event in run.events()}
    assert run.topology["env"]["kwargs"]["length"] == 4
    assert (run.folder / "environment.pickle").is_file()
    assert len(run.metrics_frame()) == len(run.metrics())
    first = run.checkpoints()[0]
    assert run.policy(at=first).env_steps == first
    assert run.evaluate(2, greedy=False, seed=3)["episodes"] == 2
    own = [found.folder for found in actorlearn.runs() if found.folder.parent == run.folder.parent]  # others may live
    assert own[-1:] == [run.folder]
    resumed = actorlearn.open(run.name).resume(total_steps=4e3, seed=2, **{"env.kwargs": {"length": 3}})
    assert resumed.wait() == "finished" and resumed.steps >= 4_000
    assert resumed.topology["env"]["kwargs"] == {**run.topology["env"]["kwargs"], "length": 3}
    card = (resumed.export("exported", episodes=0, weights_only=True) / "README.md").read_text()
    assert "| resumed | at 3," in card and "seed: 1 → 2, total_steps: 3_000 → 4_000" in card and ", seed 2 |" in card
    assert {axes.get_xlabel() for axes in resumed.plot().axes} == {"environment steps (thousands)", "minutes"}


@pytest.mark.parametrize("packages", [False, True])
def test_a_module_below_the_folder_of_the_interpreter_is_imported_by_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packages: bool
) -> None:
    """In a project that is its own virtual environment, or in a folder on PYTHONPATH beside installed packages."""
    folder = tmp_path / "site-packages" / "mine" if packages else tmp_path / "app"
    folder.mkdir(parents=True)
    (folder / "own_module.py").write_text("from actorlearn.envs.catch import Catch as Own\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(tmp_path / "site-packages")])
    if packages:
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.environ["PYTHONPATH"], str(folder)]))
    run = actorlearn.train(CATCH, total_steps=500, progress=False, **{**QUICK, "env.id": "own_module:Own"})
    assert run.state == "finished"


def test_wrong_counts_and_names_are_refused_and_a_column_is_plotted() -> None:
    run = actorlearn.train(CATCH, total_steps=1_000, progress=False, **QUICK)
    for asked in (lambda: run.attach(simulators=0), lambda: run.attach(-1), lambda: run.attach(1, learners=-1)):
        with pytest.raises(ValueError, match="at least one process must be added"):
            asked()
    for names in ((["simulator-1"],), ()):
        with pytest.raises(ValueError, match=r"pass a list as detach\(\*names\)"):
            run.detach(*names)  # type: ignore[arg-type]
    assert "loss" in run.plot("loss").axes[0].get_ylabel()


def test_a_living_run_is_changed_saved_and_stopped() -> None:
    run = actorlearn.start(CATCH, seed=1, **PACED, **{"total_steps": 10**9})
    try:
        assert run.state == "running"
        assert within(120, lambda: run.steps > 0)
        assert run.wait(timeout_s=0.5) == "running"
        assert run.attach(simulators=1) == ["simulator-2"]
        assert run.detach("simulator-2") == ["simulator-2"]
        assert run.save().parent == run.folder / "checkpoints"
    finally:
        assert run.stop() == "stopped"
    assert run.checkpoints()[-1] == run.policy().env_steps
    with pytest.raises(ValueError, match=r"is not alive \(stopped\)"):
        run.save()


def test_a_callback_for_evaluations_without_an_evaluator_is_refused_before_the_run_starts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"on_evaluation: the run has no evaluator.*\*\*\{'evaluator.count': 1\}"):
        actorlearn.train(CATCH, on_evaluation=lambda *_: None, run_dir="none", **QUICK)
    assert not (tmp_path / "none").exists()
    run = actorlearn.train(CATCH, total_steps=500, progress=False, **QUICK)
    with pytest.raises(ValueError, match=r"on_evaluation: the run has no evaluator.*\*\*\{'evaluator.count': 1\}"):
        run.wait(on_evaluation=lambda *_: None)
    told: list[Any] = []
    resumed = run.resume(total_steps=600, **{"evaluator.count": 1, "evaluator.episodes": 2})
    resumed.wait(on_evaluation=lambda _, result: told.append(result["episodes"]))
    assert told and set(told) == {2}


def test_a_callback_that_returns_false_stops_the_run_and_one_that_fails_does_too() -> None:
    run = actorlearn.train(CATCH, total_steps=10**9, progress=False, on_report=lambda *_: False, **PACED)
    assert run.state == "stopped" and run.steps < 10**9

    def fail(run: actorlearn.Run, _: dict[str, Any]) -> None:
        raise ZeroDivisionError(run.name)

    with pytest.raises(ZeroDivisionError) as raised:
        actorlearn.train(CATCH, total_steps=10**9, progress=False, on_report=fail, **PACED, run_dir="second")
    assert actorlearn.open(str(raised.value)).state == "stopped"


def halted(run: actorlearn.Run) -> int:
    """Halt a run's supervisor, which then answers nothing until SIGCONT; return its process id."""
    pid = int(json.loads((run.folder / "meta.json").read_text())["supervisor_pid"])
    os.kill(pid, signal.SIGSTOP)
    return pid


def test_a_run_whose_supervisor_is_slow_to_answer_is_stopped_when_a_callback_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("launch.python.run.TIMEOUT_S", 0.5)
    halts: list[threading.Timer] = []

    def stop(run: actorlearn.Run, _: dict[str, Any]) -> bool:
        if not halts:
            halts.append(threading.Timer(2.0, os.kill, (halted(run), signal.SIGCONT)))
            halts[0].start()
        return False

    run = actorlearn.start(CATCH, total_steps=10**9, **PACED)
    try:
        assert run.wait(60, on_report=stop) == "stopped"
    finally:
        if run.state == "running":
            run.stop(now=True)


def test_an_exception_of_a_callback_is_raised_even_if_the_run_cannot_be_stopped() -> None:
    pids: list[int] = []

    def fail(run: actorlearn.Run, _: dict[str, Any]) -> None:
        pids.append(halted(run))
        raise ZeroDivisionError(run.folder)

    with pytest.raises(ZeroDivisionError) as raised:
        actorlearn.train(CATCH, total_steps=10**9, progress=False, on_report=fail, **PACED)
    os.kill(pids[0], signal.SIGCONT)
    run = actorlearn.open(str(raised.value))
    assert "did not answer" in " ".join(raised.value.__notes__)
    assert run.state == "stopped" or run.stop() == "stopped"
    os.waitpid(pids[0], 0)  # `train` ended before its supervisor


def test_a_living_run_whose_folder_is_removed_is_followed_in_the_folder_that_it_makes_again(tmp_path: Path) -> None:
    told: list[float] = []

    def remove(run: actorlearn.Run, row: dict[str, Any]) -> bool:
        told.append(row["time_s"])
        if len(told) == 1:
            run.folder.rename(tmp_path / "removed")
        return len(told) < 3

    run = actorlearn.train(CATCH, total_steps=10**9, progress=False, on_report=remove, **PACED)
    assert run.state == "stopped" and told == sorted(set(told)) and len(told) >= 3


def test_a_resume_is_refused_if_another_program_resumed_the_run_first(monkeypatch: pytest.MonkeyPatch) -> None:
    run = actorlearn.train(CATCH, total_steps=500, progress=False, **QUICK)
    first: list[actorlearn.Run] = []
    popen = subprocess.Popen

    def late(*words: Any, **keys: Any) -> Any:
        """Start after another program has resumed the run, although the run was not alive when this was asked for."""
        monkeypatch.setattr(subprocess, "Popen", popen)
        first.append(actorlearn.open(run.name).resume(**{"total_steps": 10**9, "env.id": PACED["env.id"]}))
        return popen(*words, **keys)

    monkeypatch.setattr(subprocess, "Popen", late)
    try:
        with pytest.raises(ValueError, match=f"{run.name} is alive"):
            run.resume(total_steps=1_000)
    finally:
        first[0].stop()


def test_a_resume_waits_for_its_own_supervisor_if_the_last_one_had_the_same_process_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A killed supervisor leaves its number in meta.json, and processes of a restarted container get the same ones."""
    run = actorlearn.train(CATCH, total_steps=500, progress=False, **QUICK)
    popen, file = subprocess.Popen, run.folder / "meta.json"

    def same(*words: Any, **keys: Any) -> Any:
        process = popen(*words, **keys)
        file.write_text(json.dumps(json.loads(file.read_text()) | {"supervisor_pid": process.pid}))
        return process

    monkeypatch.setattr(subprocess, "Popen", same)
    resumed = run.resume(**{"total_steps": 10**9, "env.id": PACED["env.id"]})
    assert resumed.state == "running"
    resumed.stop()


def test_a_refused_run_does_not_remove_a_folder_that_another_run_has_locked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handles: list[int] = []

    def taken(*words: Any) -> Path:
        """Make a folder that a supervisor locks before this program's, and in which it has written nothing yet."""
        folder = new_folder(*words)
        handles.append(os.open(folder, os.O_RDONLY))
        fcntl.flock(handles[0], fcntl.LOCK_EX)
        return folder

    monkeypatch.setattr("launch.python.training.new_folder", taken)
    with pytest.raises(ValueError, match="another run uses this folder"):
        actorlearn.start(CATCH, run_dir="shared", **QUICK)
    assert os.path.samestat(os.fstat(handles[0]), Path("shared").stat())
    os.close(handles[0])


@pytest.mark.usefixtures("heeds_ctrl_c")
@pytest.mark.parametrize("interrupts", [1, 2])
def test_ctrl_c_stops_the_run_and_returns_it(interrupts: int) -> None:
    def interrupt(run: actorlearn.Run, _: dict[str, Any]) -> None:
        for number in range(interrupts):
            threading.Timer(0.3 * number, os.kill, (os.getpid(), signal.SIGINT)).start()

    run = actorlearn.train(CATCH, total_steps=10**9, progress=False, on_report=interrupt, **PACED)
    assert run.state == "stopped"
    assert interrupts == 2 or run.policy().env_steps == run.checkpoints()[-1] > 0


@pytest.mark.parametrize(
    ("first", "keys", "said"),
    [
        ("Nonsense-v1", {}, r"^env\.id: 'Nonsense-v1' is not registered with gymnasium"),
        (lambda: 5, {}, r"returned 5; it must return a gymnasium\.Env"),
        ("CartPole-v1", {"simulators.cout": 2}, "did you mean simulators.count"),
    ],
)
def test_a_wrong_request_raises_one_line_and_makes_no_run(first: Any, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        actorlearn.start(first, "ppo", total_steps=1000, **keys)
    assert "\n" not in str(raised.value)
    assert list(Path("runs").glob("*")) == []


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_programs_of_the_python_page_run(tmp_path: Path) -> None:
    """Each block of docs/python.md is a program, or continues the one before it."""
    code = "\n".join(block.text for block in blocks(ROOT / "docs" / "python.md") if block.kind == "python")
    assert code.count("actorlearn.train(") >= 3
    (tmp_path / "page.py").write_text(code)
    done = subprocess.run([sys.executable, "page.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize(
    "file", sorted((ROOT / "examples" / "beside-stable-baselines3").glob("*.py")), ids=lambda file: file.stem
)
def test_a_program_beside_stable_baselines3_runs(file: Path) -> None:
    if file.stem.endswith("_sb3"):
        pytest.importorskip("stable_baselines3")
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^(one more game|stopped after|the best, of step) ", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(ROOT / "examples" / "corridor.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=1500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert any("<progress" in output.get("data", {}).get("text/html", "") for output in outputs)


def test_a_game_is_filmed_played_and_shown(tmp_path: Path) -> None:
    pytest.importorskip("av")
    run = actorlearn.train(CATCH, total_steps=1_000, progress=False, **QUICK)
    film = run.record(tmp_path / "game.mp4", seed=1)
    assert film.path.read_bytes()[4:8] == b"ftyp" and film.score in (-1.0, 1.0)
    formatters = pytest.importorskip("IPython.core.formatters")
    assert "video/mp4;base64," in formatters.HTMLFormatter()(film)
    assert set(run.policy().play(Catch(), 3, seed=1)) <= {-1.0, 1.0}
    with pytest.raises(ValueError, match=r"end the path in \.mp4"):
        run.record(tmp_path / "game.avi")
    with pytest.raises(ValueError, match="choose a folder that exists"):
        run.record(tmp_path / "none" / "game.mp4")


def test_a_game_of_a_function_without_the_argument_render_mode_is_filmed(tmp_path: Path) -> None:
    pytest.importorskip("av")
    run = actorlearn.train(
        lambda: Catch(render_mode="rgb_array"),
        algorithm="ppo",
        total_steps=1_000,
        progress=False,
        **QUICK,
    )
    assert run.record(tmp_path / "game.mp4", seed=1).path.read_bytes()[4:8] == b"ftyp"


def test_an_older_checkpoint_is_loaded_played_exported_and_resumed(tmp_path: Path) -> None:
    run = actorlearn.train(CATCH, total_steps=3_000, progress=False, **{**QUICK, "checkpoint.keep": 10})
    at, newest = run.checkpoints()[1], run.checkpoints()[-1]
    assert 1000 <= at < 1100 and newest >= 3000
    assert run.policy(at).env_steps == run.evaluate(2, at=at)["env_steps"] == at
    exported = run.export(tmp_path / "exported", at=at, episodes=2, weights_only=True)
    assert f"{at:,}" in (exported / "README.md").read_text()
    for refused in (run.evaluate, run.resume):
        with pytest.raises(ValueError, match=rf"at 7: no such checkpoint is kept; .* 0, {at:_}, .*{newest:_}$"):
            refused(at=7)
    with pytest.raises(ValueError, match="total_steps = 500"):
        run.resume(at, total_steps=500)
    assert run.checkpoints()[-1] == newest  # nothing was moved for a run that was refused
    resumed = run.resume(at, total_steps=3_500)
    assert resumed.wait() == "finished"
    began, with_changes = (event for event in resumed.events() if event["kind"] == "resumed")
    assert with_changes["changed"] == {"total_steps": {"was": 3_000, "is": 3_500}}
    assert f"at {at:,} steps" in began["cause"] and resumed.checkpoints()[-1] >= 3500
    assert f"{newest:012d}" in {path.name for path in (run.folder / "checkpoints" / "aside").iterdir()}


def test_an_evaluation_of_a_living_run_tells_the_age_of_its_weights_and_can_save(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seldom = {"checkpoint.every_steps": 10**9, "checkpoint.every_s": None}
    run = actorlearn.start(CATCH, seed=1, **{**PACED, **seldom}, total_steps=10**9)
    try:
        assert within(120, lambda: run.steps > 0)
        with pytest.warns(UserWarning, match="these weights are those of step 0, from before the first update"):
            old = run.evaluate(2)
        assert run.evaluate(2, save=True)["env_steps"] > 0
        with pytest.raises(ValueError, match="save=True: saves the newest checkpoint, and at=0 plays another"):
            run.evaluate(2, at=0, save=True)
        assert old["env_steps"] == 0 and old["behind_steps"] > 0 and old["age_s"] > 0.0
        evaluate(run.name, 2, None, None, record=False, json=False, save=True)
        first, age, *_ = capsys.readouterr().out.splitlines()
        assert f"with the policy of {run.checkpoints()[-1]:,} steps" in first and run.checkpoints()[-1] > 0
        assert age.startswith("the run is alive: these weights are ")
        with pytest.raises(ValueError, match="--save: saves the newest checkpoint, and --at 0 plays another"):
            evaluate(run.name, 2, None, None, record=False, json=False, at=0, save=True)
    finally:
        run.stop()
    ended = run.evaluate(2)
    assert "age_s" not in ended and ended["behind_steps"] == 0


def test_the_best_checkpoint_is_kept_and_found(capsys: pytest.CaptureFixture[str]) -> None:
    keys = {"checkpoint.keep": 1, "checkpoint.every_steps": 200, "evaluator.count": 1, "evaluator.every_steps": 500}
    keys |= {"evaluator.episodes": 2, "evaluator.scheduling": "other"}
    run = actorlearn.train(CATCH, total_steps=4_000, progress=False, **{**QUICK, **keys})
    best = max(run.evaluations(), key=lambda one: one["mean"])
    at = run.policy("best").env_steps
    assert best["env_steps"] <= at and at in run.checkpoints()
    played = run.evaluate(2, at="best")
    assert played["env_steps"] == at
    told = [played[f"best_score{key}"] for key in ("", "_env_steps", "_by")]
    assert told == [best["mean"], best["env_steps"], "evaluation"]
    assert "best_score" not in run.evaluate(2)
    evaluate(run.name, 2, None, None, record=False, json=False, at="best")
    scored = (
        f"best checkpoint: weights of {at:,} steps; the best score, {best['mean']:g}, was reached in an evaluation at "
    )
    scored += f"{best['env_steps']:,} steps"
    assert scored in capsys.readouterr().out.splitlines()
    *older, newest = run.checkpoints()
    assert older == [at] if at != newest else len(older) <= 1  # after the last save nothing is removed


def test_without_an_evaluator_the_training_score_decides_the_best_checkpoint() -> None:
    run = actorlearn.train(CATCH, total_steps=4_000, progress=False, **{**QUICK, "checkpoint.keep": 100})
    rows = [row for row in run.metrics() if row["episodes"] >= 100]
    assert run.policy("best").env_steps >= rows[0]["env_steps"]
