"""Claims of Fast DQN (Daley and Amato 2021)."""

from __future__ import annotations

from collections.abc import Sequence

from launch.bench.claims.catch import alike
from launch.bench.claims.claim import Claim, Comparison, Extent, Found, faster, number
from launch.bench.papers.atari_games import games
from launch.bench.papers.fast_dqn import COUNTS, GAMES, PAPER_HOURS

PAPER = "Fast DQN, Daley and Amato 2021"
MOST = f"{COUNTS[-1]} environments"
A_FIFTH = (
    *("env.preset=small", "algorithm.target_every_steps=2_000", "algorithm.horizon=250"),
    *("replay.learning_starts_steps=10_000", "replay.capacity_steps=200_000"),
    *("algorithm.epsilon_hold_steps=10_000", "algorithm.epsilon_steps=200_000"),
)
"""Keys by which the topology's periods are a fifth of the paper's, and passes cost a fifth on small screens."""
_STANDARD, _CONCURRENT, _SYNCHRONISED, _BOTH = PAPER_HOURS


def _speed(found: Found) -> Sequence[Comparison]:
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
    for way in (_CONCURRENT, _SYNCHRONISED):
        comparisons += [faster(f"steps/s: both, and {way} alone", "both is faster", rates[_BOTH], rates[way])]
    return comparisons


def _learning(found: Found) -> Sequence[Comparison]:
    return alike(found, [_BOTH], _STANDARD, "as well as DQN or better in 37 games of 49", or_better=True)


def _games(found: Found) -> Sequence[Comparison]:
    """Compare scores, normalised by a human tester's, with the paper's, who beats the tester in both games."""
    compared = []
    for env in GAMES:
        game = games()[env]
        percent = game.percent(found.median(env))
        compared += [
            number(f"score, 100 is the human tester's: {game.game}", game.fast_dqn_percent, percent, "{:.0f} %"),
            Comparison(f"score: {game.game}", "better than the human tester", f"{percent:.0f} %", percent > 100.0),
        ]
    return compared


def _repeated(found: Found) -> Sequence[Comparison]:
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
        says="It plays Pong and Breakout as well as DQN, and better than a human tester.",
        suite="fast-dqn-games",
        whole=Extent(1, 36_000.0),
        quick=Extent(1, 1_500.0, A_FIFTH),
        differs="scores of training games, with a tenth of random actions at the end, where the paper has the best "
        "evaluation; as many steps as the time allows in place of 50 million. In the reduced form screens of "
        "44x44, and a fifth of the steps between two target networks, of random play before, of the replay "
        "and of epsilon's fall",
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
