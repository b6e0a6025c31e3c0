"""Claims of Fast DQN (Daley and Amato 2021)."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.claims.claim import Claim, Comparison, Extent, Game, Interval, Size, SuiteResult, faster, game, gpus
from benchmarks.claims.small_games import KNOWN, LEARNED, NOTHING, alike
from benchmarks.papers.fast_dqn import COUNTS, GAMES, PAPER_HOURS, REPEATED, case
from launch.bench.atari_games import games

PAPER = "Fast DQN, Daley and Amato 2021"
MOST = COUNTS[-1]
A_FIFTH = (
    *("env.preset=small", "algorithm.target_every_steps=2_000", "algorithm.horizon=250"),
    *("replay.learning_starts_steps=10_000", "replay.capacity_steps=200_000"),
    *("algorithm.epsilon_hold_steps=10_000", "algorithm.epsilon_steps=200_000"),
)
"""Keys with which all periods are a fifth of the paper's, and screens are small."""
STEPS, SETTLED = 50_000_000, 25_000_000
"""Steps of a run, and steps after which scores hardly change: "roughly halfway" (section 5.2)."""
SEEDS = tuple(REPEATED)
"""Names of the runs: two with one seed, and one with another seed."""
_STANDARD, _CONCURRENT, _SYNCHRONISED, _BOTH = PAPER_HOURS
_FASTER = (
    (_CONCURRENT, _STANDARD),
    (_SYNCHRONISED, _STANDARD),
    (_BOTH, _CONCURRENT),
    (_BOTH, _SYNCHRONISED),
)
"""Pairs of ways of training, of which the first is faster in the paper for some numbers of environments."""
_RATES = {
    case(way, count): 1.0 / of
    for way, hours in PAPER_HOURS.items()
    for count, of in zip(COUNTS, hours, strict=True)
    if of
}


def _speed(found: SuiteResult) -> Sequence[Comparison]:
    both = case(_BOTH, MOST)
    overs = [one for one in (case(_STANDARD, 1), case(_STANDARD, MOST)) if found.has(one)]
    factors = {one: _RATES[both] / _RATES[one] for one in overs}
    return (
        *(faster(found, both, one, f"{factor:.2f}x", factor) for one, factor in factors.items()),
        *_orders(found),
    )


def _orders(found: SuiteResult) -> Sequence[Comparison]:
    """Compare pairs of ways, for each number of environments for which the first is faster in the paper."""
    pairs = [(case(way, count), case(other, count)) for count in COUNTS for way, other in _FASTER]
    return [
        faster(found, here, there, f"faster: {_RATES[here] / _RATES[there]:.2f}x")
        for here, there in pairs
        if here in _RATES and found.has(here, there) and _RATES[here] > _RATES[there]
    ]


def _learning(found: SuiteResult) -> Sequence[Comparison]:
    return [alike(found, _BOTH, _STANDARD, "comparable")]


def _games(found: SuiteResult) -> Sequence[Comparison]:
    """Compare scores with the paper's scores and with those of the human tester."""
    compared = []
    for env in GAMES:
        one, score = games()[env], Interval.of(found.values(env))
        compared += [
            Comparison(f"score: {one.game}, and a human tester's", f"more than {one.human:g}", score, one.human),
            Comparison(f"score: {one.game}", f"{one.fast_dqn:g}", score, one.human, number=one.fast_dqn),
        ]
    return compared


def _repeated(found: SuiteResult) -> Sequence[Comparison]:
    first, again, other = (found.report["found"][name]["weights_sha256"] for name in SEEDS)
    return (
        Comparison(
            "runs of a seed that end with other weights",
            "0: a fully deterministic order",
            Interval.exact(first != again),
            number=0,
            form="{:.0f}",
            values=f"{first[:12]}, {again[:12]}",
        ),
        Comparison(
            "runs of another seed that end with other weights",
            "1",
            Interval.exact(first != other),
            number=1,
            form="{:.0f}",
            values=other[:12],
        ),
    )


