"""Makes a learner from a trainer's settings, and the process ready for it: one way, for trainers and measurements.

Reads and writes nothing but the segments that the settings name.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.learning.replay import ReplayLearning
from actorlearn.learning.secondary import WithSecondary
from actorlearn.learning.update import Learning
from actorlearn.memory.account import Account
from actorlearn.memory.shared import Segment
from actorlearn.parameters.interface import Place
from actorlearn.replay.buffer import Replay
from actorlearn.replay.nstep import NStep
from actorlearn.replay.rows import PRIORITIES
from actorlearn.replay.samplers import Prioritised, Sampler, Uniform
from actorlearn.worker.settings import TrainerReplay, TrainerSettings


def make(
    settings: TrainerSettings,
    account: Account | None = None,
    beat: Callable[[], object] = lambda: None,
) -> Learning:
    """Make the learner that the settings ask for; ``account`` says where it is, ``beat`` shows a sign of life.

    Called before anything else that computes: how it computes is chosen here, for the whole process.
    """
    _choose_how_to_compute()
    place = _place_in(account) if account is not None else Place
    replay = settings.replay
    if replay is None:
        return Learning(settings, place, beat)
    algorithm = settings.policy.algorithm
    if not isinstance(algorithm, OffPolicySettings):
        raise TypeError(f"algorithm.name: {algorithm.name!r} does not learn from a replay")
    opened = open_replay(replay, algorithm)
    if replay.settings.secondary_batch_size:
        return WithSecondary(settings, replay, opened, place, beat)
    return ReplayLearning(settings, replay.settings, opened, place, beat)


def _place_in(account: Account) -> Callable[[], Place]:
    """Say, whenever asked, how far a learner is by its account."""
    return lambda: Place(account.rollouts_learned, account.counts.used)


def open_replay(replay: TrainerReplay, algorithm: OffPolicySettings) -> Replay:
    """Take up a learner's replay as it was left."""
    segment = Segment.open(replay.segment.file)
    cells = replay.shape.rings * replay.shape.rows
    sampler: Sampler = Uniform(cells)
    if replay.settings.prioritised:
        tree, largest = (segment[name] for name in PRIORITIES)
        sampler = Prioritised(cells, replay.settings.alpha, None, (tree, largest))
    returns = NStep(
        steps=algorithm.n_step,
        discount=algorithm.discount,
        reward_clip=algorithm.reward_clip,
        life_loss_terminal=algorithm.life_loss_terminal,
        bootstrap_on_truncation=algorithm.bootstrap_on_truncation,
    )
    opened = Replay(segment, replay.shape, returns, sampler)
    opened.recover()
    return opened


def _choose_how_to_compute() -> None:
    """Give torch one thread and have it flush denormal numbers to zero; threads that are started later inherit it.

    What several cores share out is a pass (``worker/passes.py``), not an operation.

    What an optimizer remembers of dead units decays into numbers too small to be normal, whose roots take 30 times as
    long: half of Adam's squares after 125,000 updates of Pong by DQN. Here they are zeros.
    """
    torch.set_flush_denormal(True)
    torch.set_num_threads(1)
