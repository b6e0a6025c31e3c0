"""Claims of "Accelerated Methods for Deep Reinforcement Learning" (Stooke and Abbeel 2018)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from statistics import fmean

from benchmarks.claims.claim import FAILS, Claim, Comparison, Extent, Game, Interval, SuiteResult, faster, game, gpus
from benchmarks.claims.small_games import AS_GOOD, KNOWN, LEARNED, NOTHING, alike, learned, shares
from benchmarks.papers.accelerated import (
    A2C_ENVIRONMENTS,
    A3C_LEARNERS,
    MASTERED,
    PHASE_MINUTES,
    POLICY_GRADIENTS,
    PPO_ENVIRONMENTS,
    SECONDARY,
    UPDATE_RULE_BATCHES,
    UPDATE_RULES,
    learners_of,
    update_rule,
)
from benchmarks.papers.learners import COUNTS, TABLE_2, TABLE_3, System
from benchmarks.papers.paac import environments

PAPER = "Accelerated methods, Stooke and Abbeel 2018"
SHARE, IDLE = 0.8, 0.5
"""Share of the speed without inference (figure 2), and the share if simulators were idle half of the time (4.1)."""
SYNC, ASYNC = 35.8, 38.4
"""Thousands of steps per second of 512 simulators in lock-step and running ahead (table 1)."""
PONG_MINUTES = 4.0
"""Minutes of PPO for Pong (section 5.5)."""
DGX_1 = 8
"""Number of GPUs of the paper's machine."""
IN_SMALL = "Catch and a layer of 32 units in place of Atari and its networks"
DEFAULTS = "Adam, entropy 0 and weights uniform in 1/sqrt(fan_in), Catch's defaults, in place of the paper's"
DQN_DEFAULTS = "target networks every 1,000 steps and epsilon 0.05 after 20,000, in place of 10,000 and a million"
AT_SIMULATION = "8 x 8 / 2"


def _sampling(found: SuiteResult) -> Sequence[Comparison]:
    shapes = sorted({case.rpartition(" ")[0] for case in found.report["bars"] if case.endswith(" simulation")})
    wheres = ("server",) if found.report.get("gpus") else ("local", "server")  # only a server computes on a GPU
    served = [where for where in wheres if found.has(f"{shapes[0]} {where}, lock-step")]
    at, where = max(
        ((shape, where) for shape in shapes for where in served),
        key=lambda case: found.median(f"{case[0]} {case[1]}, lock-step"),
    )
    sync = f"{at} {where}, lock-step"
    return (
        Comparison(
            f"share of the speed without inference: {sync}",
            f"{SHARE:.0%}",
            found.ratio(sync, f"{at} simulation"),
            refuted=IDLE,
            number=SHARE,
            form="{:.0%}",
        ),
        faster(found, f"{at} {where}, ahead", sync, f"without a barrier {ASYNC}k, in step {SYNC}k"),
    )


def _a2c(found: SuiteResult) -> Sequence[Comparison]:
    base, *more = (environments(count) for count in A2C_ENVIRONMENTS)
    return [alike(found, case, base, "matches the baseline") for case in more]


def _a3c(found: SuiteResult) -> Sequence[Comparison]:
    alone, *more = (learners_of(count) for count in A3C_LEARNERS)
    return [alike(found, case, alone, "nearly indistinguishable", of="curve") for case in more]


def _ppo(found: SuiteResult) -> Sequence[Comparison]:
    base, *more = (environments(count) for count in PPO_ENVIRONMENTS)
    return [alike(found, case, base, "at most slightly worse", of="curve") for case in more if found.has(case)]


def _dqn(found: SuiteResult) -> Sequence[Comparison]:
    return [alike(found, "minibatches of 512", "minibatches of 32", "consistent up to 512", of="curve")]


def _secondary(found: SuiteResult) -> Sequence[Comparison]:
    small_beside, large_beside, equal = SECONDARY
    return (
        alike(found, small_beside, small_beside, "64 keeps pace with 2,048 that acts", "beside", "acting"),
        learned(found, large_beside, "64 acts and learns", "acting"),
        _fails(found, large_beside),
        alike(found, equal, equal, "256 matches 256 that acts", "beside", "acting"),
    )


