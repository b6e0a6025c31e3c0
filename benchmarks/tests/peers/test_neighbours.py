"""The comparison neighbours: other programs do the work of a topology beside the load of the suite neighbours."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.peers.compare import HERE, PeerProgram, answer
from benchmarks.registry import PEERS
from benchmarks.request import BenchmarkRequest, shipped
from launch.bench.neighbours import OURS
from launch.bench.report import SuiteReport
from launch.errors import FailedError
from launch.topology.load import load

neighbours = import_module("benchmarks.peers.neighbours")
SCRIPTS = HERE / "scripts"
PAAC = shipped("atari/paac.yaml")


def test_peers_do_the_topologys_work_or_none() -> None:
    paac = load(PAAC, ["trainer.precision=bf16", "simulators.count=2", "simulators.envs=16"])
    peers = neighbours.peers_of(paac, cores=2)
    assert [peer.arguments for peer in peers.values()] == [
        ("32", "5", "ale", "nips", "bf16", "2"),
        ("32", "5", "nips"),
    ]
    assert all((SCRIPTS / peer.script).is_file() for peer in peers.values())
    for key in ("env.id=ALE/Breakout-v5", "model.name=impala", "algorithm.name=ppo"):
        assert neighbours.peers_of(load(PAAC, [key]), cores=2) == {}


def test_a_peer_counts_in_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import json, os, sys, time; sys.path.insert(0, {str(SCRIPTS)!r}); import windows; windows.WINDOW_S = 0.1\n"
        "counted = windows.Windows()\n"
        "for _ in range(3): time.sleep(0.11); counted.count(7)\n"
        "print(json.dumps({'windows': counted.rates, 'session': os.getsid(0)}))\n"
    )
    told = answer(Path(sys.executable), PeerProgram("none", str(script), (), OURS), 1.0)
    assert len(told["windows"]) == 3
    assert all(0.0 < rate <= 70.0 for rate in told["windows"])
    assert told["session"] == os.getsid(0), "between sessions nice counts for nothing where autogroup is on"


def test_installed_programs_are_measured_beside_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Sequence[float]] = {}

    def compare(
        suite: str,
        _request: object,
        programs: dict[str, Callable[[], Sequence[float]]],
        _notes: object,
        figures: object,
    ) -> SuiteReport:
        asked.update({name: measure() for name, measure in programs.items()})
        return SuiteReport(suite, (), (), {}, "", figures=figures)

    monkeypatch.setattr(neighbours.suite, "compare", compare)
    monkeypatch.setattr(neighbours, "answer", lambda _python, peer, _seconds: {"windows": [len(peer.arguments)]})
    monkeypatch.setattr(neighbours, "environment", lambda name: Path(name))
    monkeypatch.setattr(neighbours, "packages", lambda python: [f"{python}==1"])
    made = PEERS["neighbours"].load()(BenchmarkRequest(PAAC, ("trainer.precision=fp32",), 1, 1.0))
    assert asked == {"plain loop": [6.0], "Stable-Baselines3": [3.0]}
    assert made.figures == {"peers": {"loops": ["loops==1"], "sb3": ["sb3==1"]}}


def test_what_is_not_installed_and_what_peers_cannot_do_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    measure = PEERS["neighbours"].load()
    with pytest.raises(FailedError, match=r"install\.sh loops"):
        measure(BenchmarkRequest(PAAC, (), 1, 1.0))
    with pytest.raises(FailedError, match=r"the peers play ALE/Pong-v5 by a2c"):
        measure(BenchmarkRequest(shipped("catch.yaml"), (), 1, 1.0))