CLAIMS = (
    Claim(
        name="fast-dqn-speed",
        paper=PAPER,
        part="tables 1 to 3",
        says="Concurrent training and synchronised execution each make DQN faster, and both together 2.78 times with "
        "eight environments, over standard DQN with one.",
        refutation="a GPU trains meanwhile, and both together are surely less than 2.78 times as fast while not all "
        "orders of table 1 are shown, or one order is surely the other way",
        numbers={"bars": _RATES},
        negation={"bars": dict.fromkeys(_RATES, _RATES[case(_STANDARD, 1)])},
        sizes=(gpus(1, 1),),
        computing=("trainer",),
        suite="fast-dqn",
        whole=Extent(5, 8.0),
        quick=Extent(1, 15.0),
        differs="two cores without a GPU, which learning alone keeps busy, in place of four and a GTX 1080; rates of "
        "seconds in place of runs of a million steps; target networks every 1,000 steps in place of 10,000; standard "
        "and synchronised act by the newest weights, where the reference acts by the target network in all four ways; "
        "8 environments learn 2 minibatches every 8 steps, where the reference joins its threads every 4; at most 2 "
        "simulator processes in place of a thread for each environment, and a batch of each process in place of one of "
        "all",
        compare=_speed,
    ),
    Claim(
        name="fast-dqn-learning",
        paper=PAPER,
        part="sections 3 and 5.2",
        says="The fastest way learns as well as standard DQN, though it acts by the target network and learns from "
        "experience of the period before.",
        refutation="it scores surely less of the way than in the last of the 37 games of 49 that the paper calls "
        "comparable, 84 %",
        numbers={"bars": {_STANDARD: LEARNED, _BOTH: LEARNED}},
        negation={"bars": {_BOTH: NOTHING}},
        sizes=(game(Game.CATCH, Game.CATCH),),
        envs=KNOWN,
        suite="fast-dqn-learning",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs="Catch and a layer of 32 units, 80,000 steps, in place of 49 Atari games and 50 million; Adam with "
        "Catch's defaults in place of RMSProp at 2.5e-4, target networks every 1,000 steps in place of 10,000; against "
        "our own standard way, where the paper has Nature's published scores",
        compare=_learning,
    ),
    Claim(
        name="fast-dqn-games",
        paper=PAPER,
        part="table 4, two games",
        says="Fast DQN plays Pong and Breakout better than a human tester: 18.7 and 373.4.",
        refutation="after the 25 million steps by which its games settle, a score is surely lower",
        numbers={"bars": {env: games()[env].fast_dqn for env in GAMES}},
        negation={"bars": {env: games()[env].random for env in GAMES}},
        sizes=(game(Game.ATARI, Game.ATARI), Size("steps", "steps", SETTLED, STEPS, STEPS)),
        suite="fast-dqn-games",
        whole=Extent(3, 36_000.0),
        quick=Extent(1, 1_500.0, A_FIFTH),
        differs="scores of training games, whose random actions are a tenth at the least, where the paper has the best "
        "evaluation; as many steps as the time allows in place of 50 million; initial weights uniform in "
        "1/sqrt(fan_in) in place of Glorot's. In the reduced form screens are 44x44, and four numbers are a fifth: the "
        "steps between two target networks, those of random play before learning, those in which epsilon falls, and "
        "the replay's capacity",
        compare=_games,
    ),
    Claim(
        name="fast-dqn-repeated",
        paper=PAPER,
        part="sections 3 and 4",
        says="Minibatches are trained in a fully deterministic order though sampling goes on meanwhile.",
        refutation="two runs of a seed end with other weights",
        numbers={"found": dict(zip(SEEDS, ("1" * 64, "1" * 64, "2" * 64), strict=True))},
        negation={"found": {SEEDS[1]: "3" * 64}},
        sizes=(),
        suite="fast-dqn-repeated",
        whole=Extent(1, 300.0),
        quick=Extent(1, 300.0),
        differs="Catch and Adam with its defaults, 10,000 steps; that a seed gives the same weights, bit by bit, on "
        "all cores and on one is more than the paper shows",
        compare=_repeated,
    ),
)