def _fails(found: SuiteResult, case: str) -> Comparison:
    acting, beside = (shares(found, case, of) for of in ("acting", "beside"))
    return Comparison(
        f"score, share of the way from random play: {case}: beside, less acting",
        f"2,048 fails to learn: less than {AS_GOOD - 1:.2f}",
        Interval.of([a - b for a, b in zip(beside, acting, strict=True)]),
        refuted=AS_GOOD - 1,
        lower=True,
        form="{:+.2f}",
        values=f"{fmean(beside):.2f} and {fmean(acting):.2f}",
    )


def _update_rules(found: SuiteResult) -> Sequence[Comparison]:
    cases = {rule: [update_rule(rule, batch) for batch in UPDATE_RULE_BATCHES] for rule in UPDATE_RULES}
    scores = {case: fmean(shares(found, case)) for all_ in cases.values() for case in all_}
    low, high = min(scores.values()), max(scores.values())
    unlike = (
        "" if low >= AS_GOOD * high else f"scores differ, {low:.2f} to {high:.2f}, where the paper keeps them alike"
    )
    sizes = f"minibatches of {', '.join(f'{batch:,}' for batch in UPDATE_RULE_BATCHES)}"

    def norms(rule: str, of: str) -> Sequence[Sequence[float]]:
        """Return norms for each repetition, and within it for each minibatch size."""
        return list(zip(*(found.values(case, f"{of}_l2_fc0") for case in cases[rule]), strict=True))

    def growth(rule: str, of: str, way: int) -> Interval:
        """Return the smallest factor between norms of successive minibatch sizes; ``way``: 1: growth, -1: decrease."""
        least = [min((b / a) ** way for a, b in pairwise(one)) for one in norms(rule, of)]
        return Interval.ratio(least, [1.0] * len(least))

    spread = {rule: [max(one) / min(one) for one in norms(rule, "parameters")] for rule in UPDATE_RULES}
    return (
        *(
            Comparison(
                f"least factor by which gradients shrink, {rule}, {sizes}",
                "larger minibatches, smaller gradients",
                growth(rule, "gradients", -1),
                refuted=1.0,
                form="{:.2f}x",
                blind=unlike,
            )
            for rule in UPDATE_RULES
        ),
        Comparison(
            f"least factor by which steps grow, Adam, {sizes}",
            "bigger with larger minibatches",
            growth("Adam", "steps", 1),
            refuted=1.0,
            form="{:.2f}x",
            blind=unlike,
        ),
        Comparison(
            f"spread of norms of weights at one rate: RMSProp's over Adam's, {sizes}",
            "Adam's are tight unlike RMSProp's",
            Interval.ratio(spread["RMSProp"], spread["Adam"]),
            refuted=1.0,
            form="{:.2f}x",
            values=f"{fmean(spread['RMSProp']):.2f} and {fmean(spread['Adam']):.2f}",
            blind=unlike,
        ),
    )


def _pong(found: SuiteResult) -> Sequence[Comparison]:
    took = found.report["minutes_to_score"]
    reached = Interval.of([PHASE_MINUTES if minutes is None else float(minutes) for minutes in took])
    missed = sum(minutes is None for minutes in took)
    interval = Interval(reached.mean, reached.low, math.inf) if missed else reached
    values = f"{missed} of {len(took)} runs did not reach it, and count as {PHASE_MINUTES:g}" if missed else ""
    return (
        Comparison(
            f"minutes to {MASTERED:g}, against the limit of the first phase",
            f"under {PHASE_MINUTES:g}",
            interval,
            refuted=PHASE_MINUTES,
            lower=True,
            form="{:.1f}",
            values=values,
            wide=values,
        ),
        Comparison(
            f"minutes to {MASTERED:g}",
            f"{PONG_MINUTES:g}",
            interval,
            refuted=PHASE_MINUTES,
            number=PONG_MINUTES,
            lower=True,
            form="{:.1f}",
            values=values,
            wide=values,
        ),
    )


def _policy_gradients(found: SuiteResult) -> Sequence[Comparison]:
    """Compare scores after ten minutes. In a shorter measurement, an algorithm that has not learned is undecided."""
    minutes = float(found.report.get("minutes", PHASE_MINUTES))
    late = f"measured after {minutes:.1f} minutes" if minutes > PHASE_MINUTES else ""
    compared = [
        learned(found, name, f"learns in {PHASE_MINUTES:g} minutes", "after_minutes", late) for name in POLICY_GRADIENTS
    ]
    early = f"measured after only {minutes:.1f} minutes"
    return [replace(one, blind=early) if one.outcome == FAILS and minutes < PHASE_MINUTES else one for one in compared]


