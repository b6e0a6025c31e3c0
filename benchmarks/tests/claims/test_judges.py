"""Judges of claims, each with the paper's numbers, better ones, their negation, noise, and smaller settings."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.claims import CLAIMS, ledger
from benchmarks.claims.claim import (
    FAILS,
    HOLDS,
    IN_SHAPE,
    NOT_REPRODUCED,
    OPEN,
    REPRODUCED,
    UNDECIDED,
    Claim,
    Comparison,
    Game,
    Interval,
    SuiteResult,
    student,
    verdict,
)
from benchmarks.claims.small_games import AS_GOOD, LEARNED, NOTHING
from launch.bench.atari_games import games

REPETITIONS = 3
WITHOUT_NOISE = {"fast-dqn-repeated"}
"""Claims whose measurements are identities alone."""
EQUAL = (
    *("paac-environments", "accelerated-a2c", "accelerated-a3c", "accelerated-ppo", "accelerated-dqn-batches"),
    *("accelerated-secondary", "fast-dqn-learning", "gala-learning"),
)
"""Claims that some scores are as good as others."""
ENVS = {Game.CATCH: "actorlearn.envs.catch:Catch", Game.MINATAR: "MinAtar/Breakout-v1", Game.ATARI: "ALE/Breakout-v5"}
OTHER_FORMS: Mapping[str, Callable[[Mapping[str, Sequence[Any]]], Any]] = {
    "found": lambda cases: {name: {"weights_sha256": values[0]} for name, values in cases.items()},
    "minutes_to_score": lambda cases: cases["PPO"],
    "consensus_points": lambda cases: [[[0.0, value, 1.0]] for value in cases["run"]],
    "gradient_cosine": lambda cases: {
        pair: values[number % len(values)] for number, (pair, values) in enumerate(cases.items())
    },
}
OTHER_FORMS = {**OTHER_FORMS, "gradient_cosine_sync": OTHER_FORMS["gradient_cosine"]}
"""Groups that are not spreads in reports -> function that converts the repetitions of their cases."""

OFFSETS = (1.0, -1.0, 0.0)
"""Differences between repetitions; neighbouring cells have them in another order, so that they do not cancel."""
Cell = Callable[[Any, Any, int], Sequence[Any]]
"""Function of the paper's value, the refuting value and the cell's number that returns the cell's repetitions."""


def spread(values: Sequence[float]) -> dict[str, Any]:
    return {"median": median(values), "low": min(values), "high": max(values), "values": list(values)}


