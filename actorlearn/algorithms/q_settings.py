"""Numbers of the value-based algorithms alone: exploration, targets, distributions. A base of `AlgorithmSettings`.

Reads and writes nothing; loads no torch. Forms the papers' code used:

    system                 double dueling n_step  epsilon            over agent steps  target_every_steps
    Nature DQN, fast-DQN   no     no      1       1 -> .1, eval .05     1,000,000            10,000
    accel_rl C51           no     no      1       1 -> .01, eval .001   1,000,000            10,000
    accel_rl eps-Rainbow   yes    yes     3       1 -> .01, eval .001      62,500             8,000
    Rainbow (noisy)        yes    yes     3       0                             -             8,000
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class QSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The defaults are Nature DQN's (Mnih et al. 2015) and, of distributions, C51's (Bellemare et al. 2017)."""

    double: bool = False  # the network chooses the action that the target network values (van Hasselt et al. 2016)
    dueling: bool = False  # heads of state value and advantage, added (Wang et al. 2016)
    n_step: int = 1  # agent steps whose rewards a return adds up before a value stands for the rest
    target_every_steps: int = 10_000  # agent steps between two copies of the network into the target network
    huber_delta: float = 1.0  # dqn: error beyond which the loss is linear; also the largest priority
    atoms: int = 51  # c51: values of a distribution
    value_min: float = -10.0  # c51: the smallest, in discounted clipped reward
    value_max: float = 10.0  # c51: the largest
    epsilon_initial: float = 1.0  # share of random actions, at first
    epsilon_final: float = 0.1  # reached in a straight line
    epsilon_final_min: float | None = None  # final one of environment 0; log-spaced up to the last's; null = all alike
    epsilon_hold_steps: int = 0  # agent steps at epsilon_initial, before the line begins
    epsilon_steps: int = 1_000_000  # agent steps of the line, in all environments together
    epsilon_eval: float = 0.05  # in evaluations that are not greedy

    def __post_init__(self) -> None:
        """Refuse numbers that make no target and no probability."""
        least, final = self.epsilon_final_min, self.epsilon_final
        rules = {
            "n_step": (self.n_step >= 1, "1 agent step or more"),
            "target_every_steps": (self.target_every_steps >= 1, "1 agent step or more"),
            "huber_delta": (self.huber_delta > 0.0, "above 0"),
            "atoms": (self.atoms >= 2, "2 or more"),
            "value_max": (self.value_max > self.value_min, f"above value_min, {self.value_min}"),
            "epsilon_initial": (0.0 <= self.epsilon_initial <= 1.0, "within [0, 1]"),
            "epsilon_final": (0.0 <= final <= 1.0, "within [0, 1]"),
            "epsilon_final_min": (least is None or 0.0 < least <= final, f"above 0 and at most {final}, or null"),
            "epsilon_hold_steps": (self.epsilon_hold_steps >= 0, "0 agent steps or more"),
            "epsilon_steps": (self.epsilon_steps >= 1, "1 agent step or more"),
            "epsilon_eval": (0.0 <= self.epsilon_eval <= 1.0, "within [0, 1]"),
        }
        check(self, rules)


def check(settings: msgspec.Struct, rules: Mapping[str, tuple[bool, str]]) -> None:
    """Refuse the first number of a topology's `algorithm` whose rule, {key: (holds, rule)}, does not hold."""
    for key, (holds, rule) in rules.items():
        if not holds:
            raise ValueError(f"algorithm.{key}: {getattr(settings, key)!r} must be {rule}")