def _hours(table: Mapping[str, System], found: SuiteResult) -> Sequence[Comparison]:
    """Compare how many times as fast several learners are as one, with the paper's table of hours.

    With GPUs, only numbers of learners that have a GPU each are compared.
    """
    most = found.report.get("gpus") or COUNTS[-1]
    return [
        faster(found, case, alone, f"{hours[0] / together:.2f}x", hours[0] / together)
        for name, hours in ((name, system.paper_hours) for name, system in table.items())
        for count, together in zip(COUNTS, hours, strict=True)
        if 1 < count <= most and together and hours[0]
        if found.has(case := f"{name}, {learners_of(count)}", alone := f"{name}, {learners_of(1)}")
    ]


def _rates(table: Mapping[str, System]) -> dict[str, float]:
    return {
        f"{name}, {learners_of(count)}": 1.0 / hours
        for name, system in table.items()
        for count, hours in zip(COUNTS, system.paper_hours, strict=True)
        if hours
    }


def _alone(table: Mapping[str, System]) -> dict[str, float]:
    """Return the rates that refute the claim: those of a table in which more learners are no faster than one."""
    rates = _rates(table)
    return {case: rates.get(f"{case.partition(',')[0]}, 1 learner", rate) for case, rate in rates.items()}


def _rules(of: Sequence[float], rule: str) -> dict[str, float]:
    return {update_rule(rule, batch): norm for batch, norm in zip(UPDATE_RULE_BATCHES, of, strict=True)}


_ALL_RULES = [update_rule(rule, batch) for rule in UPDATE_RULES for batch in UPDATE_RULE_BATCHES]
_SMALL_BESIDE, _LARGE_BESIDE, _EQUAL = SECONDARY