def around(share: float, wide: float, repetitions: int = REPETITIONS) -> Cell:
    """Return cells at ``share`` of the way from the paper's value (0) to its negation (1), varied by ``wide`` of it.

    A negative share is better than the paper; if both values are positive, by a power of the factor between them.
    """

    def cell(paper: Any, refuted: Any, number: int) -> Sequence[Any]:
        if isinstance(paper, str):
            return [refuted if share >= 1 else paper] * repetitions
        if share < 0 and min(paper, refuted) > 0:
            paper, share_left = paper * (paper / refuted) ** -share, 0.0
        else:
            share_left = share
        way = refuted - paper
        offsets = [OFFSETS[(number + number // 3 + repetition) % 3] for repetition in range(repetitions)]
        return [paper + (share_left + wide * offset) * way for offset in offsets]

    return cell


PAPER, BETTER, NEGATION = around(0.0, 0.001), around(-0.2, 0.001), around(1.0, 0.001)
NOISE = around(0.5, 0.45)
"""Repetitions differ as much as the paper's result and its negation."""
OF_GAMES = {"paac-games": 12, "gala-games": 6}
"""Claims about tables -> number of their games."""


def result(claim: Claim, cell: Cell, sizes: Mapping[str, float] | None = None) -> SuiteResult:
    """Return a report with the claim's numbers as ``cell`` makes them, and the paper's sizes except for ``sizes``."""
    here = {size.key: size.paper for size in claim.sizes} | dict(sizes or {})
    report: dict[str, Any] = {key: env(claim, Game(int(size))) if key == "env" else size for key, size in here.items()}
    catch = here.get("env") == Game.CATCH
    report.setdefault("env", ENVS[Game.ATARI])
    number = 0
    for group, cases in claim.numbers.items():
        made: dict[str, Sequence[Any]] = {}
        for case, paper in cases.items():
            values = cell(paper, claim.negation.get(group, {}).get(case, paper), number)
            made[case] = [in_catch(value) for value in values] if catch and of_breakout(cases, group) else values
            number += 1
        report[group] = (OTHER_FORMS.get(group) or (lambda all_: {name: spread(one) for name, one in all_.items()}))(
            made
        )
    return SuiteResult(report)


def env(claim: Claim, kind: Game) -> str:
    """Return Breakout or Catch, or else an environment of this kind that the claim can judge, if there is one."""
    judged = [one for one in claim.envs or () if Game.of(one) == kind]
    return ENVS[kind] if ENVS[kind] in judged or not judged else judged[0]


def of_breakout(cases: Mapping[str, Any], group: str) -> bool:
    return group != "largest fall" and set(cases.values()) <= {LEARNED, NOTHING}


def in_catch(score: float) -> float:
    """Return a score of Catch for one of Breakout; ``LEARNED`` becomes a score that is below the best."""
    return -0.42 + (score - NOTHING) / (LEARNED - NOTHING) * 1.0


@pytest.mark.parametrize("name", CLAIMS)
def test_the_papers_own_numbers_reproduce_it(name: str) -> None:
    claim = CLAIMS[name]
    assert claim.verdict(result(claim, PAPER)) == REPRODUCED
    assert claim.reason(result(claim, PAPER)) == ""


@pytest.mark.parametrize("name", CLAIMS)
def test_numbers_equal_to_the_papers_in_all_repetitions_reproduce_it(name: str) -> None:
    """An interval without width may be a rounding error away from the number."""
    assert CLAIMS[name].verdict(result(CLAIMS[name], around(0.0, 0.0))) == REPRODUCED


def test_numbers_equal_to_those_that_refute_do_not_hold() -> None:
    for share in (0.1, 0.2, 0.3, 0.7):
        here = Interval.ratio([3 * share] * 3, [3.0] * 3)
        assert Comparison("", "", here, refuted=share).outcome == FAILS, share
        assert Comparison("", "", here, refuted=share, lower=True).outcome == FAILS, share


@pytest.mark.parametrize("name", CLAIMS)
def test_better_numbers_than_the_papers_reproduce_it(name: str) -> None:
    assert CLAIMS[name].verdict(result(CLAIMS[name], BETTER)) == REPRODUCED


@pytest.mark.parametrize("name", CLAIMS)
def test_the_negation_of_the_paper_does_not(name: str) -> None:
    claim = CLAIMS[name]
    assert claim.verdict(result(claim, NEGATION)) == NOT_REPRODUCED
    assert claim.reason(result(claim, NEGATION)).startswith("not so: ")


@pytest.mark.parametrize("name", [name for name in CLAIMS if name not in WITHOUT_NOISE])
def test_noise_between_seeds_as_large_as_the_effect_decides_nothing(name: str) -> None:
    claim = CLAIMS[name]
    assert claim.verdict(result(claim, NOISE)) == UNDECIDED
    assert claim.reason(result(claim, NOISE))


@pytest.mark.parametrize("name", EQUAL)
def test_the_noise_that_was_measured_between_three_seeds_decides_nothing_of_equal_scores(name: str) -> None:
    """The paper's numbers, each with the deviation between seeds that A3C had on Catch."""
    claim, measured = CLAIMS[name], ledger.read()["accelerated-a3c"].found
    shares = [measured.values(case, "curve") for case in claim_cases("accelerated-a3c", "curve")]
    deviation = max(stdev(values) for values in shares) / (1.0 + 0.42)
    assert 0.05 < deviation < 0.5
    noise = deviation * (LEARNED - NOTHING)

    def cell(paper: Any, _: Any, number: int) -> Sequence[Any]:
        return [paper + noise * OFFSETS[(number + number // 3 + repetition) % 3] for repetition in range(REPETITIONS)]

    found = result(claim, cell)
    scores = {of for of, cases in claim.numbers.items() if of_breakout(cases, of)}
    exact = result(claim, PAPER)
    mixed = {of: group if of in scores else exact.report[of] for of, group in found.report.items()}
    assert claim.verdict(SuiteResult(mixed)) == UNDECIDED
    assert claim.reason(SuiteResult(mixed)) == "the noise is larger than the effect"


def claim_cases(name: str, of: str) -> Sequence[str]:
    return list(CLAIMS[name].numbers[of])


@pytest.mark.parametrize("name", [name for name in CLAIMS if name not in WITHOUT_NOISE])
@pytest.mark.parametrize("share", [0.0, 1.0], ids=["paper", "negation"])
def test_one_repetition_decides_nothing(name: str, share: float) -> None:
    found = result(CLAIMS[name], around(share, 0.0, repetitions=1))
    assert CLAIMS[name].verdict(found) == UNDECIDED
    games = OF_GAMES.get(name)
    assert CLAIMS[name].reason(found) == (
        f"0 won, 0 lost, {games} of {games} not known" if games else "one repetition: no interval"
    )


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("cell", [PAPER, NEGATION], ids=["paper", "negation"])
def test_a_setting_below_the_smallest_decides_nothing(name: str, cell: Cell) -> None:
    claim = CLAIMS[name]
    for size in claim.sizes:
        if size.smallest > (Game.CATCH if size.key == "env" else 0):
            found = result(claim, cell, {size.key: size.smallest - 1})
            assert claim.verdict(found) == UNDECIDED
            assert claim.reason(found).startswith(f"too small: {size.what} ")


@pytest.mark.parametrize("name", [name for name in CLAIMS if any(s.smallest < s.paper for s in CLAIMS[name].sizes)])
def test_the_smallest_setting_reproduces_no_more_than_the_shape(name: str) -> None:
    claim = CLAIMS[name]
    for size in claim.sizes:
        if size.smallest < size.paper and not (size.key == "env" and "largest fall" in claim.numbers):
            found = result(claim, PAPER, {size.key: size.smallest})
            assert claim.verdict(found) == IN_SHAPE, size.key
            assert claim.reason(found).startswith("smaller: ")
            assert claim.verdict(result(claim, NEGATION, {size.key: size.smallest})) == NOT_REPRODUCED


def kinds(claim: Claim) -> set[bool]:
    """Return True if the claim compares numbers of the paper, and False if it compares orders; or both."""
    return {one.number is not None for one in claim.compare(result(claim, PAPER))}


OF_COUNTS = {"gala-consensus", "dba3c-sizes", "paac-games", "gala-games"}
"""Claims whose numbers are identities, or games of a table: they do not move with a part of the negation."""


@pytest.mark.parametrize("name", [name for name in CLAIMS if len(kinds(CLAIMS[name])) == 2 and name not in OF_COUNTS])
def test_orders_without_the_numbers_are_the_shape(name: str) -> None:
    verdicts = [CLAIMS[name].verdict(result(CLAIMS[name], around(share / 20, 0.0005))) for share in range(21)]
    assert (verdicts[0], verdicts[-1]) == (REPRODUCED, NOT_REPRODUCED)
    assert IN_SHAPE in verdicts


@pytest.mark.parametrize(
    ("name", "column", "lost"),
    [("paac-games", "PAAC", ["Qbert"]), ("gala-games", "GALA-A2C", ["Qbert"])],
)
def test_most_games_of_a_table_and_not_as_many_are_the_shape(name: str, column: str, lost: list[str]) -> None:
    claim = CLAIMS[name]
    found = result(claim, around(0.0, 0.0))
    bars = {
        case: spread([0.0] * REPETITIONS) if case in {f"{game}, {column}" for game in lost} else one
        for case, one in found.report["bars"].items()
    }
    assert claim.verdict(found) == REPRODUCED
    assert claim.verdict(SuiteResult({**found.report, "bars": bars})) == IN_SHAPE


def test_every_claim_is_given_reports_that_are_in_shape() -> None:
    smaller = {name for name, claim in CLAIMS.items() if any(size.smallest < size.paper for size in claim.sizes)}
    assert smaller | {name for name in CLAIMS if len(kinds(CLAIMS[name])) == 2} == CLAIMS.keys() - WITHOUT_NOISE


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_says_what_would_refute_it_and_its_numbers_are_of_cases_that_are_compared(name: str) -> None:
    claim = CLAIMS[name]
    assert claim.refutation and claim.numbers and claim.negation
    for group, cases in claim.negation.items():
        assert cases.keys() <= claim.numbers[group].keys()
    assert all(size.smallest <= size.paper for size in claim.sizes)
    assert claim.says.endswith((".", ".)")) and not re.search(r"\.$", claim.differs)


@given(
    st.lists(st.sampled_from([HOLDS, FAILS, OPEN]), max_size=4), st.lists(st.sampled_from([HOLDS, FAILS]), max_size=4)
)
def test_the_verdict_follows_from_the_comparisons_by_one_rule(shapes: list[str], numbers: list[str]) -> None:
    said = verdict([*(of(one) for one in shapes), *(of(one, 2.0) for one in numbers)])
    assert (said == REPRODUCED) == (bool(shapes or numbers) and {*shapes, *numbers} <= {HOLDS})
    assert (said == IN_SHAPE) == (set(shapes) == {HOLDS} and not set(numbers) <= {HOLDS})
    assert (said == NOT_REPRODUCED) == (FAILS in shapes or (FAILS in numbers and said != IN_SHAPE))


def of(outcome: str, number: float | None = None) -> Comparison:
    ends = {HOLDS: (1.9, 2.1), FAILS: (0.5, 0.7), OPEN: (0.5, 2.1)}[outcome]
    one = Comparison("", "", Interval(fmean(ends), *ends), refuted=1.0, number=number)
    assert one.outcome == outcome
    return one


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        ((2.6, 2.9), HOLDS),
        ((3.0, 4.0), HOLDS),
        ((1.2, 2.9), HOLDS),
        ((1.1, 3.9), OPEN),
        ((2.8, 9.0), HOLDS),
        ((1.2, 2.7), FAILS),
        ((0.8, 1.2), FAILS),
        ((0.9, 2.8), OPEN),
        ((-math.inf, math.inf), OPEN),
    ],
)
def test_a_number_is_reached_where_the_interval_reaches_it_and_excludes_the_negation(
    ends: tuple[float, float], outcome: str
) -> None:
    here = Interval(2.0, *ends)
    assert Comparison("", "2.78x", here, refuted=1.0, number=2.78).outcome == outcome
    less = Interval(-2.0, *(-end for end in reversed(ends)))
    assert Comparison("", "-2.78x", less, refuted=-1.0, number=-2.78, lower=True).outcome == outcome
    assert Comparison("", "2.78x", here, refuted=1.0, number=2.78, blind="saturated").outcome == OPEN


def test_what_is_not_a_number_cannot_tell() -> None:
    assert Comparison("", "", Interval(math.nan, math.nan, math.nan), refuted=1.0).outcome == OPEN


def test_a_number_that_the_noise_hides_leaves_the_shape_and_says_so() -> None:
    claim = CLAIMS["dba3c-stragglers"]
    found = result(claim, around(0.1, 0.3), {"learners": 64})
    assert [one.outcome for one in claim.compare(found)] == [HOLDS, OPEN]
    assert (claim.verdict(found), claim.reason(found)) == (IN_SHAPE, "the noise is larger than the effect")


def test_an_identity_is_met_or_not() -> None:
    assert Comparison("", "", Interval.exact(538_119), number=538_119).outcome == HOLDS
    assert Comparison("", "", Interval.exact(538_118), number=538_119).outcome == FAILS


def test_scores_near_the_best_of_catch_could_not_differ() -> None:
    claim = CLAIMS["fast-dqn-learning"]

    def judged(both: float, standard: float) -> str:
        bars = {"both": spread([both - 0.01, both, both + 0.01]), "standard": spread([standard] * 3)}
        return claim.verdict(SuiteResult({"env": ENVS[Game.CATCH], "bars": bars}))

    assert judged(0.96, 0.98) == UNDECIDED
    assert judged(0.3, 0.98) == NOT_REPRODUCED
    assert judged(0.55, 0.6) == IN_SHAPE
    assert judged(-0.42, -0.5) == UNDECIDED, "the base has not learned"


@pytest.mark.parametrize("score", [0.97, -0.42], ids=["all near the best", "none has learned"])
@pytest.mark.parametrize("group", ["bars", "curve"])
def test_scores_at_one_end_do_not_say_that_epsilon_gains_nothing(group: str, score: float) -> None:
    claim = CLAIMS["dba3c-epsilon"]
    cases = dict.fromkeys(claim.numbers["curve"], spread([score, score + 0.01, score - 0.01]))
    found = SuiteResult({"env": ENVS[Game.CATCH], "batch": 512, "bars": cases, group: cases})
    assert claim.verdict(found) == UNDECIDED
    reasons = {0.97: "both are near the best score: they could not differ", -0.42: "neither has learned"}
    assert claim.reason(found) == reasons[score]


def test_epsilon_is_judged_by_the_beginning_although_all_end_near_the_best() -> None:
    claim = CLAIMS["dba3c-epsilon"]
    found = result(claim, PAPER, {"env": Game.CATCH})
    ends = dict.fromkeys(claim.numbers["curve"], spread([0.97, 0.98, 0.96]))
    assert claim.verdict(SuiteResult({**found.report, "bars": ends})) == IN_SHAPE


@pytest.mark.parametrize(
    ("name", "size", "case"), [("dba3c-rate", "batch", "rate 0.002"), ("dba3c-async", "learners", "async, 64 learners")]
)
def test_what_was_never_learned_cannot_be_forgotten(name: str, size: str, case: str) -> None:
    claim = CLAIMS[name]
    small = spread([0.05, 0.06, 0.07])

    def judged(best: float) -> tuple[str, str]:
        groups: dict[str, dict[str, Any]] = {
            "bars": dict.fromkeys(claim.numbers["bars"], spread([best] * 3)),
            "largest fall": dict.fromkeys(claim.numbers["bars"], small),
            "best score": {one: spread([best if one == case else 0.9] * 3) for one in claim.numbers["bars"]},
        }
        found = SuiteResult({"env": ENVS[Game.CATCH], size: 4_096, **groups})
        return claim.verdict(found), claim.reason(found)

    assert judged(-0.36) == (UNDECIDED, f"{case} has not learned, so that it cannot forget")
    assert judged(0.8)[0] == NOT_REPRODUCED
    found = result(claim, NEGATION)
    older = SuiteResult({of: group for of, group in found.report.items() if of != "best score"})
    assert (claim.verdict(older), claim.reason(older)) == (UNDECIDED, f"the best score of {case} was not kept")


def test_a_score_is_as_good_up_to_the_last_game_that_the_paper_calls_comparable() -> None:
    assert pytest.approx(6.1 / 7.3) == AS_GOOD, "Asteroids, the 37th of 49"


def test_games_that_were_not_measured_may_be_won_or_lost() -> None:
    claim = CLAIMS["paac-games"]
    found = result(claim, PAPER)

    def judged(*games: str) -> str:
        bars = {case: one for case, one in found.report["bars"].items() if case.partition(",")[0] in games}
        return claim.verdict(SuiteResult({**found.report, "bars": bars}))

    assert judged("Breakout", "SpaceInvaders") == UNDECIDED, "A3C is the better one of these in the paper too"
    lost = ("Breakout", "SpaceInvaders", "Seaquest", "BeamRider")
    assert judged(*lost, "Pong") == UNDECIDED
    assert judged("Amidar", "Centipede", "Boxing", "MsPacman", "Pong", "Qbert", "UpNDown", "NameThisGame") == REPRODUCED


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.706), (2, 4.303), (9, 2.262), (10, 2.228), (29, 2.045)])
def test_quantiles_of_student_are_those_of_tables(freedom: int, quantile: float) -> None:
    assert student(freedom) == pytest.approx(quantile, abs=0.005)


def test_an_interval_contains_the_mean_as_often_as_it_says() -> None:
    numbers = random.Random(1)
    samples = [Interval.of([numbers.gauss(3.0, 2.0) for _ in range(3)]) for _ in range(2_000)]
    assert fmean(one.low <= 3.0 <= one.high for one in samples) == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(1.12, 1.02, 1.23), "1.12x (1.02x to 1.23x)"),
        (Interval.exact(2.0), "2.00x"),
        (Interval.of([1.5]), "1.50x (no interval)"),
        (Interval(8.0, 4.0, math.inf), "8.00x (4.00x to any)"),
        (Interval.ratio([3.0], [2.0]), "1.50x (no interval)"),
    ],
)
def test_intervals_are_written_with_their_ends(interval: Interval, text: str) -> None:
    assert interval.written("{:.2f}x") == text


