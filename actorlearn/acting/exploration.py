"""Epsilon-greedy exploration, and the seeds from which all random numbers of acting are drawn.

Both depend only on the run's seed and on the position in the run, so checkpoints need not save any state of them.
Algorithms that draw actions from a distribution, and networks with noise (``models/noisy.py``), explore without
epsilon-greedy.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from actorlearn.actions import Actions, MultiDiscrete, describe_actions
from actorlearn.algorithms.settings import AlgorithmSettings, EpsilonSchedule
from actorlearn.memory.rollout import Rollouts, RowsAsked


def mix(seed: int, moment: int) -> int:
    """Return a 32-bit seed for the random numbers of one time step: a hash of both arguments (splitmix64)."""
    z = (seed * 0x9E3779B97F4A7C15 + moment + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return (z ^ (z >> 31)) & 0xFFFFFFFF


class EpsilonGreedy:
    """Replaces actions by uniform random ones with probability epsilon (Mnih et al. 2015)."""

    def __init__(self, schedule: EpsilonSchedule, actions: int | tuple[int, ...]) -> None:
        """``actions``: a number of discrete actions, or the shape of a Box with numbers from -1 to 1."""
        self._schedule, self._actions = schedule, actions

    def epsilon(self, env_steps: int, environment: Tensor, environments: int) -> Tensor:
        """Return epsilon [N] after ``env_steps`` steps, for environments with numbers [N] in [0, environments).

        Epsilon is linear in the agent steps of all environments. With ``final_min`` the final values are log-spaced
        over the environments, as in rlpyt, so that some continue to explore.
        """
        s = self._schedule
        gone = min(max(env_steps - s.hold_steps, 0) / s.steps, 1.0)
        final = torch.full(environment.shape, s.final)
        if s.final_min is not None:
            place = environment.to(final) / max(environments - 1, 1)
            final = s.final_min ** (1.0 - place) * s.final**place
        return s.initial * (1.0 - gone) + final * gone

    def epsilon_of(self, asked: Sequence[RowsAsked], rollouts: Rollouts, environments: int) -> Tensor:
        """Return epsilon [N] for environments that wait for an action; ``environments`` is the number of all.

        The step count is that at the beginning of the environment's rollout, plus ``environments`` for each earlier
        time step of the rollout.
        """
        parts = []
        for blocks, group, timestep in asked:
            rollout, t = divmod(timestep, blocks.horizon)
            first = (blocks.number * blocks.groups + group) * blocks.envs_per_group
            numbers = torch.arange(first, first + blocks.envs_per_group) % environments  # wraps for attached simulators
            parts.append(self.epsilon(rollouts.env_steps(rollout) + t * environments, numbers, environments))
        return torch.cat(parts)

    def explore(
        self,
        action: Tensor,
        generator: torch.Generator,
        epsilon: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Replace each of the actions [N, …] by a random one with probability ``epsilon`` [N], and return them.

        If ``epsilon`` is None, the value for evaluations is used. With masks ``mask`` [N, n] only valid actions are
        drawn (``observation_parts.py``).
        """
        share = self._schedule.evaluation if epsilon is None else epsilon.to(action.device)
        # Both are drawn for all rows, so that a row's random numbers do not depend on other rows.
        explores = torch.rand(len(action), generator=generator, device=action.device) < share  # never at 0, always at 1
        if mask is not None:
            scores = torch.rand(mask.shape, generator=generator, device=action.device)
            random = scores.masked_fill(mask == 0, -1.0).argmax(-1)
        elif isinstance(self._actions, int):
            random = torch.randint(self._actions, action.shape, generator=generator, device=action.device)
        else:
            random = torch.empty_like(action).uniform_(-1.0, 1.0, generator=generator)
        return torch.where(explores.view(-1, *[1] * (action.ndim - 1)), random, action)


def make(settings: AlgorithmSettings, actions: Actions) -> EpsilonGreedy | None:
    """Make the epsilon-greedy exploration of an algorithm; None if the algorithm explores in another way.

    Raises ValueError for actions with several parts (MultiDiscrete).
    """
    schedule = settings.exploration
    if schedule is None:
        return None
    if isinstance(actions, MultiDiscrete):
        raise ValueError(
            f"algorithm.name: {settings.name!r} explores by random actions of a Discrete or Box space, but this "
            f"environment's actions are {describe_actions(actions)}; use an algorithm that samples its actions, "
            "such as a2c"
        )
    return EpsilonGreedy(schedule, actions)
