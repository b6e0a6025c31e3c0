"""Claims of papers: what they run is a topology, what they compare is judged, and the ledger says what was measured."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import msgspec
import pytest

from benchmarks import learning
from benchmarks.__main__ import reproduce
from benchmarks.claims import CLAIMS, fast_dqn, ledger
from benchmarks.claims.claim import FAILS, NOT_REPRODUCED, OPEN, REPRODUCED, UNDECIDED
from benchmarks.claims.page import TABLES, page, summary, table, with_table
from benchmarks.learning import LearningRun, compare
from benchmarks.papers import accelerated
from benchmarks.registry import MEASURING
from benchmarks.request import BenchmarkRequest, shipped
from launch.bench.interleaved import Spread
from launch.bench.report import SuiteReport
from launch.errors import RunError
from launch.runs.curves import LearningCurve
from launch.topology.load import load
from tests.sizes import ROOT

ENTRIES = ledger.read()


@pytest.mark.parametrize("quick", [False, True], ids=["whole", "quick"])
@pytest.mark.parametrize("name", CLAIMS)
def test_what_a_claim_runs_is_a_topology_that_loads(name: str, quick: bool) -> None:
    claim = CLAIMS[name]
    request = ledger.request_of(claim, quick)
    assert callable(MEASURING[claim.suite].load())
    if not MEASURING[claim.suite].sets_modes:
        load(request.topology, request.overrides)
    assert request.seconds <= {"fast-dqn-games": 36_000, "accelerated-policy-gradients": 630}.get(name, 600)


def test_the_reduced_games_of_fast_dqn_differ_from_its_topology_in_sizes_alone() -> None:
    whole, small = (
        load(request.topology, (*request.overrides, "evaluator.count=0"))
        for request in (ledger.request_of(CLAIMS["fast-dqn-games"], quick) for quick in (False, True))
    )
    assert (small.model, small.optimizer, small.simulators) == (whole.model, whole.optimizer, whole.simulators)
    fifths = {}
    for section in ("algorithm", "replay"):
        before, after = (msgspec.structs.asdict(getattr(one, section)) for one in (whole, small))
        fifths |= {key: (size, 5 * after[key]) for key, size in before.items() if size != after[key]}
    assert fifths.keys() == {
        *("target_every_steps", "horizon", "learning_starts_steps", "capacity_steps"),
        *("epsilon_hold_steps", "epsilon_steps"),
    }
    assert all(size == five for size, five in fifths.values())
    assert msgspec.structs.replace(whole.env, preset="small") == small.env


def test_the_minutes_to_a_score_are_those_of_the_first_time() -> None:
    points = [(0.0, 0.0, -21.0), (500.0, 1.5, 18.2), (900.0, 2.0, 17.0), (1_000.0, 2.5, 19.0)]
    ran = LearningRun(LearningCurve("", "Pong", 1.0, None, [points]), [{"time_s": 0.0, "env_steps": 0}])
    assert (ran.minutes_to(18.0), ran.minutes_to(18.5), ran.minutes_to(20.0), ran.best) == (1.5, 2.5, None, 19.0)


def test_cases_are_compared_after_equal_steps_and_after_equal_minutes() -> None:
    def ran(points: list[tuple[float, float, float]]) -> LearningRun:
        rows = [{"time_s": 60 * minutes, "env_steps": steps} for steps, minutes, _ in points]
        return LearningRun(LearningCurve("", "Catch", 1.0, None, [points]), rows)

    slow = ran([(0.0, 0.0, -0.4), (500.0, 1.0, 0.0), (1_000.0, 2.0, 0.2)])
    fast = ran([(0.0, 0.0, -0.4), (1_000.0, 0.5, 0.1), (2_000.0, 1.0, 0.9)])
    made = compare("made", BenchmarkRequest(shipped("catch.yaml"), (), 1, 1.0), {"slow": [slow], "fast": [fast]})
    assert {name: spread.median for name, spread in made.bars.items()} == {"slow": 0.2, "fast": 0.1}
    after = {name: spread["median"] for name, spread in made.figures["after_minutes"].items()}
    assert after == {"slow": 0.0, "fast": 0.9}
    assert made.figures["curve"]["slow"]["median"] == pytest.approx(-0.2 / 3)


def test_policy_gradients_are_measured_for_ten_minutes_and_compared_at_their_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claim = CLAIMS["accelerated-policy-gradients"]
    assert min(claim.whole.seconds, claim.quick.seconds) >= 610, "the last report may be seconds older than the end"
    points = [(0.0, 0.0, -20.0), (500.0, 9.99, 3.0), (600.0, 10.4, 9.0)]
    ran = LearningRun(LearningCurve("", "Pong", 1.0, None, [points]), [{"time_s": 0.0, "env_steps": 0}])
    monkeypatch.setattr(learning, "follow", lambda *_: ran)
    suite = MEASURING[claim.suite]
    made = suite.load()(BenchmarkRequest(shipped(suite.topology or ""), suite.keys, 1, 630.0))
    assert made.figures["minutes"] == 10.0
    assert [spread["values"] for spread in made.figures["after_minutes"].values()] == [[3.0]] * 4
    assert made.figures["steps"] == 600.0


@pytest.mark.parametrize(
    "suite",
    [
        *("a2c-environments", "a3c-learners", "ppo-environments", "dqn-batches", "policy-gradients"),
        *("fast-dqn-learning", "gala-games", "paac-games"),
    ],
)
def test_cases_of_figures_are_topologies_with_the_papers_batches(suite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if suite.endswith("-games"):
        pytest.importorskip("minatar", reason="pip install 'actorlearn[minatar]'")
    seen: dict[str, tuple[str, ...]] = {}

    def learn(_: str, request: BenchmarkRequest, cases: dict[str, tuple[str, ...]], **_at: float) -> SuiteReport:
        seen.update(cases)
        topologies = {name: load(request.topology, (*request.overrides, *keys)) for name, keys in cases.items()}
        if suite == "ppo-environments":
            batches = {one.simulators.environments * one.algorithm.horizon for one in topologies.values()}
            assert batches == {2_048}
        if suite == "a3c-learners":
            assert {one.simulators.environments for one in topologies.values()} == {16}
        if suite == "policy-gradients":
            assert [(one.algorithm.name, one.mode) for one in topologies.values()] == [
                *(("a2c", "sync"), ("a2c", "async"), ("ppo", "sync"), ("ppo", "async"))
            ]
        if suite in ("dqn-batches", "fast-dqn-learning"):  # as the ledger's pages say, whatever the defaults are
            for one in topologies.values():
                assert (one.algorithm.target_every_steps, one.algorithm.epsilon_steps) == (1_000, 20_000)
                assert (one.model.activation, one.optimizer.schedule) == ("tanh", "constant")
        if suite == "fast-dqn-learning":
            assert {(one.replay.batch_size, one.replay.ratio) for one in topologies.values()} == {(32, 8.0)}
        if suite == "dqn-batches":
            assert [one.replay.batch_size for one in topologies.values() if one.replay] == list(accelerated.DQN_BATCHES)
        return SuiteReport("", (), (), {}, "")

    module, topology = MEASURING[suite].load().__module__, MEASURING[suite].topology
    assert topology is not None
    monkeypatch.setattr(f"{module}.learn", learn)
    MEASURING[suite].load()(BenchmarkRequest(shipped(topology), MEASURING[suite].keys, 2, 1.0))
    assert len(seen) >= 3


def test_update_rules_are_topologies_that_differ_in_rule_and_minibatch(monkeypatch: pytest.MonkeyPatch) -> None:
    class Seen(Exception):
        pass

    def run_all(request: BenchmarkRequest, cases: dict[str, tuple[str, ...]]) -> None:
        topologies = [load(request.topology, (*request.overrides, *keys)) for keys in cases.values()]
        rules = {(type(one.optimizer).__name__, one.optimizer.learning_rate) for one in topologies}
        assert {name for name, _ in rules} == {"AdamSettings", "RMSPropSettings"} and len(rules) == 2
        assert len({one.optimizer.clip_norm for one in topologies}) == 1
        assert all(one.report.norms for one in topologies)
        assert [one.replay.batch_size for one in topologies if one.replay] == 2 * [*accelerated.UPDATE_RULE_BATCHES]
        raise Seen

    monkeypatch.setattr(accelerated, "run_all", run_all)
    with pytest.raises(Seen):
        accelerated.update_rules(BenchmarkRequest(shipped("catch.yaml"), MEASURING["update-rules"].keys, 1, 1.0))


def test_an_entry_is_written_with_curves_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = CLAIMS["fast-dqn-repeated"]
    shas = ("1" * 64, "1" * 64, "2" * 64)
    weights = {name: {"weights_sha256": sha} for name, sha in zip(fast_dqn.SEEDS, shas, strict=True)}
    curve = LearningCurve("a, seed 1", "Catch", 1.0, None, [[(10.0, 0.5, -0.25), (20.0, 1.0, 0.75)]])
    measured = SuiteReport(
        "made", ("", "n"), [("a", "1")], {"a": Spread((1.0,))}, "n", figures={"found": weights}, curves=[curve]
    )
    suites = {
        **MEASURING,
        claim.suite: type("Made", (), {"keys": (), "topology": "catch.yaml", "load": lambda _: lambda _: measured})(),
    }
    monkeypatch.setattr(ledger, "MEASURING", suites)
    entry, report = ledger.reproduce(claim, True, tmp_path)
    ledger.write(entry, report, tmp_path)
    assert ledger.read(tmp_path) == {claim.name: entry}
    assert entry.report["env"] == "actorlearn.envs.catch:Catch"
    assert entry.report["gpus"] == 0 and 0 <= entry.hours < 0.1
    seed = (tmp_path / ledger.KEPT / f"{claim.name}.seed").read_text().strip()
    command = f"python -m benchmarks reproduce fast-dqn-repeated seed={seed} --quick"
    assert (entry.verdict, entry.command, entry.repetitions) == (REPRODUCED, command, claim.quick.repetitions)
    again, _ = ledger.reproduce(claim, True, tmp_path, repetitions=4)
    assert (again.command, again.repetitions) == (f"{command} --repetitions 4", 4), "the same seed: kept runs count"
    lines = list(csv.reader((tmp_path / f"{claim.name}.csv").read_text().splitlines()))
    assert lines == [
        ["run", "env_steps", "minutes", "score"],
        ["a, seed 1", "10", "0.5", "-0.25"],
        ["a, seed 1", "20", "1", "0.75"],
    ]
    assert (tmp_path / f"{claim.name}.png").stat().st_size > 1000
    text = page(claim, entry)
    assert text.startswith(f"# {claim.name}: {REPRODUCED}\n")
    assert ledger.reproduce(claim, True, None, ["trainer.device=cpu", "seed=7"])[0].command == (
        "python -m benchmarks reproduce fast-dqn-repeated trainer.device=cpu seed=7 --quick"
    )
    entry, _ = ledger.reproduce(claim, True, None, ["trainer.device=cuda"])
    assert entry.keys[-2] == "trainer.device=cuda" and re.fullmatch(r"seed=\d+", entry.keys[-1])
    assert text.split("\n\n")[1] == f"In place of the paper's: {claim.differs}."
    assert claim.refutation in text and f"`{command}`" in text


SERVED = ("inference.count=1", "inference.device=cuda")


@pytest.mark.parametrize(
    ("name", "overrides", "gpus"),
    [
        ("accelerated-pong", ("trainer.device=cpu",), 0),
        ("accelerated-pong", ("trainer.device=cuda",), 1),
        ("accelerated-pong", ("trainer.device=cuda:0", *SERVED), 1),
        ("accelerated-pong", ("trainer.device=cuda:1", "inference={count: 2, device: cuda}"), 2),
        (
            "accelerated-pong",
            ("trainer.device=cuda", "simulators={count: 16, envs: 2}", *SERVED, "inference.count=4"),
            1,
        ),
        ("accelerated-policy-gradients", ("env.id=ALE/Pong-v5", "learners.count=8", "trainer.device=cuda"), 1),
        ("accelerated-sampling", ("trainer.device=cuda",), 0),
        ("accelerated-sampling", SERVED, 1),
        ("accelerated-learners", ("trainer.device=cuda:0", "inference.count=1", "inference.device=cuda:1"), 1),
        ("accelerated-learners-dqn", ("trainer.device=cuda",), 1),
        ("fast-dqn-speed", SERVED, 0),
        ("fast-dqn-speed", ("trainer.device=cuda",), 1),
        ("paac-time", ("trainer.device=cuda",), 1),
    ],
)
def test_the_gpus_of_an_entry_are_those_that_its_measurement_uses(
    name: str, overrides: tuple[str, ...], gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All trainers of a machine share one, and so do all servers; the machine may have more."""
    claim, measured = CLAIMS[name], SuiteReport("made", (), (), {}, "")
    suite = MEASURING[claim.suite]
    made = type("Made", (), {"keys": suite.keys, "topology": suite.topology, "load": lambda _: lambda _: measured})()
    monkeypatch.setattr(ledger, "MEASURING", {claim.suite: made})
    assert ledger.reproduce(claim, True, None, overrides)[0].report["gpus"] == gpus