CLAIMS = (
    Claim(
        name="accelerated-sampling",
        paper=PAPER,
        part="figure 2 and table 1",
        says="Simulators in step, several environments to a core, keep some 80 % of the speed that they have without "
        "inference; without a barrier they are a little faster.",
        refutation="a GPU infers, and surely less than 80 % is left, or a barrier costs nothing",
        numbers={
            "bars": {
                f"{AT_SIMULATION} simulation": 1.0,
                f"{AT_SIMULATION} server, lock-step": SHARE,
                f"{AT_SIMULATION} server, ahead": SHARE * ASYNC / SYNC,
            }
        },
        negation={"bars": {f"{AT_SIMULATION} server, lock-step": 0.45, f"{AT_SIMULATION} server, ahead": 0.4}},
        sizes=(gpus(1, 1),),
        computing=("inference",),
        suite="sampling",
        topology="atari/paac.yaml",
        whole=Extent(3, 8.0, ("env.id=ALE/Breakout-v5",)),
        quick=Extent(1, 15.0, ("env.id=ALE/Breakout-v5",)),
        differs="inference on the simulators' own cores, where the paper has a GPU; arch_nips",
        compare=_sampling,
    ),
    Claim(
        name="accelerated-a2c",
        paper=PAPER,
        part="figure 3, top",
        says="A2C learns as well with many environments where the learning rate grows with the root of the batch.",
        refutation="more environments surely score lower after as many steps",
        numbers={"bars": {environments(count): LEARNED for count in A2C_ENVIRONMENTS}},
        negation={"bars": {environments(count): NOTHING for count in A2C_ENVIRONMENTS[1:]}},
        sizes=(game(Game.CATCH, Game.CATCH),),
        envs=KNOWN,
        suite="a2c-environments",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs=f"{IN_SMALL}, 16 to 256 environments and 300,000 steps in place of 16 to 512 and 50 million; Adam at "
        "Catch's 3e-3 for 16 environments, up to 1.2e-2, and entropy 0, in place of RMSProp at 7e-4, up to 3e-3, and "
        "0.01",
        compare=_a2c,
    ),
    Claim(
        name="accelerated-a3c",
        paper=PAPER,
        part="figure 3, upper",
        says="Asynchronous learners of 16 environments learn as well after as many steps of all, whatever their "
        "number, with no number changed.",
        refutation="the curve of more learners is surely lower",
        numbers={"curve": {learners_of(count): LEARNED for count in A3C_LEARNERS}},
        negation={"curve": {learners_of(count): NOTHING for count in A3C_LEARNERS[1:]}},
        sizes=(game(Game.CATCH, Game.CATCH),),
        envs=KNOWN,
        suite="a3c-learners",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs=f"{IN_SMALL}, 1 to 4 learners on shared cores and 300,000 steps in place of 1 to 32 and 50 million; "
        f"{DEFAULTS} (RMSProp at 7e-4, 0.01)",
        compare=_a3c,
    ),
    Claim(
        name="accelerated-ppo",
        paper=PAPER,
        part="figure 3, lower",
        says="PPO learns nearly as well with 8 to 512 environments whose rollouts shrink so that the batch stays "
        "2,048.",
        refutation="the curve of more environments is surely lower, by more than in comparable games",
        numbers={of: {environments(count): LEARNED for count in PPO_ENVIRONMENTS} for of in ("bars", "curve")},
        negation={"curve": {environments(count): NOTHING for count in PPO_ENVIRONMENTS[1:]}},
        sizes=(game(Game.CATCH, Game.CATCH),),
        envs=KNOWN,
        suite="ppo-environments",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs=f"{IN_SMALL}, 300,000 steps in place of 50 million; {DEFAULTS}",
        compare=_ppo,
    ),
    Claim(
        name="accelerated-dqn-batches",
        paper=PAPER,
        part="figure 4",
        says="DQN learns as well with minibatches of 512 as with 32, as many samples being learned from for each step.",
        refutation="the curve of minibatches of 512 is surely lower",
        numbers={"curve": {"minibatches of 32": LEARNED, "minibatches of 512": LEARNED}},
        negation={"curve": {"minibatches of 512": NOTHING}},
        sizes=(game(Game.CATCH, Game.CATCH),),
        envs=KNOWN,
        suite="dqn-batches",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs=f"{IN_SMALL}, 120,000 steps in place of 50 million; Adam at Catch's rate, times 3 and 6, in place of "
        f"RMSProp at 2.5, 7.5 and 15e-4; {DQN_DEFAULTS}; scores of training games",
        compare=_dqn,
    ),
    Claim(
        name="accelerated-policy-gradients",
        paper=PAPER,
        part="figure 5",
        says="A2C, A3C, PPO and APPO of several learners each learn an Atari game within ten minutes.",
        refutation="one of them is surely below half of the way to a player's score after ten minutes",
        numbers={"after_minutes": dict.fromkeys(POLICY_GRADIENTS, LEARNED)},
        negation={"after_minutes": dict.fromkeys(POLICY_GRADIENTS, NOTHING)},
        sizes=(game(Game.ATARI, Game.CATCH), gpus(0, DGX_1)),
        envs=KNOWN,
        suite="policy-gradients",
        whole=Extent(3, 630.0),  # the last report of a run is seconds older than its end
        quick=Extent(1, 630.0),
        differs=f"{IN_SMALL}, two learners of 4 environments on shared cores and 300,000 steps in place of eight GPUs "
        f"and Atari games; {DEFAULTS}; rollouts of 16 steps (A2C, A3C) and 64 (PPO, APPO); Catch is "
        "learned in seconds, so that it says nothing of ten minutes",
        compare=_policy_gradients,
    ),
    Claim(
        name="accelerated-pong",
        paper=PAPER,
        part="figure 5, section 5.5",
        says="The first, steep phase of Pong is over in less than ten minutes; PPO masters it in four.",
        refutation=f"the mean time to {MASTERED:g} is surely ten minutes or more; in numbers, surely more than four",
        numbers={"minutes_to_score": {"PPO": PONG_MINUTES}},
        negation={"minutes_to_score": {"PPO": 12.0}},
        sizes=(game(Game.ATARI, Game.ATARI), gpus(0, DGX_1)),
        envs=("ALE/Pong-v5",),
        suite="pong",
        whole=Extent(3, 600.0),
        quick=Extent(1, 600.0),
        differs="screens of 44x44 and numbers of PPO that were tuned for two cores, on fewer than eight GPUs and 40 "
        "cores; a mean of 18 is called mastered, which the paper does not define",
        compare=_pong,
    ),
    Claim(
        name="accelerated-update-rules",
        paper=PAPER,
        part="figure 9",
        says="Of learners with the same curves, larger minibatches have smaller gradients; Adam makes larger steps "
        "with them and keeps norms of weights together at one learning rate, RMSProp does not.",
        refutation="scores are alike, and a larger minibatch surely has no smaller gradients or, with Adam, no larger "
        "steps, or RMSProp's norms are no further apart than Adam's",
        numbers={
            "bars": dict.fromkeys(_ALL_RULES, LEARNED),
            "gradients_l2_fc0": _rules((4.0, 2.0, 1.0), "Adam") | _rules((4.0, 2.0, 1.0), "RMSProp"),
            "steps_l2_fc0": _rules((1.0, 2.0, 4.0), "Adam") | _rules((1.0, 1.0, 1.0), "RMSProp"),
            "parameters_l2_fc0": _rules((1.0, 1.0, 1.0), "Adam") | _rules((4.0, 2.0, 1.0), "RMSProp"),
        },
        negation={
            "gradients_l2_fc0": _rules((1.0, 2.0, 4.0), "Adam") | _rules((1.0, 2.0, 4.0), "RMSProp"),
            "steps_l2_fc0": _rules((4.0, 2.0, 1.0), "Adam"),
        },
        sizes=(game(Game.CATCH, Game.CATCH),),
        envs=KNOWN,
        suite="update-rules",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs=f"{IN_SMALL}, its first layer and DQN in place of FC-0 of Categorical DQN on Q*bert; 80,000 steps; "
        f"one rate, also of RMSProp, so that scores differ, where the paper tunes rates until they are alike; "
        f"{DQN_DEFAULTS}",
        compare=_update_rules,
    ),
    Claim(
        name="accelerated-secondary",
        paper=PAPER,
        part="figures 6 and 8",
        says="A second DQN that learns from the replay of the one that acts keeps pace with smaller "
        "minibatches, fails with much larger ones, and matches it with as large ones.",
        refutation="the second surely lags with smaller or equal minibatches, or surely keeps up with much larger ones",
        numbers={
            "acting": dict.fromkeys(SECONDARY, LEARNED),
            "beside": {_SMALL_BESIDE: LEARNED, _LARGE_BESIDE: NOTHING, _EQUAL: LEARNED},
        },
        negation={"beside": {_SMALL_BESIDE: NOTHING, _LARGE_BESIDE: LEARNED, _EQUAL: NOTHING}},
        sizes=(game(Game.CATCH, Game.CATCH),),
        envs=KNOWN,
        suite="secondary-learner",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs=f"{IN_SMALL}, 120,000 steps in place of 50 million of Breakout; Adam at Catch's rate, which grows with "
        f"the root of the minibatch, in place of RMSProp at the fastest stable one; {DQN_DEFAULTS}",
        compare=_secondary,
    ),
    Claim(
        name="accelerated-learners",
        paper=PAPER,
        part="table 2",
        says="Two learners are 1.7 times as fast as one in policy gradients, eight 4 to 6 times.",
        refutation="each has a GPU, and they are surely less than so many times as fast",
        numbers={"bars": _rates(TABLE_2)},
        negation={"bars": _alone(TABLE_2)},
        sizes=(gpus(2, DGX_1),),
        computing=("trainer",),
        suite="learners",
        whole=Extent(3, 10.0),
        quick=Extent(1, 10.0),
        differs="learners share the cores of one machine without a GPU; in the paper each has a GPU and five cores",
        compare=partial(_hours, TABLE_2),
    ),
    Claim(
        name="accelerated-learners-dqn",
        paper=PAPER,
        part="table 3",
        says="Two learners that share a minibatch are 1.6 to 1.8 times as fast as one in value learning.",
        refutation="each has a GPU, and they are surely less than so many times as fast",
        numbers={"bars": _rates(TABLE_3)},
        negation={"bars": _alone(TABLE_3)},
        sizes=(gpus(2, DGX_1),),
        computing=("trainer",),
        suite="learners-dqn",
        whole=Extent(3, 20.0),
        quick=Extent(1, 20.0),
        differs="learners share the cores of one machine without a GPU; in the paper each has a GPU and five cores; a "
        "replay of a tenth, from which learning begins at once",
        compare=partial(_hours, TABLE_3),
    ),
)
