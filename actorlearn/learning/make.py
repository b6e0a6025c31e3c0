"""Makes a learner from a trainer's settings, and configures torch for it; used by trainers and measurements.

Reads and writes only the segments that the settings name.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import torch

from actorlearn.algorithms.interface import Algorithm
from actorlearn.algorithms.make import extra_networks
from actorlearn.algorithms.make import make as make_algorithm
from actorlearn.algorithms.settings import OffPolicySettings, OnPolicySettings
from actorlearn.learning.minibatches import Epochs
from actorlearn.learning.network import Network
from actorlearn.learning.replay import Replayed
from actorlearn.learning.secondary import Secondary
from actorlearn.learning.target import Target
from actorlearn.learning.update import Learning
from actorlearn.memory.account import Account
from actorlearn.memory.shared import Segment
from actorlearn.models.make import make as make_model
from actorlearn.models.make import set_layout
from actorlearn.optim.schedules import for_batches
from actorlearn.parameters.interface import Position
from actorlearn.parameters.published import open_publisher
from actorlearn.replay.buffer import Replay
from actorlearn.replay.nstep import NStep
from actorlearn.replay.rows import PRIORITIES
from actorlearn.replay.samplers import Prioritised, Sampler, Uniform
from actorlearn.replay.settings import ReplaySettings
from actorlearn.worker.passes import ComputePool
from actorlearn.worker.settings import TrainerReplay, TrainerSettings

Beat = Callable[[], object]


def make(
    settings: TrainerSettings,
    account: Account | None = None,
    beat: Beat = lambda: None,
) -> Learning:
    """Make the settings' learner; ``account`` gives its position, ``beat`` records a sign of life.

    Call it before anything else that computes: it configures torch for the whole process.
    """
    _choose_how_to_compute()
    position = _position_in(account) if account is not None else Position
    match settings.policy.algorithm, settings.replay:
        case OnPolicySettings() as algorithm, None:
            made = make_algorithm(algorithm)
            network = make_network(settings, made)
            epochs = Epochs(made, network, algorithm.epochs, algorithm.minibatches, settings.seed)
            return Learning(settings, made, network, epochs, settings.optimizer, position, beat)
        case OffPolicySettings() as algorithm, TrainerReplay() as stored:
            replay = open_replay(stored, algorithm)
            secondary = None
            if stored.settings.secondary_batch_size:
                secondary = _secondary(settings, algorithm, stored, replay, beat)
            return _replaying(settings, algorithm, stored.settings, replay, position, beat, secondary)
        case algorithm, stored:
            raise TypeError(
                f"algorithm.name: {algorithm.name!r} learns from {'' if stored is None else 'no '}replay, and there is "
                f"{'none' if stored is None else 'one'}; its spec says which (actorlearn/algorithms/settings.py)"
            )


def _position_in(account: Account) -> Callable[[], Position]:
    """Return a function that returns a learner's position by its account."""
    return lambda: Position(account.rollouts_learned, account.steps.used)


def make_network(settings: TrainerSettings, algorithm: Algorithm) -> Network:
    """Make the network that learns, weights drawn from the seed."""
    policy, cpu = settings.policy, settings.device == "cpu"
    module = make_model(
        policy.model,
        policy.observation_shape,
        policy.observation_dtype,
        algorithm.heads(policy.actions),
        settings.seed,
        extra_networks(algorithm, policy.actions),
    ).to(settings.device)
    set_layout(module, settings.layout)
    return Network(module, ComputePool(settings.threads if cpu else 1), settings.precision, settings.compile)


def _replaying(
    settings: TrainerSettings,
    algorithm: OffPolicySettings,
    numbers: ReplaySettings,
    replay: Replay,
    position: Callable[[], Position],
    beat: Beat,
    secondary: Secondary | None = None,
    beside: bool = False,
) -> Learning:
    """Make a learner of minibatches drawn from this replay: with a secondary, or as one, ``beside`` another."""
    made = make_algorithm(algorithm)
    network = make_network(settings, made)
    target = Target(network, algorithm.target, settings.rollout_steps)
    replayed = Replayed(settings, numbers, replay, made, network, target, beat, beside)
    optimizer = for_batches(settings.optimizer, numbers.batches, settings.rate_scaling)
    return Learning(settings, made, network, replayed, optimizer, position, beat, secondary)


def _secondary(
    settings: TrainerSettings, algorithm: OffPolicySettings, stored: TrainerReplay, replay: Replay, beat: Beat
) -> Secondary:
    """Make the secondary learner: same initial weights and replay, minibatches of its own size and random numbers."""
    primary = stored.settings
    numbers = msgspec.structs.replace(
        primary,
        batch_size=primary.secondary_batch_size,
        base_batch_size=primary.base_batch_size or primary.batch_size,
        save=False,  # the primary does
    )
    learning = _replaying(settings, algorithm, numbers, replay, Position, beat, beside=True)
    assert stored.secondary is not None  # with batches of its own it publishes weights of its own
    return Secondary(learning, open_publisher(stored.secondary))


def open_replay(replay: TrainerReplay, algorithm: OffPolicySettings) -> Replay:
    """Open a learner's replay and recover its state."""
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

    Several cores share out a pass (``worker/passes.py``), not an operation. An optimizer's memory of dead units decays
    into denormal numbers, which are slow: ``docs/decisions.md`` has the measurement.
    """
    torch.set_flush_denormal(True)
    torch.set_num_threads(1)