def test_sampling_with_a_gpu_is_judged_by_the_servers_that_use_it() -> None:
    claim = CLAIMS["accelerated-sampling"]
    found = result(claim, NEGATION)
    ways = {"local, lock-step": spread([0.79, 0.8, 0.81]), "local, ahead": spread([0.85, 0.86, 0.87])}
    bars = found.report["bars"] | {f"8 x 8 / 2 {way}": one for way, one in ways.items()}
    assert claim.verdict(SuiteResult({**found.report, "bars": bars})) == NOT_REPRODUCED


@pytest.mark.parametrize("name", ["accelerated-learners", "accelerated-learners-dqn"])
def test_more_learners_than_gpus_are_not_compared(name: str) -> None:
    """Eight learners that share two GPUs are no faster than two; the paper's each have one."""
    claim = CLAIMS[name]
    bars = result(claim, PAPER).report["bars"]
    names = {case: case.rpartition(", ") for case in bars}
    shared = {
        case: bars[f"{system}, 2 learners"] if learners in ("4 learners", "8 learners") else bars[case]
        for case, (system, _, learners) in names.items()
    }
    assert claim.verdict(SuiteResult({"gpus": 2, "bars": shared})) == IN_SHAPE
    assert claim.verdict(SuiteResult({"gpus": 8, "bars": shared})) == NOT_REPRODUCED


