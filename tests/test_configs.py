"""Every shipped topology loads, has a name of its own, and points editors to the schema."""

import re
from pathlib import Path

import pytest

from launch.topology import load
from launch.topology.defaults import kind_of

ROOT = Path(__file__).parent.parent
CONFIGS = ROOT / "configs"
SHIPPED = sorted(CONFIGS.rglob("*.yaml"))


def test_the_shipped_topologies_are_found() -> None:
    assert {"pong.yaml", "cartpole.yaml", "catch.yaml", "atari/paac.yaml"} <= {
        path.relative_to(CONFIGS).as_posix() for path in SHIPPED
    }


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_topology_is_the_same_after_it_is_written_and_read_again(path: Path) -> None:
    loaded = load.load(path)
    assert load.parse(load.dump(loaded)) == loaded


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_overrides_change_a_shipped_topology(path: Path) -> None:
    loaded = load.load(path, ["simulators.count=1", "simulators.envs=2", "seed=7", "total_steps=1_000"])
    assert (loaded.simulators.count, loaded.simulators.envs, loaded.seed, loaded.total_steps) == (1, 2, 7, 1000)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_the_first_line_points_editors_to_the_schema(path: Path) -> None:
    schema = re.match(r"# yaml-language-server: \$schema=(\S+)\n", path.read_text(encoding="utf-8"))
    assert schema and (path.parent / schema[1]).resolve() == ROOT / "launch" / "topology" / "topology.schema.json"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_no_topology_asks_every_processor_for_bfloat16(path: Path) -> None:
    """One without its products emulates them: Pong then learned at a ninth of the rate of fp32."""
    loaded = load.load(path)
    assert "bf16" not in (loaded.trainer.precision, loaded.inference.precision)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_the_name_of_a_topology_is_its_files(path: Path) -> None:
    assert path.stem in load.load(path).name


def test_names_are_unique() -> None:
    names = [load.load(path).name for path in SHIPPED]
    assert len(set(names)) == len(names)


def test_paac_is_the_default_of_atari() -> None:
    """The file writes out what the defaults mean, so the two must not drift apart."""
    written = load.tree(load.load(CONFIGS / "atari" / "paac.yaml"))
    default = load.tree(load.parse("env: {id: ALE/Pong-v5}"))
    for section in ("env", "model", "algorithm", "optimizer", "total_steps"):
        assert written[section] == default[section]
    assert written["simulators"]["count"] * written["simulators"]["envs"] == 32
    assert kind_of("ALE/Pong-v5").like == "atari"