def test_the_table_shows_the_comparison_that_the_verdict_follows_from() -> None:
    rates = {"K = N, even": [1.0] * 3, "K = N, one slow": [0.1, 0.5, 0.2], "K = N - 1, one slow": [0.2, 0.21, 0.2]}
    bars = {case: {"values": values} for case, values in rates.items()}
    report = {"learners": 64, "env": "actorlearn.envs.catch:Catch", "bars": bars, "hours": 0.1}
    entry = ledger.LedgerEntry("dba3c-stragglers", "", "2026-11-26", 3, 12.0, (), report)
    assert [one.outcome for one in entry.comparisons] == [OPEN, FAILS]
    assert (entry.verdict, entry.reason) == (NOT_REPRODUCED, f"not so: {entry.comparisons[1].what}")
    assert f"| {entry.comparisons[1].what}: " in table({entry.claim: entry})


@pytest.mark.parametrize("wrong", ["env=Catch", "env={preset: v5}"])
def test_a_section_env_without_an_id_is_refused_in_one_line(wrong: str) -> None:
    with pytest.raises(RunError, match="env.id='None': accelerated-pong cannot judge"):
        ledger.request_of(CLAIMS["accelerated-pong"], True, overrides=(wrong,))


@pytest.mark.parametrize(
    ("name", "env"),
    [
        ("fast-dqn-learning", "ALE/Phoenix-v5"),
        ("gala-learning", "MinAtar/Asterix-v1"),
        ("dba3c-nodes", "MinAtar/Breakout-v1"),
        ("dba3c-nodes", "ALE/Pong-v5"),
        ("accelerated-pong", "ALE/Breakout-v5"),
    ],
)
def test_a_game_whose_scores_a_claim_cannot_judge_is_refused_before_it_is_measured(
    name: str, env: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_suite(_: object) -> None:
        raise AssertionError("it is measured")

    claim = CLAIMS[name]
    suite = MEASURING[claim.suite]
    unused = type("Unused", (), {"keys": suite.keys, "topology": suite.topology, "load": load_suite})()
    monkeypatch.setattr(ledger, "MEASURING", {claim.suite: unused})
    with pytest.raises(RunError, match=rf"env\.id='{env}': {name} cannot judge the scores of this game: choose one of"):
        ledger.reproduce(claim, True, None, [f"env.id={env}"])


@pytest.mark.parametrize(("env", "score"), [("benchmarks.environments:SlowCatch", 0.5), ("ALE/Breakout-v5", 300.0)])
def test_nodes_play_to_a_score_that_shows_learning_in_their_game(env: str, score: float) -> None:
    assert ledger.request_of(CLAIMS["dba3c-nodes"], False, overrides=[f"env.id={env}"]).score == score


def test_the_table_has_a_row_for_scores_that_cannot_be_judged() -> None:
    bars = {case: {"values": [3.8] * 3} for case in ("both", "standard")}
    report = {"env": "MinAtar/Asterix-v1", "bars": bars, "hours": 0.1}
    entry = ledger.LedgerEntry("fast-dqn-learning", "", "2026-11-26", 3, 12.0, (), report)
    assert "| undecided | the scores of MinAtar/Asterix-v1 cannot be judged |  |  | 3 |" in table({entry.claim: entry})


def test_claims_are_listed_and_what_is_none_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert reproduce(None) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(CLAIMS)
    with pytest.raises(RunError, match="'fast-dqn-sped' is no claim: choose one of"):
        reproduce("fast-dqn-sped")
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="name a folder"):
        reproduce("fast-dqn-speed", quick=True, output=tmp_path / "file")


@pytest.mark.parametrize("name", ENTRIES)
def test_what_the_ledger_says_follows_from_what_was_measured(name: str) -> None:
    entry, claim = ENTRIES[name], CLAIMS[name]
    assert entry.report["commit"], "measured in a checkout"
    assert not entry.report["dirty"], "measured at a commit"
    assert (ledger.LEDGER / f"{name}.md").read_text() == page(claim, entry), "it is old: make pages"


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_is_judged_from_its_report_and_its_json_is_of_finite_numbers(name: str) -> None:
    entry = ENTRIES[name]
    said = ledger.as_json(entry)
    assert json.loads(json.dumps(said, allow_nan=False))["verdict"] == entry.verdict
    assert bool(entry.reason) == (entry.verdict != REPRODUCED)
    assert "verdict" not in json.loads((ledger.LEDGER / f"{name}.json").read_text())
    if entry.repetitions == 1 and name != "fast-dqn-repeated":
        assert entry.verdict == UNDECIDED


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_the_ledger_are_up_to_date(name: str) -> None:
    text = (ROOT / name).read_text()
    assert text == with_table(text, TABLES[name](ENTRIES)), f"{name} is old: make pages"
    assert set(TABLES.values()) == {summary, table}
