"""An engine of somebody else's: one file and its entry point, by which a whole run is started, watched and ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launch.engines.specs import ENGINES, EngineSpec
from tests.launch.asking import refused
from tests.packages import installed
from tests.sizes import ROOT

ENGINE = """
from pathlib import Path

from launch.engines.specs import EngineSpec
from launch.spawning.local import LocalSpawner

SPEC = EngineSpec(name="telling", made_by="telling_engine:TellingSpawner")


class TellingSpawner(LocalSpawner):
    def __init__(self, run_dir, run_id):
        super().__init__(run_dir / "logs", run_id)
        self.told = run_dir / "started.txt"

    def spawn(self, name, incarnation, role, settings, threads):
        with self.told.open("a") as file:
            file.write(f"{name}.{incarnation} {role}\\n")
        return super().spawn(name, incarnation, role, settings, threads)
"""
TOPOLOGY = "env: {id: actorlearn.envs.catch:Catch}"
KEYS = ["simulators.count=1", "simulators.envs=4", "total_steps=400", "trainer.threads=1", "inference.count=0"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder of packages with the engine in it, as an installer leaves it."""
    entries = "[actorlearn.engines]\ntelling = telling_engine:SPEC\n"
    return installed(tmp_path / "site", entries, {"telling_engine": ENGINE}, "telling")


def actorlearn(package: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """The command line of who has installed the package."""
    environment = {**os.environ, "PYTHONPATH": f"{package}:{ROOT}"}
    command = [sys.executable, "-m", "actorlearn", *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False)


@pytest.mark.nightly
def test_a_run_is_started_by_the_engine_that_a_package_brings(package: Path, tmp_path: Path) -> None:
    folder, topology = tmp_path / "run", tmp_path / "catch.yaml"
    topology.write_text(TOPOLOGY)
    done = actorlearn(package, "run", topology, *KEYS, "--run-dir", folder, "--engine", "telling")
    assert done.returncode == 0, done.stderr
    assert (folder / "started.txt").read_text().splitlines() == ["trainer.0 trainer", "simulator-0.0 simulator"]


def test_engines_are_listed_with_whose_they_are(package: Path) -> None:
    code = "from launch.engines.specs import ENGINES; print([(e.name, e.distribution) for e in ENGINES.entries()])"
    environment = {**os.environ, "PYTHONPATH": f"{package}:{ROOT}"}
    listed = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    assert listed.strip() == "[('local', 'actorlearn'), ('telling', 'telling')]"


def test_an_engine_may_be_named_without_being_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unregistered_engine.py").write_text(ENGINE)
    monkeypatch.syspath_prepend(tmp_path)
    spec = ENGINES.spec("unregistered_engine:TellingSpawner")
    assert isinstance(spec, EngineSpec)
    assert callable(spec.load())


def test_an_engine_that_cannot_be_had_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    topology = tmp_path / "catch.yaml"
    topology.write_text(TOPOLOGY)
    for name, said in (
        ("slurm", "--engine: 'slurm' must be local or package.module:Name"),
        ("pathlib:Path", "it lacks spawn, ended, reap, kill, show_stack, reap_orphans, close"),
    ):
        assert said in refused("run", topology, "--run-dir", tmp_path / "run", "--engine", name)
    assert not (tmp_path / "run").exists()
