"""Claims of "Accelerated Methods for Deep Reinforcement Learning" (Stooke and Abbeel 2018)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median

from benchmarks.claims.claim import Claim, Comparison, Extent, SuiteResult, number
from benchmarks.claims.small_games import ALIKE, alike, learned
from benchmarks.papers.accelerated import (
    A2C_ENVIRONMENTS,
    A3C_LEARNERS,
    MASTERED,
    POLICY_GRADIENTS,
    PPO_ENVIRONMENTS,
    SECONDARY,
    UPDATE_RULE_BATCHES,
    UPDATE_RULES,
    update_rule,
)
from benchmarks.papers.learners import TABLE_2, TABLE_3, System
from benchmarks.papers.paac import environments

PAPER = "Accelerated methods, Stooke and Abbeel 2018"
SHARE, FREE = 0.8, 0.97
"""Share of the speed without inference (figure 2), and share of a rate from which it is called as fast."""
PHASE_MINUTES, PONG_MINUTES = 10.0, 4.0
"""Time of the steep beginning of any game, and of PPO's Pong (section 5.5)."""
TIGHT, LARGER = 1.25, 1.2
"""Largest norm over the smallest: up to the first norms are close together, from the second one of two is larger."""
IN_SMALL = "Catch and a layer of 32 units in place of Atari and its networks"


def _sampling(found: SuiteResult) -> Sequence[Comparison]:
    shapes = sorted({case.rpartition(" ")[0] for case in found.report["bars"] if case.endswith(" simulation")})
    at = max(shapes, key=lambda shape: found.median(f"{shape} local, lock-step"))
    simulation, sync, ahead = (
        found.median(f"{at} {way}") for way in ("simulation", "local, lock-step", "local, ahead")
    )
    return (
        number(f"share of the speed without inference, {at}", SHARE, sync / simulation, "{:.0%}", 0.05),
        Comparison(
            "steps/s without a barrier, and in step",
            "38.4k and 35.8k",
            f"{ahead:,.0f} and {sync:,.0f}",
            ahead >= FREE * sync,
        ),
    )


def _a2c(found: SuiteResult) -> Sequence[Comparison]:
    least, more, most = (environments(count) for count in A2C_ENVIRONMENTS)
    here, there = found.median(most, "curve"), found.median(least, "curve")
    return (
        *alike(found, [more], least, "learns as well", or_better=True),
        learned(most, found.median(most)),
        Comparison(
            f"mean of the curve with {most}, and {least}",
            "a gradual decay in efficiency remains",
            f"{here:.2f} and {there:.2f}",
            here < there,
        ),
    )


def _a3c(found: SuiteResult) -> Sequence[Comparison]:
    alone, *more = (f"{count} learner{'s' * (count > 1)}" for count in A3C_LEARNERS)
    return alike(found, more, alone, "nearly indistinguishable")


def _ppo(found: SuiteResult) -> Sequence[Comparison]:
    least, *more = (environments(count) for count in PPO_ENVIRONMENTS)
    return alike(found, [case for case in more if found.has(case)], least, "slightly better or worse")


def _dqn(found: SuiteResult) -> Sequence[Comparison]:
    return alike(found, ["minibatches of 512"], "minibatches of 32", "consistent up to 512")


def _secondary(found: SuiteResult) -> Sequence[Comparison]:
    small_beside, large_beside, equal = SECONDARY
    pairs = {name: (found.median(name, "acting"), found.median(name, "beside")) for name in SECONDARY}
    said = {name: f"{acting:.2f}, {beside:.2f}" for name, (acting, beside) in pairs.items()}
    apart = {name: acting - beside for name, (acting, beside) in pairs.items()}
    return (
        *(learned(f"{name}: the one that acts", acting) for name, (acting, _) in pairs.items()),
        Comparison(f"scores: {small_beside}", "64 keeps pace", said[small_beside], apart[small_beside] <= ALIKE),
        Comparison(f"scores: {large_beside}", "2,048 fails", said[large_beside], apart[large_beside] > ALIKE),
        Comparison(f"scores: {equal}", "match", said[equal], abs(apart[equal]) <= ALIKE),
    )


def _update_rules(found: SuiteResult) -> Sequence[Comparison]:
    norms = {
        (rule, what): [found.median(update_rule(rule, batch), f"{what}_l2_fc0") for batch in UPDATE_RULE_BATCHES]
        for rule in UPDATE_RULES
        for what in ("parameters", "gradients", "steps")
    }
    said = {key: ", ".join(f"{norm:.3g}" for norm in of) for key, of in norms.items()}
    sizes = f"minibatches of {', '.join(f'{batch:,}' for batch in UPDATE_RULE_BATCHES)}"
    apart = {rule: max(norms[rule, "parameters"]) / min(norms[rule, "parameters"]) for rule in UPDATE_RULES}
    cases = [update_rule(rule, batch) for rule in UPDATE_RULES for batch in UPDATE_RULE_BATCHES]
    return (
        *(learned(case, found.median(case)) for case in cases),
        *(
            Comparison(
                f"norm of gradients, {rule}, {sizes}",
                "larger minibatches, smaller gradients",
                said[rule, "gradients"],
                norms[rule, "gradients"] == sorted(norms[rule, "gradients"], reverse=True),
            )
            for rule in UPDATE_RULES
        ),
        Comparison(
            f"norm of steps, Adam, {sizes}",
            "significantly bigger with larger minibatches",
            said["Adam", "steps"],
            norms["Adam", "steps"][-1] >= LARGER * norms["Adam", "steps"][0],
        ),
        Comparison(
            f"largest norm of weights over the smallest, Adam at one rate, {sizes}",
            "fairly tight",
            f"{apart['Adam']:.2f}, tight is {TIGHT:.2f}",
            apart["Adam"] <= TIGHT,
        ),
        Comparison(
            "the same of Adam, and of RMSProp",
            "tight unlike RMSProp's (section 5.4)",
            f"{apart['Adam']:.2f} and {apart['RMSProp']:.2f}",
            apart["RMSProp"] >= LARGER * apart["Adam"],
        ),
    )


