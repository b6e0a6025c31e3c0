"""Claims of papers: what they run is a topology, what they compare is judged, and the ledger says what was measured."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.__main__ import reproduce
from benchmarks.claims import CLAIMS, fast_dqn, ledger, paac
from benchmarks.claims.claim import IN_SHAPE, NOT_REPRODUCED, REPRODUCED, Comparison, SuiteResult, near, verdict
from benchmarks.claims.page import TABLES, page, summary, table, with_table
from benchmarks.learning import LearningRun, compare
from benchmarks.papers import accelerated, tables_of_games
from benchmarks.papers.fast_dqn import COUNTS, GAMES, PAPER_HOURS
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
    assert request.seconds <= {"fast-dqn-games": 36_000}.get(name, 600)


def comparisons(shapes: list[bool], exacts: list[bool]) -> list[Comparison]:
    return [
        Comparison("", "", "", holds, exact=exact) for of, exact in ((shapes, False), (exacts, True)) for holds in of
    ]


@pytest.mark.parametrize(
    ("shapes", "exacts", "word"),
    [
        ([], [True], REPRODUCED),
        ([True], [True, True], REPRODUCED),
        ([True], [True, False], IN_SHAPE),
        ([True, True], [], IN_SHAPE),
        ([True, False], [True], NOT_REPRODUCED),
        ([], [False], NOT_REPRODUCED),
        ([], [], NOT_REPRODUCED),
    ],
)
def test_reproduced_takes_a_number_of_the_paper(shapes: list[bool], exacts: list[bool], word: str) -> None:
    assert verdict(comparisons(shapes, exacts)) == word


@given(st.lists(st.booleans(), max_size=4), st.lists(st.booleans(), max_size=4))
def test_no_verdict_is_better_for_something_that_does_not_hold(shapes: list[bool], exacts: list[bool]) -> None:
    order = [NOT_REPRODUCED, IN_SHAPE, REPRODUCED]
    whole = order.index(verdict(comparisons(shapes, exacts)))
    assert order.index(verdict(comparisons([*shapes, False], exacts))) <= whole
    assert order.index(verdict(comparisons(shapes, [*exacts, False]))) <= max(whole, order.index(IN_SHAPE))


def test_a_number_is_near_by_its_relative_difference() -> None:
    assert near(2.5, 2.78, within=0.15)
    assert not near(1.5, 2.78, within=0.15)
    assert near(538_119, 538_119, within=0.0)
    assert not near(538_118, 538_119, within=0.0)


def found(bars: dict[str, float], **more: Any) -> SuiteResult:
    return SuiteResult({"bars": {name: {"median": median} for name, median in bars.items()}, **more})


def test_the_speed_of_fast_dqn_is_the_papers_or_not() -> None:
    paper = {
        f"{way}, {count} environment{'s' * (count > 1)}": 1.0 / hours
        for way, of in PAPER_HOURS.items()
        for count, hours in zip(COUNTS, of, strict=True)
        if hours
    }
    claim = CLAIMS["fast-dqn-speed"]
    assert verdict(claim.compare(found(paper))) == REPRODUCED
    slower = {**paper, "both, 8 environments": paper["both, 8 environments"] / 1.2}
    assert verdict(claim.compare(found(slower))) == IN_SHAPE
    slowest = {**paper, "both, 8 environments": paper["concurrent, 8 environments"] / 2}
    assert verdict(claim.compare(found(slowest))) == NOT_REPRODUCED
    no_order = {**paper, "synchronised, 4 environments": paper["standard, 4 environments"]}
    assert verdict(claim.compare(found(no_order))) == NOT_REPRODUCED
    assert fast_dqn.MOST == "8 environments"


def test_more_environments_of_paac_learn_alike_up_to_a_limit() -> None:
    rates = {f"{count} environments": {"median": 1000.0 * count} for count in (16, 64, 256)}
    scores = {"16 environments": 0.7, "64 environments": 0.7, "256 environments": 0.1}
    claim = CLAIMS["paac-environments"]
    assert verdict(claim.compare(found(scores, steps_per_s=rates))) == IN_SHAPE
    assert verdict(claim.compare(found({**scores, "64 environments": 0.2}, steps_per_s=rates))) == NOT_REPRODUCED
    assert verdict(claim.compare(found({**scores, "256 environments": 0.7}, steps_per_s=rates))) == NOT_REPRODUCED
    assert paac.DIVERGES == 256


def test_a_base_that_has_not_learned_shows_nothing_and_better_is_not_alike() -> None:
    cases = ("1 learner", "2 learners", "4 learners")

    def judged(*scores: float) -> str:
        return verdict(CLAIMS["accelerated-a3c"].compare(found(dict(zip(cases, scores, strict=True)))))

    assert judged(0.8, 0.8, 0.7) == IN_SHAPE
    assert judged(-0.3, -0.3, -0.3) == NOT_REPRODUCED
    assert judged(0.8, 0.8, 0.4) == NOT_REPRODUCED
    assert judged(0.4, 0.8, 0.8) == NOT_REPRODUCED


def test_many_environments_that_forget_are_no_gradual_decay() -> None:
    cases = ("16 environments", "64 environments", "256 environments")

    def judged(*scores: float) -> str:
        bars = dict(zip(cases, scores, strict=True))
        curve = {name: {"median": score} for name, score in bars.items()}
        return verdict(CLAIMS["accelerated-a2c"].compare(found(bars, curve=curve)))

    assert judged(0.8, 0.8, 0.6) == IN_SHAPE
    assert judged(0.8, 0.8, -0.6) == NOT_REPRODUCED


def test_nodes_that_did_not_reach_the_score_are_not_left_out() -> None:
    def holds(minutes: float = 0.5, **reached: int) -> bool:
        runs = {f"{count} node{'s' * (count > 1)}": reached.get(f"on_{count}", 3) for count in (1, 2, 4)}
        rows = [{"": name, "reached 0.5": f"{times} of 3"} for name, times in runs.items()]
        measured = {"1 node": 1.5, "2 nodes": 0.6, "4 nodes": minutes}
        bars = {name: measured[name] for name, times in runs.items() if times}
        (only,) = CLAIMS["dba3c-nodes"].compare(found(bars, rows=rows))
        return only.holds

    assert holds() and holds(on_2=0)
    assert not holds(minutes=1.6)
    assert not any(holds(**{node: reached}) for node in ("on_1", "on_4") for reached in (0, 1, 2))


def test_a_fall_within_what_scores_vary_by_is_none() -> None:
    def holds(fall: float) -> bool:
        falls = {"async, 8 learners": fall, "sync, 8 of 8 learners": 0.14}
        rows = [{"": name, "largest fall": f"{one:.2f} ({one:.2f} to {one:.2f})"} for name, one in falls.items()]
        (only,) = CLAIMS["dba3c-async"].compare(found(falls, rows=rows))
        return only.holds

    assert holds(0.9) and not holds(0.29)


def test_pong_is_mastered_in_minutes_by_every_run_or_not() -> None:
    def judged(*minutes: float | None) -> str:
        return verdict(CLAIMS["accelerated-pong"].compare(found({}, minutes_to_score=list(minutes))))

    assert judged(4.1, 3.8, 4.4) == REPRODUCED
    assert judged(7.0, 8.5, 8.1) == IN_SHAPE
    assert judged(7.0, 8.5, 10.2) == judged(4.0, None, 4.0) == judged(None) == NOT_REPRODUCED


def test_each_of_the_policy_gradients_must_learn() -> None:
    names = tuple(accelerated.POLICY_GRADIENTS)

    def judged(*scores: float) -> str:
        after = {name: {"median": score} for name, score in zip(names, scores, strict=True)}
        claim = CLAIMS["accelerated-policy-gradients"]
        return verdict(claim.compare(found({}, minutes=1.0, after_minutes=after)))

    assert judged(0.9, 0.8, 0.9, 0.7) == IN_SHAPE
    assert judged(0.9, 0.1, 0.9, 0.7) == NOT_REPRODUCED


def test_update_rules_differ_in_what_they_do_to_norms() -> None:
    sizes = accelerated.UPDATE_RULE_BATCHES

    def judged(
        adam: tuple[float, ...], rmsprop: tuple[float, ...], score: float = 0.9, **other: tuple[float, ...]
    ) -> str:
        norms = {"parameters": (adam, rmsprop)} | {
            name: 2 * (other.get(name, default),)
            for name, default in (("gradients", (3.0, 2.0, 1.0)), ("steps", (1.0, 2.0, 3.0)))
        }
        columns = {
            f"{name}_l2_fc0": {
                accelerated.update_rule(rule, size): {"median": norm}
                for rule, of in zip(accelerated.UPDATE_RULES, both, strict=True)
                for size, norm in zip(sizes, of, strict=True)
            }
            for name, both in norms.items()
        }
        cases = columns["steps_l2_fc0"]
        return verdict(CLAIMS["accelerated-update-rules"].compare(found(dict.fromkeys(cases, score), **columns)))

    tight, wide = (2.0, 2.1, 2.2), (5.0, 3.0, 2.0)
    assert judged(tight, wide) == IN_SHAPE
    assert judged(wide, tight) == judged(tight, wide, score=0.1) == NOT_REPRODUCED
    assert judged(tight, wide, gradients=(3.0, 1.0, 2.0)) == NOT_REPRODUCED
    assert judged(tight, wide, steps=(3.0, 2.0, 1.0)) == NOT_REPRODUCED


def test_games_are_compared_where_they_were_learned() -> None:
    def judged(claim: str, column: str, base: str, *scores: tuple[float, float], a3c: float = 0.0) -> str:
        pairs = zip(tables_of_games.GAMES, scores, strict=False)
        bars = {case(game, "A3C"): a3c for game in tables_of_games.GAMES}
        bars |= {case(game, of): score for game, both in pairs for of, score in zip((column, base), both, strict=True)}
        return verdict(CLAIMS[claim].compare(found(bars)))

    case = tables_of_games.case
    assert judged("gala-games", "GALA-A2C", "A2C", (5.0, 5.5), (30.0, 20.0)) == IN_SHAPE
    assert judged("gala-games", "GALA-A2C", "A2C", (5.0, 5.5), (30.0, 20.0), a3c=6.0) == NOT_REPRODUCED
    assert judged("gala-games", "GALA-A2C", "A2C", (5.0, 6.5), (30.0, 20.0)) == NOT_REPRODUCED
    assert judged("gala-games", "GALA-A2C", "A2C", (5.0, 5.5), (19.0, 20.0)) == NOT_REPRODUCED, "better in none"
    assert judged("gala-games", "GALA-A2C", "A2C", (0.5, 0.5), (30.0, 20.0)) == NOT_REPRODUCED
    assert judged("paac-games", "PAAC", "A3C", (5.0, 5.0), (20.0, 20.0), (3.0, 3.0)) == IN_SHAPE
    assert judged("paac-games", "PAAC", "A3C", (5.0, 5.0), (20.0, 20.0), (2.0, 3.0)) == NOT_REPRODUCED


def test_games_of_atari_are_judged_beside_the_human_tester() -> None:
    def judged(pong: float, breakout: float) -> str:
        bars = dict(zip(GAMES, (pong, breakout), strict=True))
        return verdict(CLAIMS["fast-dqn-games"].compare(found(bars)))

    assert judged(18.7, 373.4) == REPRODUCED
    assert judged(18.7, 450.0) == IN_SHAPE, "nobody had as much"
    assert judged(9.0, 373.4) == NOT_REPRODUCED, "the tester had 9.3"
    assert judged(18.7, 300.0) == NOT_REPRODUCED, "DQN had 401.2"


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


def test_two_learners_are_judged_by_the_hours_of_their_own_table() -> None:
    rates = {
        "DQN-512, 1 learner": 4.8,
        "DQN-512, 2 learners": 8.3,
        "C51-2048, 1 learner": 6.0,
        "C51-2048, 2 learners": 10.7,
    }
    both = CLAIMS["accelerated-learners-dqn"].compare(found(rates))
    assert [one.what for one in both] == [f"times faster with two learners: {name}" for name in ("DQN-512", "C51-2048")]
    assert verdict(both) == REPRODUCED
    assert (
        verdict(CLAIMS["accelerated-learners-dqn"].compare(found({**rates, "C51-2048, 2 learners": 6.0})))
        == NOT_REPRODUCED
    )
    assert verdict(CLAIMS["accelerated-learners"].compare(found(rates))) == NOT_REPRODUCED, "nothing of table 2"


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

    def learn(_: str, request: BenchmarkRequest, cases: dict[str, tuple[str, ...]]) -> SuiteReport:
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
    weights = {name: {"weights_sha256": sha} for name, sha in (("a", "1" * 64), ("b", "1" * 64), ("c", "2" * 64))}
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
    assert (entry.verdict, entry.command) == (REPRODUCED, "python -m benchmarks reproduce fast-dqn-repeated --quick")
    lines = list(csv.reader((tmp_path / f"{claim.name}.csv").read_text().splitlines()))
    assert lines == [
        ["run", "env_steps", "minutes", "score"],
        ["a, seed 1", "10", "0.5", "-0.25"],
        ["a, seed 1", "20", "1", "0.75"],
    ]
    assert (tmp_path / f"{claim.name}.png").stat().st_size > 1000
    text = page(claim, entry)
    assert text.startswith(f"# {claim.name}: {REPRODUCED}\n")
    assert "`python -m benchmarks reproduce fast-dqn-repeated --quick`" in text and claim.differs[1:] in text


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


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_the_ledger_are_up_to_date(name: str) -> None:
    text = (ROOT / name).read_text()
    assert text == with_table(text, TABLES[name](ENTRIES)), f"{name} is old: make pages"
    assert set(TABLES.values()) == {summary, table}
