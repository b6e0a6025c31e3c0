"""``actorlearn tune``: which candidates are measured, how the fastest is found, and what is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from launch.commands import tune
from launch.commands.tune import LAST, Keys, candidates, heats
from launch.errors import FailedError
from launch.topology.load import TopologyError, load, parse
from tests.launch.described import DESCRIPTION

TEXT = "env: {id: CartPole-v1}\nsimulators: {count: 2, envs: 6}"


def test_every_candidate_keeps_the_number_of_environments_and_is_a_valid_topology() -> None:
    ways = candidates(parse(TEXT), cores=4)
    assert len(set(ways)) == len(ways) > 10
    for keys in ways:
        simulators = parse(TEXT, list(keys)).simulators
        assert simulators.count * simulators.envs == 12


def test_learners_share_the_cores() -> None:
    ways = candidates(parse(TEXT, ["learners.count=2"]), cores=4)
    threads = {keys[-1] for keys in ways}
    assert threads == {"trainer.threads=1", "trainer.threads=2"}


def test_the_first_candidate_is_the_topology_itself() -> None:
    topology = parse(TEXT)
    first = parse(TEXT, list(candidates(topology, cores=4)[0]))
    assert (first.simulators, first.inference, first.trainer) == (
        topology.simulators,
        topology.inference,
        topology.trainer,
    )


def test_the_fastest_candidate_wins_although_the_first_heat_is_noisy() -> None:
    ways: list[Keys] = [(f"seed={n}",) for n in range(20)]
    measured: list[tuple[Keys, float]] = []

    def measure(keys: Keys, seconds: float) -> float:
        measured.append((keys, seconds))
        number = int(keys[0].partition("=")[2])
        return 100.0 + number + (3.0 if number % 2 else -3.0) / seconds

    ranked = heats(ways, measure)
    assert ranked[0].keys == ("seed=19",)
    assert len(ranked) == LAST
    heat_s = sorted({seconds for _, seconds in measured})
    assert [sum(s == seconds for _, s in measured) for seconds in heat_s] == [20, 6, 3]


def test_the_fastest_keys_are_printed_if_they_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cart.yaml").write_text(TEXT)
    monkeypatch.setattr(tune, "describe", lambda _topology: DESCRIPTION)
    monkeypatch.setattr(tune, "rate", lambda _path, keys, _s: 2.0 if "simulators.count=3" in keys else 1.0)
    with pytest.raises(FailedError, match=r"-o /dev/full: cannot be written: No space .*: seed=7 simulators.count=3 "):
        tune.tune(str(tmp_path / "cart.yaml"), ["seed=7"], Path("/dev/full"))
    assert "2 steps/s  simulators.count=3" in capsys.readouterr().out
    assert tune.tune(str(tmp_path / "cart.yaml"), ["seed=7"], tmp_path / "new" / "tuned.keys") == 0
    assert load(str(tmp_path / "cart.yaml"), [f"@{tmp_path / 'new' / 'tuned.keys'}"]).simulators.count == 3


@pytest.mark.nightly
def test_overrides_that_were_written_to_a_pipe_are_not_proposed_for_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cart.yaml").write_text(TEXT)
    monkeypatch.setattr(tune, "rate", lambda *_: 1.0)
    reader, writer = os.pipe()
    with open(reader, "rb") as read, open(writer, "wb"):
        assert tune.tune(str(tmp_path / "cart.yaml"), ["seed=7"], Path(f"/dev/fd/{writer}")) == 0
        assert b"seed=7\n" in read.read1()
    assert capsys.readouterr().out.endswith(f"wrote /dev/fd/{writer}\n")
    assert tune.tune(str(tmp_path / "cart.yaml"), [], tmp_path / "tuned.keys") == 0
    said = capsys.readouterr().out
    assert said.endswith(f"; use it with: actorlearn run {tmp_path}/cart.yaml @{tmp_path}/tuned.keys\n")


def test_no_file_is_written_if_no_candidate_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cart.yaml").write_text(TEXT)
    (tmp_path / "old.keys").write_text("seed=3\n")
    monkeypatch.setattr(tune, "describe", lambda _topology: DESCRIPTION)
    monkeypatch.setattr(tune, "rate", lambda *_: 0.0)
    for name in ("new.keys", "old.keys"):
        with pytest.raises(FailedError, match="no candidate"):
            tune.tune(str(tmp_path / "cart.yaml"), [], tmp_path / name)
    assert not (tmp_path / "new.keys").exists()
    assert (tmp_path / "old.keys").read_text() == "seed=3\n"


@pytest.mark.nightly
def test_candidates_that_a_given_key_forbids_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cart.yaml").write_text(TEXT)
    measured = []

    def rate_of(path: str, keys: Keys, *_: float) -> float:
        measured.append(load(path, keys).inference.count)
        return 1.0

    monkeypatch.setattr(tune, "rate_of", rate_of)
    given = ["inference.count=1", "inference.threads=2"]
    assert tune.tune(str(tmp_path / "cart.yaml"), given, tmp_path / "tuned.keys") == 0
    assert set(measured) == {1}


@pytest.mark.parametrize(
    ("text", "given", "why"),
    [
        ("env: {id: Pendulum-v1}\nalgorithm: {name: pqn}\n", [], "pqn"),
        (TEXT, ["inference.count=1", "inference.batch_rows=8", "checkpoint.exact=true"], "checkpoint.exact: true"),
    ],
    ids=["algorithm", "exact checkpoints"],
)
def test_a_topology_that_check_refuses_is_refused_before_anything_is_measured(
    text: str, given: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "topology.yaml").write_text(text)
    monkeypatch.setattr(tune, "rate", lambda *_: pytest.fail("a candidate is measured"))
    with pytest.raises(TopologyError, match=why):
        tune.tune(str(tmp_path / "topology.yaml"), given, tmp_path / "tuned.keys")
    assert not (tmp_path / "tuned.keys").exists()


def test_simulators_of_a_game_of_several_agents_have_whole_games(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spread.yaml").write_text("env: {id: CartPole-v1}\nsimulators: {count: 1, envs: 48}\n")
    monkeypatch.setattr(tune, "describe", lambda _topology: replace(DESCRIPTION, agents=3))
    monkeypatch.setattr(tune, "begun_cores", lambda: 4)
    measured = set()

    def rate(path: str, keys: Keys, _seconds: float) -> float:
        simulators = load(path, keys).simulators
        measured.add((simulators.envs, simulators.groups))
        return 1.0

    monkeypatch.setattr(tune, "rate", rate)
    assert tune.tune(str(tmp_path / "spread.yaml"), [], tmp_path / "tuned.keys") == 0
    assert measured == {(48, 1), (48, 2), (24, 1), (24, 2), (12, 1), (12, 2), (6, 1), (6, 2)}


@pytest.mark.parametrize(
    ("text", "installed", "keys"),
    [
        ("env: {id: ALE/Pong-v5}", True, ("env.id=envpool:ALE/Pong-v5",)),
        ("env: {id: ALE/Pong-v5}", False, ()),
        ("env: {id: ALE/Pong-v5, preset: ba3c}", True, ()),
        ("env: {id: ALE/Pong-v5, noop_max: 0}", True, ()),
        (TEXT, True, ()),
    ],
)
def test_envpool_is_tried_where_it_plays_the_same_game(
    text: str, installed: bool, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "find_spec", lambda _name: object() if installed else None)
    (tmp_path / "topology.yaml").write_text(text)
    monkeypatch.setattr(tune, "describe", lambda _topology: DESCRIPTION)
    assert tune.other_emulator(str(tmp_path / "topology.yaml"), ()) == keys


@pytest.mark.parametrize(("envpool", "chosen"), [(3.0, "envpool:ALE/Pong-v5"), (1.0, "ALE/Pong-v5")])
def test_envpool_is_proposed_only_where_it_is_faster(
    envpool: float, chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "pong.yaml")
    (tmp_path / "pong.yaml").write_text("env: {id: ALE/Pong-v5}")
    monkeypatch.setattr(tune, "describe", lambda _topology: DESCRIPTION)
    monkeypatch.setattr(tune, "rate", lambda _path, keys, _s: envpool if "envpool" in " ".join(keys) else 2.0)
    monkeypatch.setattr(tune, "find_spec", lambda _name: object())
    assert tune.tune(path, [], tmp_path / "tuned.keys") == 0
    assert load(path, [f"@{tmp_path / 'tuned.keys'}"]).env.id == chosen


def test_a_file_of_keys_is_read_as_overrides(tmp_path: Path) -> None:
    (tmp_path / "cart.yaml").write_text(TEXT)
    (tmp_path / "tuned.keys").write_text("# measured\n\nsimulators.count=3\nsimulators.envs=4\n")
    path, keys = str(tmp_path / "cart.yaml"), f"@{tmp_path / 'tuned.keys'}"
    assert load(path, [keys]).simulators.count == 3
    assert load(path, [keys, "simulators.count=6"]).simulators.count == 6
    with pytest.raises(TopologyError, match="nothing.keys"):
        load(path, [f"@{tmp_path / 'nothing.keys'}"])