@pytest.mark.parametrize("env", ["MinAtar/SpaceInvaders-v1", "ALE/Phoenix-v5"])
def test_scores_of_a_game_without_known_scores_are_not_judged(env: str) -> None:
    """Random play scores 3.8 in MinAtar's Space Invaders, and Phoenix is none of the 49 games."""

    def judged(name: str, **groups: Mapping[str, Any]) -> None:
        found = SuiteResult({"env": env, **groups})
        assert CLAIMS[name].verdict(found) == UNDECIDED
        assert CLAIMS[name].reason(found) == f"the scores of {env} cannot be judged"

    alike, lower = spread([3.79, 3.8, 3.82]), spread([1.79, 1.8, 1.81])
    judged("fast-dqn-learning", bars={"both": alike, "standard": alike})
    small_beside, large_beside, equal = CLAIMS["accelerated-secondary"].numbers["acting"]
    judged(
        "accelerated-secondary",
        acting={small_beside: alike, large_beside: alike, equal: alike},
        beside={small_beside: alike, large_beside: lower, equal: alike},
    )


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_on_the_scale_of_a_player_judge_catch_and_the_games_with_published_scores(name: str) -> None:
    claim = CLAIMS[name]
    if any(of_breakout(cases, group) for group, cases in claim.numbers.items()):
        assert set(claim.envs or ()) == {ENVS[Game.CATCH], "benchmarks.environments:SlowCatch", *games()}
    else:
        assert claim.envs is None or name in {"dba3c-nodes", "accelerated-pong"}


