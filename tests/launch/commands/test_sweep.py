"""``actorlearn sweep`` before it starts a run: what --check prints, and which sweeps are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from launch.commands.sweep import sweep
from launch.errors import RunError
from launch.sweeps.file import read
from launch.sweeps.history import FORMAT, Begun, Ended, Trial
from launch.sweeps.state import State
from launch.topology.load import plain
from tests.launch.desk.folders import row, write_run

TEXT = "topology: cart.yaml\nvary: {optimizer.learning_rate: [0.1, 0.2]}\nseeds: [1, 2, 3]\nat_once: 2\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("cart.yaml").write_text("env: {id: CartPole-v1}\n")
    Path("rates.yaml").write_text(TEXT)
    return Path("rates.yaml")


def begin(file: Path, folder: Path) -> None:
    asked = read(file)
    with State(folder) as state:
        begun = Begun(format=FORMAT, version="0", keys=plain(asked.keys), topology=asked.text, pins=dict(asked.pins))
        state.add(begun)


def test_check_says_what_would_be_run_and_starts_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep(file, None, check=True, retry=False, json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "trial    0  optimizer.learning_rate=0.1",
        "trial    1  optimizer.learning_rate=0.2",
        "ok rates: 2 trials, each with 3 seeds: 6 runs; at most 2 at once: set by at_once",
    ]
    assert not Path("runs").exists()
    begin(file, Path("runs/rates"))
    assert sweep(file, None, check=True, retry=False, json=False) == 0
    assert "runs/rates: 0 ended runs; `actorlearn sweep rates.yaml` continues the sweep" in capsys.readouterr().out


def test_a_count_of_one_is_printed_in_the_singular(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace("[0.1, 0.2]", "[0.1]").replace("[1, 2, 3]", "[1]"))
    assert sweep(file, None, check=True, retry=False, json=False) == 0
    assert "ok rates: 1 trial with 1 seed: 1 run; at most" in capsys.readouterr().out


def test_check_prints_json_if_asked(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep(file, Path("there"), check=True, retry=False, json=True) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["name"], said["folder"], said["at_once"]) == ("rates", "there", 2)
    assert said["trials"] == [{"optimizer.learning_rate": 0.1}, {"optimizer.learning_rate": 0.2}]


def test_a_sweep_file_or_topology_that_has_changed_since_the_start_is_refused(file: Path) -> None:
    begin(file, Path("there"))
    file.write_text(TEXT.replace("0.2", "0.3"))
    with pytest.raises(
        RunError, match=r"rates.yaml: vary has changed from .* to .* since the sweep was started; .* --folder"
    ):
        sweep(file, Path("there"), check=False, retry=False, json=False)
    file.write_text(TEXT)
    Path("cart.yaml").write_text("env: {id: CartPole-v1}\nseed: 3\n")
    with pytest.raises(RunError, match=r"cart.yaml: has changed since the sweep was started; restore it"):
        sweep(file, Path("there"), check=False, retry=False, json=False)


def test_a_folder_with_something_else_in_it_is_left_alone(file: Path) -> None:
    Path("there").mkdir()
    Path("there/mine").touch()
    with pytest.raises(RunError, match=r"there: contains mine but no sweep; name an empty or new --folder"):
        sweep(file, Path("there"), check=False, retry=False, json=False)
    assert [path.name for path in Path("there").iterdir()] == ["mine"]


def test_a_sweep_without_runs_reports_none_of_others(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Formerly such a report showed all runs of runs/."""
    write_run(Path("runs/unrelated"), [row(1)])
    file.write_text("topology: cart.yaml\n")
    begin(file, Path("runs/rates"))
    with State(Path("runs/rates")) as state:
        state.add(Trial(number=0, values={}))
        state.add(Ended(trial=0, seed=1, status="failed", error="refused"))
    assert sweep(file, None, check=False, retry=False, json=False) == 1
    said = capsys.readouterr().out
    assert "0 runs in runs/rates\n" in said and "report.html" not in said
    assert not Path("runs/rates/report.html").exists()


def test_an_engine_that_could_start_no_run_is_refused_before_anything_is_made(file: Path) -> None:
    for check in (True, False):
        with pytest.raises(RunError, match="--engine: 'sssh' must be local, ray, slurm, ssh or package"):
            sweep(file, Path("there"), check=check, retry=False, json=False, engine="sssh")
        with pytest.raises(RunError, match="--engine slurm: an engine starts nodes, and this topology has none"):
            sweep(file, Path("there"), check=check, retry=False, json=False, engine="slurm")
    assert not Path("there").exists()