def _pong(found: SuiteResult) -> Sequence[Comparison]:
    took = [math.inf if minutes is None else float(minutes) for minutes in found.report["minutes_to_score"]]
    slowest = f"{max(took):.1f}" if max(took) < math.inf else "not reached"
    return (
        number(f"minutes to {MASTERED:g}", PONG_MINUTES, median(took), "{:.1f}"),
        Comparison("minutes that the slowest run needed", "under 10", slowest, max(took) < PHASE_MINUTES),
    )


def _policy_gradients(found: SuiteResult) -> Sequence[Comparison]:
    minutes = float(found.report["minutes"])
    return [
        learned(f"{name}, after {minutes:.1f} minutes", found.median(name, "after_minutes"))
        for name in POLICY_GRADIENTS
    ]


def _hours(table: Mapping[str, System], found: SuiteResult) -> Sequence[Comparison]:
    """Compare how much faster two learners are than one, in a table that has the hours of both."""
    return [
        number(
            f"times faster with two learners: {name}",
            alone / together,
            found.median(f"{name}, 2 learners") / found.median(f"{name}, 1 learner"),
        )
        for name, system in table.items()
        if found.has(f"{name}, 1 learner", f"{name}, 2 learners")
        and (alone := system.paper_hours[0])
        and (together := system.paper_hours[1])
    ]


CLAIMS = (
    Claim(
        name="accelerated-sampling",
        paper=PAPER,
        part="figure 2 and table 1",
        says="Simulators in step, several environments to a core, keep some 80 % of the speed that they have without "
        "inference; without a barrier they are a little faster.",
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
        says="A2C learns as well with many environments where the learning rate grows with the root of the batch; a "
        "gradual decay in efficiency remains.",
        suite="a2c-environments",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs=f"{IN_SMALL}, 16 to 256 environments and 300,000 steps in place of 16 to 512 and 50 million; Adam at "
        "the topology's rate",
        compare=_a2c,
    ),
    Claim(
        name="accelerated-a3c",
        paper=PAPER,
        part="figure 3, upper",
        says="Asynchronous learners of 16 environments learn as well after as many steps of all, whatever their "
        "number, with no number changed.",
        suite="a3c-learners",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs=f"{IN_SMALL}, 1 to 4 learners on shared cores and 300,000 steps in place of 1 to 32 and 50 million",
        compare=_a3c,
    ),
    Claim(
        name="accelerated-ppo",
        paper=PAPER,
        part="figure 3, lower",
        says="PPO learns nearly as well with 8 to 512 environments whose rollouts shrink so that the batch stays "
        "2,048.",
        suite="ppo-environments",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs=f"{IN_SMALL}, 300,000 steps in place of 50 million",
        compare=_ppo,
    ),
    Claim(
        name="accelerated-dqn-batches",
        paper=PAPER,
        part="figure 4",
        says="DQN learns as well with minibatches of 512 as with 32, as many samples being learned from for each step.",
        suite="dqn-batches",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs=f"{IN_SMALL}, 120,000 steps in place of 50 million; scores of training games",
        compare=_dqn,
    ),
    Claim(
        name="accelerated-policy-gradients",
        paper=PAPER,
        part="figure 5",
        says="A2C, A3C, PPO and APPO of several learners each learn a game within ten minutes.",
        suite="policy-gradients",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs=f"{IN_SMALL}, two learners of 4 environments on shared cores and 300,000 steps in place of eight GPUs "
        "and Atari games; Catch is learned in seconds, so that the paper's ten minutes say little of it",
        compare=_policy_gradients,
    ),
    Claim(
        name="accelerated-pong",
        paper=PAPER,
        part="figure 5, section 5.5",
        says="The first, steep phase of Pong is over in less than ten minutes; PPO masters it in four.",
        suite="pong",
        whole=Extent(3, 600.0),
        quick=Extent(1, 600.0),
        differs="two cores, screens of 44x44 and PPO tuned for them in place of eight GPUs, 40 cores and the paper's "
        "numbers",
        compare=_pong,
    ),
    Claim(
        name="accelerated-update-rules",
        paper=PAPER,
        part="figure 9",
        says="Larger minibatches have smaller gradients; Adam makes larger steps with them and keeps norms of weights "
        "together at one learning rate, RMSProp does not.",
        suite="update-rules",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs=f"{IN_SMALL}, its first layer and DQN in place of FC-0 of Categorical DQN on Q*bert; 80,000 steps; "
        "one rate, also of RMSProp, so that scores differ, where the paper keeps them alike",
        compare=_update_rules,
    ),
    Claim(
        name="accelerated-secondary",
        paper=PAPER,
        part="figures 6 and 8",
        says="A second DQN that learns from the replay of the one that acts keeps pace with smaller "
        "minibatches, fails with much larger ones, and matches it with as large ones.",
        suite="secondary-learner",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs=f"{IN_SMALL}, 120,000 steps in place of 50 million of Breakout; rates grow with the root of the "
        "minibatch",
        compare=_secondary,
    ),
    Claim(
        name="accelerated-learners",
        paper=PAPER,
        part="table 2",
        says="Two learners are 1.7 times as fast as one.",
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
        suite="learners-dqn",
        whole=Extent(3, 20.0),
        quick=Extent(1, 20.0),
        differs="learners share the cores of one machine without a GPU; in the paper each has a GPU and five cores",
        compare=partial(_hours, TABLE_3),
    ),
)