def test_a_score_of_random_play_does_not_show_that_nodes_are_faster() -> None:
    """Random play scores 1.7 in Breakout, so that the first evaluation reaches 0.5."""
    claim = CLAIMS["dba3c-nodes"]

    def judged(env: str, score: str) -> tuple[str, str]:
        rows = [{"": case, f"reached {score}": "3 of 3"} for case in ("1 node", "64 nodes")]
        bars = {"1 node": spread([41.0, 41.0, 41.1]), "64 nodes": spread([1.0, 1.0, 1.0])}
        found = SuiteResult({"env": env, "nodes": 64, "rows": rows, "bars": bars})
        return claim.verdict(found), claim.reason(found)

    assert judged("ALE/Breakout-v5", "0.5") == (UNDECIDED, "0.5 in ALE/Breakout-v5: the score to reach is 300")
    other = (UNDECIDED, "the scores of MinAtar/Breakout-v1 cannot be judged")
    assert judged("MinAtar/Breakout-v1", "0.5") == judged("MinAtar/Breakout-v1", "300") == other
    assert judged("ALE/Breakout-v5", "300") == (REPRODUCED, "")
    assert judged("benchmarks.environments:SlowCatch", "0.5")[0] == IN_SHAPE


def test_what_is_learned_in_ten_minutes_is_not_refuted_sooner() -> None:
    claim = CLAIMS["accelerated-policy-gradients"]
    random_play, learns = spread([-20.7, -20.5, -20.6]), spread([15.0, 16.0, 17.0])

    def judged(minutes: float, **scores: dict[str, Any]) -> tuple[str, str]:
        after = {**dict.fromkeys(claim.numbers["after_minutes"], learns), **scores}
        found = SuiteResult({"env": "ALE/Pong-v5", "gpus": 8, "minutes": minutes, "after_minutes": after})
        return claim.verdict(found), claim.reason(found)

    assert judged(1.0, A2C=random_play) == (UNDECIDED, "measured after only 1.0 minutes")
    assert judged(5.0, PPO=random_play) == (UNDECIDED, "measured after only 5.0 minutes")
    assert judged(10.0, PPO=random_play)[0] == NOT_REPRODUCED
    assert judged(5.0) == judged(10.0) == (REPRODUCED, "")
    assert judged(12.0) == (UNDECIDED, "measured after 12.0 minutes")


