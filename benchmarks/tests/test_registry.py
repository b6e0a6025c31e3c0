"""Every benchmark can be found, listed and asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks import __main__ as commands
from benchmarks.registry import MEASURING, PAPERS, PEERS, PROGRAM, SUITES, VISIT
from benchmarks.request import TOPOLOGIES, shipped
from launch import bench
from launch.commands.bench import what_to_measure
from launch.errors import RunError
from launch.topology.load import load
from tests.sizes import ROOT


def test_every_suite_has_a_description_to_list() -> None:
    for suite in (*SUITES.values(), *PEERS.values(), VISIT):
        assert (suite.load().__doc__ or "").partition("\n")[0]


def test_no_two_suites_have_one_name() -> None:
    assert len(MEASURING) == len(PAPERS) + len(PROGRAM) + len(bench.SUITES)


@pytest.mark.parametrize("file", sorted(TOPOLOGIES.glob("*.yaml")), ids=lambda path: path.name)
def test_topologies_of_this_package_load_and_are_measured(file) -> None:
    if "minatar" in file.name:
        pytest.importorskip("minatar", reason="pip install 'actorlearn[minatar]'")
    load(shipped(file.name))
    assert file.name == "handover.yaml" or file.name in {suite.topology for suite in SUITES.values()}


def test_the_commands_are_listed_and_so_is_what_each_can_measure(capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert all(word in done.stdout for word in ("reproduce", "suite", "peers", "gpu", "gpu-kit", "pages"))
    assert commands.suite(None) == commands.peers(None) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*SUITES, *PEERS]


def test_what_does_not_fit_a_suite_is_refused() -> None:
    with pytest.raises(RunError, match="'pongs' is none of these: pong, sb3"):
        commands.peers("pongs")
    with pytest.raises(RunError, match="stragglers takes no --engine: leave 'local' out; these do: dba3c-async"):
        commands.suite("stragglers", engine="local")
    with pytest.raises(RunError, match=r"suite pong has its own topologies; omit 'cart\.yaml'"):
        commands.peers("pong", "cart.yaml")


@pytest.mark.parametrize(
    ("known", "names"),
    [
        (PEERS, ("pong", "sb3", "cartpole", "dqn")),
        (SUITES, ("handover", "desk", "guard", "dba3c-prediction")),
        (bench.SUITES, ("replay",)),
    ],
)
def test_keys_are_refused_by_suites_that_would_ignore_them(
    known: dict[str, bench.Suite], names: tuple[str, ...]
) -> None:
    for name in names:
        with pytest.raises(RunError, match=rf"suite {name} has its own keys, .* omit 'seed=3'"):
            what_to_measure(name, known[name], ["seed=3"])
        assert what_to_measure(name, known[name], [])["overrides"] == ()
    with pytest.raises(RunError, match="suite dqn has its own keys"):
        commands.peers("dqn", "trainer.precision=fp32")
