"""An engine of another package: with one file and an entry point, it starts the nodes of a whole run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launch.engines.specs import ENGINES, EngineSpec
from tests.launch.asking import ask, refused
from tests.packages import installed
from tests.sizes import ROOT

ENGINE = """
import subprocess

from launch.engines.specs import EngineSpec

SPEC = EngineSpec(name="telling", made_by="telling_engine:TellingEngine", here=True)


class TellingEngine:
    def __init__(self, run_dir, nodes):
        self.told, self.agents = run_dir / "started.txt", {}

    def start(self, nodes):
        for node in nodes:
            with self.told.open("a") as file:
                file.write(f"{node.name}\\n")
            self.agents[node.name] = subprocess.Popen([*node.words, "--key", str(node.key)])

    def gone(self):
        ended = [name for name, agent in self.agents.items() if agent.poll() is not None]
        return {name: f"exit status {self.agents.pop(name).returncode}" for name in ended}

    def close(self):
        for agent in self.agents.values():
            agent.wait(20)
        with self.told.open("a") as file:
            file.write("closed\\n")
"""
TOPOLOGY = "env: {id: actorlearn.envs.catch:Catch}"
KEYS = ["simulators.count=1", "simulators.envs=4", "total_steps=400", "trainer.threads=1", "inference.count=0"]

TWO = ["nodes.count=2", "learners.count=2", "mode=sync"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder of installed packages with the engine in it."""
    entries = "[actorlearn.engines]\ntelling = telling_engine:SPEC\n"
    return installed(tmp_path / "site", entries, {"telling_engine": ENGINE}, "telling")


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    file = tmp_path / "catch.yaml"
    file.write_text(TOPOLOGY)
    return file


def actorlearn(package: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line of a user who has installed the package."""
    environment = {**os.environ, "PYTHONPATH": f"{package}:{ROOT}"}
    command = [sys.executable, "-m", "actorlearn", *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_nodes_of_a_run_are_started_by_the_engine_that_a_package_brings(
    package: Path, topology: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    words = ("run", topology, *KEYS, *TWO, "--run-dir", folder, "--engine", "telling")
    done = actorlearn(package, *words)
    assert done.returncode == 0, done.stderr
    assert (folder / "started.txt").read_text().splitlines() == ["node-0", "node-1", "closed"]
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert {event["node"] for event in events if event["kind"] == "joined"} == {"node-0", "node-1"}


def test_engines_are_listed_with_the_packages_that_bring_them(package: Path) -> None:
    code = "from launch.engines.specs import ENGINES; print([(e.name, e.distribution) for e in ENGINES.entries()])"
    environment = {**os.environ, "PYTHONPATH": f"{package}:{ROOT}"}
    listed = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    assert "('local', 'actorlearn')" in listed and "('telling', 'telling')]" in listed


def test_an_engine_may_be_named_without_being_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unregistered_engine.py").write_text(ENGINE)
    monkeypatch.syspath_prepend(tmp_path)
    spec = ENGINES.spec("unregistered_engine:TellingEngine")
    assert isinstance(spec, EngineSpec)
    assert callable(spec.load())


def test_an_unknown_or_incomplete_engine_is_refused_before_anything_is_made(tmp_path: Path, topology: Path) -> None:
    for name, said in (
        ("kubernetes", f"--engine: 'kubernetes' must be {', '.join(ENGINES.names())} or package.module:Name"),
        ("pathlib:Path", "it lacks start, gone, close"),
    ):
        assert said in refused("run", topology, "--run-dir", tmp_path / "run", "--engine", name)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--engine", "ssh"],
            "--engine ssh: an engine starts nodes, and this topology has none; write nodes.listen and",
        ),
        (["--engine", "ssh", *["nodes.count=2", "mode=sync"]], "nodes.listen: null; the engine ssh may start"),
        (
            ["--engine", "ssh", "nodes.listen=127.0.0.1:0", "nodes.count=2", "nodes.hosts=[a]"],
            "nodes.hosts: 1 hosts for nodes.count = 2",
        ),
        (["--engine", "ssh", "nodes.listen=127.0.0.1:0", "nodes.hosts=[-oProxyCommand=x]"], "write [user@]host"),
        (["--engine", "local", "nodes.listen=0.0.0.0:5555", "--keys", "."], "machine's addresses: 127.0.0.1:5555 (lo)"),
    ],
)
def test_nodes_that_an_engine_cannot_start_are_refused_before_anything_is_made(
    words: list[str], said: str, tmp_path: Path, topology: Path
) -> None:
    result = ask("run", topology, "--run-dir", tmp_path / "run", *words)
    assert result.exit_code == 2 and said in result.stderr
    assert not (tmp_path / "run").exists()


def test_an_engine_needs_the_keys_of_all_nodes(tmp_path: Path, topology: Path) -> None:
    from actorlearn.wire.keys import make_keys

    make_keys(tmp_path / "keys", ["a", "b"])
    words = ("nodes.count=4", "nodes.listen=127.0.0.1:0", "--engine", "local", "--keys", tmp_path / "keys")
    said = ask("run", topology, "--run-dir", tmp_path / "run", *words).stderr
    assert "has the keys of 2 nodes, and nodes.count is 4; " in said
    assert f"`actorlearn keys new --node node-2 --node node-3 {tmp_path / 'keys'}`" in said
