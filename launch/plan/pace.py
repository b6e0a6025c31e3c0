"""Choices for a slow environment: more simulators and shorter rollouts; also the expected time between updates.

The trial of a topology measures whether its environment is slow (``actorlearn/tasks/rehearse.py``). For other
environments there is no estimate, and nothing is chosen: their defaults never depend on measured times.
"""

from __future__ import annotations

import math

from actorlearn.algorithms.settings import OnPolicySettings
from launch.machine.cores import Cores
from launch.plan.auto import Choice
from launch.plan.probe import Description
from launch.reports.format import as_rate, as_span
from launch.topology.defaults import BY_STEP_TIME
from launch.topology.load import Topology

COUNT, ENVS = "simulators.count", "simulators.envs"
MOST_SIMULATORS = 16
"""Most simulators of a learner that are chosen for a slow environment: one for each environment of the defaults."""
LONG_S = 15.0
"""Time between updates from which rollouts are made shorter: a user who sees no update for so long stops the run."""
LEAST_HORIZON = 16
"""Shortest horizon that is chosen: the shortest of the default horizons for environments that are not Atari games."""
LEAST_STEPS = 256
"""Fewest steps of an update that are chosen: the steps of one minibatch in the defaults of PPO."""


def steps_per_s(topology: Topology, step_s: float, cores: float) -> float:
    """Return the expected steps per second of all simulators of a learner.

    ``step_s``: seconds of a step of the environment. A step keeps a core busy: more simulators than cores add nothing.
    """
    simulators = min(topology.simulators.count, max(1.0, cores / topology.learners_of_a_node))
    return simulators / step_s


def update_s(topology: Topology, step_s: float, cores: float) -> float:
    """Return the expected time, in seconds, in which a learner's simulators make the steps of an update."""
    return _steps(topology) / steps_per_s(topology, step_s, cores)


def more_simulators(topology: Topology, description: Description, cores: Cores) -> list[Choice]:
    """Return the number of simulators, and of environments in each, for a slow environment; empty for others.

    The defaults have few simulators, for environments whose steps are cheap; a simulator of a slow environment keeps a
    core busy. The number of environments in all stays as it is, so that the run learns from the same batches. Keys that
    the user has set are kept. If the default is one simulator for each core already, only its reason is replaced.
    """
    simulators, here = topology.simulators, topology.learners_of_a_node
    if not description.step_s or {COUNT, ENVS} & topology.written:
        return []
    whole, environments = simulators.groups * description.agents, simulators.environments
    most = min(math.ceil(cores.usable) // here, MOST_SIMULATORS)
    powers = [number for number in (1, 2, 4, 8, 16) if number <= max(most, 1)]
    fitting = [number for number in powers if environments % (number * whole) == 0]
    on = f"{cores}, shared by {here} learners" if here > 1 else str(cores)
    why = (
        f"a step of this environment takes {1000 * description.step_s:.0f} ms, so the run has one "
        f"simulator for each core, rounded down to a power of two and at most {MOST_SIMULATORS}; the "
        f"machine has {on}"
    )
    if max(fitting, default=0) <= simulators.count:  # the default, which has another reason for other environments
        return [Choice(COUNT, simulators.count, why)] if simulators.count == powers[-1] else []
    divided = f"{environments} environments in all are divided among the simulators"
    return [Choice(COUNT, fitting[-1], why), Choice(ENVS, environments // fitting[-1], divided)]


def shorter_rollouts(topology: Topology, description: Description, cores: float) -> list[Choice]:
    """Return a shorter horizon and fewer minibatches for a slow environment; empty if there is no reason for them.

    They are chosen only if the user has set none of the keys in BY_STEP_TIME. Both are divided by the same number, so
    that the size of a minibatch, and the optimizer steps per step of the environment, stay as in the defaults. The
    rollouts of recurrent networks are not changed, because they are the sequences from which these networks learn.
    """
    algorithm, step_s = topology.algorithm, description.step_s
    if not step_s or BY_STEP_TIME & topology.written or description.state_size:
        return []
    before_s = update_s(topology, step_s, cores)
    if before_s <= LONG_S or not isinstance(algorithm, OnPolicySettings):
        return []
    horizon, parts = algorithm.horizon, algorithm.minibatches
    for divisor in range(parts, 1, -1):
        shorter = horizon // divisor
        if horizon % divisor or parts % divisor or shorter < LEAST_HORIZON or _steps(topology) // divisor < LEAST_STEPS:
            continue
        slow = f"a step of this environment takes {1000 * step_s:.0f} ms, and with the default horizon, {horizon}, an"
        why = (
            f"{slow} update would come only every {as_span(before_s)}; now one comes every "
            f"{as_span(before_s / divisor)}; write algorithm.horizon to choose it yourself"
        )
        whole = (
            f"rollouts are shorter, and {parts} minibatches of each rollout would be smaller than with the "
            "default horizon"
        )
        return [
            Choice("algorithm.horizon", shorter, why),
            Choice("algorithm.minibatches", parts // divisor, whole),
        ]
    return []


def expectation(topology: Topology, step_s: float, cores: float) -> str:
    """Return in words how often an update is expected with a slow environment; empty for other environments."""
    if not step_s:
        return ""
    every, rate = as_span(update_s(topology, step_s, cores)), as_rate(steps_per_s(topology, step_s, cores))
    return f"about every {every}: {_steps(topology):,} steps at about {rate} steps/s"


def warning(topology: Topology, step_s: float, cores: float) -> str:
    """Return a warning if updates are far apart because the environment is slow; else empty."""
    if not step_s or update_s(topology, step_s, cores) <= LONG_S:
        return ""
    said = f"an update comes {expectation(topology, step_s, cores)}"
    return (
        f"algorithm.horizon: {topology.algorithm.horizon}: {said}; for more frequent updates, lower "
        "algorithm.horizon or simulators.envs"
    )


def _steps(topology: Topology) -> int:
    return topology.algorithm.horizon * topology.simulators.environments