def test_runs_that_did_not_reach_a_score_are_not_left_out() -> None:
    pong, nodes = CLAIMS["accelerated-pong"], CLAIMS["dba3c-nodes"]

    def minutes(*took: float | None) -> str:
        return pong.verdict(SuiteResult({"env": "ALE/Pong-v5", "minutes_to_score": list(took)}))

    assert minutes(4.1, 3.8, 4.0) == minutes(7.9, 8.1, 8.0) == IN_SHAPE
    assert minutes(3.9, None, 4.1) == UNDECIDED
    assert minutes(None, None, None) == NOT_REPRODUCED
    assert minutes(None) == UNDECIDED
    missed = SuiteResult({"env": "ALE/Pong-v5", "minutes_to_score": [3.9, None, 4.1]})
    assert pong.reason(missed) == "1 of 3 runs did not reach it, and count as 10"

    def on_nodes(total: int = 3, **reached: tuple[float, ...]) -> str:
        of = {"1 node": reached["one"], "2 nodes": (0.6, 0.7, 0.8), "4 nodes": reached["four"]}
        rows = [{"": case, "reached 0.5": f"{len(values)} of {total}"} for case, values in of.items()]
        bars = {case: spread(values) for case, values in of.items() if values}
        return nodes.verdict(SuiteResult({"rows": rows, "bars": bars}))

    assert on_nodes(one=(2.0, 2.1, 1.9), four=(0.5, 0.52, 0.49)) == IN_SHAPE
    assert on_nodes(one=(2.0, 2.1, 1.9), four=(0.5, 0.52)) == UNDECIDED
    assert on_nodes(one=(2.0, 2.1, 1.9), four=()) == NOT_REPRODUCED
    assert on_nodes(one=(), four=(0.5, 0.52, 0.49)) == UNDECIDED
    assert on_nodes(one=(2.0,), four=()) == UNDECIDED, "most of the runs on one node did not reach it either"
    assert on_nodes(total=1, one=(2.0,), four=()) == UNDECIDED, "one repetition"
