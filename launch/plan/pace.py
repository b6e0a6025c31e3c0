"""The pace of a slow environment: more simulators, the expected time between updates, and shorter rollouts.

An environment is slow if its rehearsal has found so (``actorlearn/tasks/rehearse.py``). For all others there is no
estimate, and nothing is chosen: their defaults never depend on time.
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
"""Most simulators of a learner that are chosen for a slow environment: its default number of environments."""
LONG_S = 15.0
"""Time between updates from which rollouts are made shorter: a user who sees no update for so long stops the run."""
LEAST_HORIZON = 16
"""Shortest horizon that is chosen: the shortest of the default horizons for environments that are not Atari games."""
LEAST_STEPS = 256
"""Fewest steps of an update that are chosen: the steps of one minibatch in the defaults of PPO."""


def steps_per_s(topology: Topology, step_s: float, cores: float) -> float:
    """Return the steps per second of one learner's simulators, each of which needs a core."""
    simulators = min(topology.simulators.count, max(1.0, cores / topology.learners_of_a_node))
    return simulators / step_s


def update_s(topology: Topology, step_s: float, cores: float) -> float:
    """Return the expected time in which a learner's simulators make the steps of an update."""
    return _steps(topology) / steps_per_s(topology, step_s, cores)


def more_simulators(topology: Topology, description: Description, cores: Cores) -> list[Choice]:
    """Return the count of simulators and their environments for a slow environment; empty for others.

    The defaults have few simulators, for environments whose steps are cheap; a simulator of a slow environment keeps a
    core busy. The number of environments in all stays as it is, so that the run learns from the same batches. Keys that
    the user has set are kept.
    """
    simulators, here = topology.simulators, topology.learners_of_a_node
    if not description.step_s or COUNT not in topology.left_to_cores or ENVS in topology.written:
        return []
    whole, environments = simulators.groups * description.agents, simulators.environments
    most = min(math.ceil(cores.usable) // here, MOST_SIMULATORS)
    fitting = [number for number in (2, 4, 8, 16) if number <= most and environments % (number * whole) == 0]
    if max(fitting, default=0) <= simulators.count:
        return []
    on = f"{cores}, shared by {here} learners" if here > 1 else str(cores)
    why = (
        f"a step of this environment takes {1000 * description.step_s:.0f} ms, so it has one simulator for each "
        f"core, rounded down to a power of two and at most {MOST_SIMULATORS}; the machine has {on}"
    )
    divided = f"{environments} environments in all are divided among the simulators"
    return [Choice(COUNT, fitting[-1], why), Choice(ENVS, environments // fitting[-1], divided)]


def shorter_rollouts(topology: Topology, description: Description, cores: float) -> list[Choice]:
    """Return horizon and minibatches if the user has left both to slow steps; else an empty list.

    Both are divided by the same number, so that minibatches, and the optimizer steps for a step of the environment,
    stay as they are in the defaults. Rollouts of recurrent networks, the sequences that they learn from, are kept.
    """
    algorithm, step_s = topology.algorithm, description.step_s
    if not step_s or topology.left_to_step_time != BY_STEP_TIME or description.state_size:
        return []
    before_s = update_s(topology, step_s, cores)
    if before_s <= LONG_S or not isinstance(algorithm, OnPolicySettings):
        return []
    horizon, parts = algorithm.horizon, algorithm.minibatches
    for divisor in range(parts, 1, -1):
        shorter = horizon // divisor
        if horizon % divisor or parts % divisor or shorter < LEAST_HORIZON or _steps(topology) // divisor < LEAST_STEPS:
            continue
        slow = f"a step of this environment takes {1000 * step_s:.0f} ms, and with the default {horizon}"
        why = (
            f"{slow} an update would come only every {as_span(before_s)}; now one comes every "
            f"{as_span(before_s / divisor)}; write algorithm.horizon to choose it yourself"
        )
        whole = f"with {parts}, the minibatches of the shorter rollouts would be smaller than those of the defaults"
        return [
            Choice("algorithm.horizon", shorter, why),
            Choice("algorithm.minibatches", parts // divisor, whole),
        ]
    return []


def expectation(topology: Topology, step_s: float, cores: float) -> str:
    """Return how often a slow environment has made the steps of an update; empty for one that is not slow."""
    if not step_s:
        return ""
    every, rate = as_span(update_s(topology, step_s, cores)), as_rate(steps_per_s(topology, step_s, cores))
    return f"about every {every}: {_steps(topology):,} steps at about {rate} steps/s"


def warning(topology: Topology, step_s: float, cores: float) -> str:
    """Return a warning if updates are far apart because the environment is slow; else empty."""
    if not step_s or update_s(topology, step_s, cores) <= LONG_S:
        return ""
    said = f"an update comes {expectation(topology, step_s, cores)}"
    return f"algorithm.horizon: {topology.algorithm.horizon}: {said}; for earlier updates, lower it or simulators.envs"


def _steps(topology: Topology) -> int:
    return topology.algorithm.horizon * topology.simulators.environments
