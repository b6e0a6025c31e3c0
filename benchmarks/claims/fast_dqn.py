"""Claims of Fast DQN (Daley and Amato 2021)."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.claims.claim import FASTER, NEAR, Claim, Comparison, Extent, SuiteResult, faster, number
from benchmarks.claims.small_games import alike
from benchmarks.papers.fast_dqn import COUNTS, GAMES, PAPER_HOURS, case
from launch.bench.atari_games import games

PAPER = "Fast DQN, Daley and Amato 2021"
MOST = f"{COUNTS[-1]} environments"
A_FIFTH = (
    *("env.preset=small", "algorithm.target_every_steps=2_000", "algorithm.horizon=250"),
    *("replay.learning_starts_steps=10_000", "replay.capacity_steps=200_000"),
    *("algorithm.epsilon_hold_steps=10_000", "algorithm.epsilon_steps=200_000"),
)
"""Keys by which the topology's periods are a fifth of the paper's, and screens small."""
_STANDARD, _CONCURRENT, _SYNCHRONISED, _BOTH = PAPER_HOURS
_FASTER = (
    (_CONCURRENT, _STANDARD),
    (_SYNCHRONISED, _STANDARD),
    (_BOTH, _CONCURRENT),
    (_BOTH, _SYNCHRONISED),
)
"""Ways of which the first is faster."""


def _speed(found: SuiteResult) -> Sequence[Comparison]:
    rates = {way: found.median(f"{way}, {MOST}") for way in PAPER_HOURS}
    hours = {way: values[-1] or 0.0 for way, values in PAPER_HOURS.items()}
    first = f"{_STANDARD}, 1 environment"
    comparisons = [
        number(
            f"both over standard, {MOST}", hours[_STANDARD] / hours[_BOTH], rates[_BOTH] / rates[_STANDARD], "{:.2f}x"
        )
    ]
    if found.has(first):
        paper = (PAPER_HOURS[_STANDARD][0] or 0.0) / hours[_BOTH]
        comparisons += [
            number(f"both, {MOST}, over standard with one", paper, rates[_BOTH] / found.median(first), "{:.2f}x")
        ]
    return [*comparisons, *_orders(found)]


def _orders(found: SuiteResult) -> Sequence[Comparison]:
    """Compare ways by each number of environments with which the one is the faster one in the paper."""
    compared = []
    for at, count in enumerate(COUNTS):
        for way, other in _FASTER:
            here, there = case(way, count), case(other, count)
            ours, theirs = PAPER_HOURS[way][at], PAPER_HOURS[other][at]
            if found.has(here, there) and ours and theirs and theirs >= FASTER * ours:
                paper = f"{theirs / ours:.2f} times as fast"
                compared += [faster(f"steps/s: {here}, and {other}", paper, found.median(here), found.median(there))]
    return compared


def _learning(found: SuiteResult) -> Sequence[Comparison]:
    return alike(found, [_BOTH], _STANDARD, "as well as DQN or better in 37 games of 49", or_better=True)


def _games(found: SuiteResult) -> Sequence[Comparison]:
    """Compare scores with the paper's, with those of a human tester, and with DQN's."""
    compared = []
    for env in GAMES:
        game, score = games()[env], found.median(env)
        enough = (1 - NEAR) * game.dqn
        compared += [
            number(f"score: {game.game}", game.fast_dqn, score, "{:.1f}"),
            Comparison(
                f"score: {game.game}, and a human tester's",
                "better",
                f"{score:.1f} and {game.human:.1f}",
                score > game.human,
            ),
            Comparison(
                f"score: {game.game}, and DQN's",
                "nearly as good",
                f"{score:.1f} and {game.dqn:.1f}, as good is {enough:.1f}",
                score >= enough,
            ),
        ]
    return compared


def _repeated(found: SuiteResult) -> Sequence[Comparison]:
    weights = {name: values["weights_sha256"] for name, values in found.report["found"].items()}
    first, again, other = weights.values()
    return (
        Comparison(
            "weights of two runs of a seed", "deterministic", f"{first[:12]}, {again[:12]}", first == again, True
        ),
        Comparison("weights of another seed", "others", other[:12], other != first),
    )


CLAIMS = (
    Claim(
        name="fast-dqn-speed",
        paper=PAPER,
        part="tables 1 to 3",
        says="Concurrent training and synchronised execution each make DQN faster, and both together 2.78 times with "
        "eight environments, over standard DQN with one.",
        suite="fast-dqn",
        whole=Extent(5, 8.0),
        quick=Extent(1, 15.0),
        differs="two cores without a GPU, which learning alone keeps busy, in place of four and a GTX 1080; rates of "
        "seconds in place of runs of a million steps",
        compare=_speed,
    ),
    Claim(
        name="fast-dqn-learning",
        paper=PAPER,
        part="section 5.2",
        says="The fastest way learns as well as standard DQN, though it acts by the target network and learns from "
        "experience of the period before.",
        suite="fast-dqn-learning",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs="Catch and a layer of 32 units, 80,000 steps, in place of 49 Atari games and 50 million; against our "
        "own standard way, where the paper has Nature's published scores",
        compare=_learning,
    ),
    Claim(
        name="fast-dqn-games",
        paper=PAPER,
        part="table 4, two games",
        says="Fast DQN plays Pong and Breakout better than a human tester, and nearly as well as DQN.",
        suite="fast-dqn-games",
        whole=Extent(1, 36_000.0),
        quick=Extent(1, 1_500.0, A_FIFTH),
        differs="scores of training games, whose random actions are a tenth at the least, where the paper has the best "
        "evaluation; as many steps as the time allows in place of 50 million. In the reduced form screens are "
        "44x44, and four numbers are a fifth: the steps between two target networks, those of random play before "
        "learning, those in which epsilon falls, and the replay's capacity",
        compare=_games,
    ),
    Claim(
        name="fast-dqn-repeated",
        paper=PAPER,
        part="sections 3 and 4",
        says="Minibatches are trained in a fully deterministic order though sampling goes on meanwhile.",
        suite="fast-dqn-repeated",
        whole=Extent(1, 300.0),
        quick=Extent(1, 300.0),
        differs="Catch, 10,000 steps; that a seed gives the same weights, bit by bit, on all cores and on one is more "
        "than the paper shows",
        compare=_repeated,
    ),
)
