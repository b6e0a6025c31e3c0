"""Every shipped topology loads, says where its numbers come from, and points editors to the schema."""

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
def test_loads_and_survives_a_dump(path: Path) -> None:
    loaded = load.load(path)
    assert load.parse(load.dump(loaded)) == loaded


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_takes_overrides(path: Path) -> None:
    loaded = load.load(path, ["simulators.count=1", "simulators.envs=2", "seed=7", "total_steps=1_000"])
    assert (loaded.simulators.count, loaded.simulators.envs, loaded.seed, loaded.total_steps) == (1, 2, 7, 1000)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_head_has_schema_provenance_and_units(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    schema = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", lines[0])
    assert schema, "the first line points editors to the schema"
    assert (path.parent / schema[1]).resolve() == ROOT / "launch" / "topology" / "topology.schema.json"
    head = "\n".join(line for line in lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))])
    assert "paper" in head, "says which paper, or that it is none"
    assert "Units:" in head


@pytest.mark.parametrize("path", sorted((CONFIGS / "atari").glob("*.yaml")), ids=lambda path: path.name)
def test_head_of_a_paper_says_how_to_compute_as_precisely_as_the_paper_did(path: Path) -> None:
    """`auto` is bf16 on processors that are faster with it, and no paper's code is."""
    loaded = load.load(path)
    assert loaded.trainer.precision == "auto", "then the head says something else"
    head = path.read_text(encoding="utf-8").partition("\nname:")[0]
    assert "precision" in head and "trainer.precision=fp32" in head


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_no_topology_asks_every_processor_for_bfloat16(path: Path) -> None:
    """One without its products emulates them: Pong then learned at a ninth of the rate of fp32."""
    loaded = load.load(path)
    assert "bf16" not in (loaded.trainer.precision, loaded.inference.precision)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_long_numbers_are_grouped_and_names_are_the_files(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    values = re.sub(r"#.*", "", text)
    assert not re.findall(r"(?<![\w.])\d{5,}", values), "write 250_000"
    assert path.stem in load.load(path).name


def test_names_are_unique() -> None:
    names = [load.load(path).name for path in SHIPPED]
    assert len(set(names)) == len(names)


def test_paac_is_the_default_of_atari() -> None:
    """The file writes out what the defaults mean, so the two must not drift apart."""
    written = load.tree(load.load(CONFIGS / "atari" / "paac.yaml"))
    default = load.tree(load.parse("env: {id: ALE/Pong-v5}"))
    for section in ("env", "model", "algorithm", "optimizer", "total_steps", "checkpoint"):
        assert written[section] == default[section]
    assert written["simulators"]["count"] * written["simulators"]["envs"] == 32
    assert kind_of("ALE/Pong-v5").like == "atari"
