"""Makes the part of a trainer that learns (`Learning`) from the trainer's settings, and configures torch for it.

Used by trainers, and by measurements of their speed (``tasks/measure.py``).
"""

from __future__ import annotations

import torch

from actorlearn.algorithms.interface import Algorithm
from actorlearn.algorithms.make import extra_networks
from actorlearn.algorithms.make import make as make_algorithm
from actorlearn.algorithms.settings import OffPolicySettings, OnPolicySettings
from actorlearn.learning.minibatches import Epochs
from actorlearn.learning.replay import Replayed, open_replay
from actorlearn.learning.secondary import LearningWithSecondary
from actorlearn.learning.update import Learning
from actorlearn.models.make import make as make_model
from actorlearn.models.make import set_layout
from actorlearn.optim.schedules import for_batches
from actorlearn.optim.specs import OptimizerSettings
from actorlearn.parameters.published import Published
from actorlearn.replay.buffer import Replay
from actorlearn.replay.settings import ReplaySettings
from actorlearn.worker.passes import ComputePool, FlatNetwork
from actorlearn.worker.settings import TrainerReplay, TrainerSettings
from actorlearn.worker.worker import Worker


def make(settings: TrainerSettings, worker: Worker | None = None) -> Learning:
    """Make a trainer's `Learning` from its settings, and configure torch for the whole process.

    Call it before any computation. ``worker`` is this process, which receives the list of the other learners from the
    supervisor; with None it learns alone. Raises TypeError if the algorithm needs a replay and there is none, or the
    reverse.
    """
    _choose_how_to_compute()
    match settings.policy.algorithm, settings.replay:
        case OnPolicySettings() as algorithm, None:
            made = make_algorithm(algorithm)
            network = make_network(settings, made)
            epochs = Epochs(made, network, algorithm.epochs, algorithm.minibatches, settings.seed)
            return Learning(settings, made, network, epochs, settings.optimizer, worker)
        case OffPolicySettings() as algorithm, TrainerReplay() as stored:
            replay, numbers = open_replay(stored, algorithm), stored.settings
            parts = _replaying(settings, numbers, replay, worker)
            if stored.secondary is None or not numbers.secondary_batch_size:
                return Learning(*parts, worker)
            secondary = Learning(*_replaying(settings, numbers.of_secondary(), replay, worker, secondary=True))
            published = Published.open(stored.secondary)
            return LearningWithSecondary(*parts, worker, secondary=secondary, published=published)
        case algorithm, stored:
            raise TypeError(
                f"algorithm.name: {algorithm.name!r} needs {'a' if stored is None else 'no'} replay, but the settings "
                f"have {'none' if stored is None else 'one'}; AlgorithmSpec.replayed says whether it needs one "
                "(actorlearn/algorithms/settings.py)"
            )


def make_network(settings: TrainerSettings, algorithm: Algorithm) -> FlatNetwork:
    """Make the network that learns, with random weights drawn from the seed."""
    policy, cpu = settings.policy, settings.device == "cpu"
    module = make_model(
        policy.model,
        policy.observation_shape,
        policy.observation_dtype,
        algorithm.heads(policy.actions),
        settings.seed,
        extra_networks(algorithm, policy.actions),
        policy.action_mask,
    ).to(settings.device)
    set_layout(module, settings.layout)
    return FlatNetwork(module, ComputePool(settings.threads if cpu else 1), settings.precision, settings.compile)


def _replaying(
    settings: TrainerSettings, numbers: ReplaySettings, replay: Replay, worker: Worker | None, secondary: bool = False
) -> tuple[TrainerSettings, Algorithm, FlatNetwork, Replayed, OptimizerSettings]:
    """Return the arguments of a `Learning` that draws its minibatches from this replay."""
    made = make_algorithm(settings.policy.algorithm)
    network, beat = make_network(settings, made), worker.poll if worker else lambda: True
    replayed = Replayed(settings, numbers, replay, made, network, beat, secondary)
    optimizer = for_batches(settings.optimizer, numbers.batches, settings.rate_scaling)
    return settings, made, network, replayed, optimizer


def _choose_how_to_compute() -> None:
    """Let torch use one thread and flush denormal numbers to zero; threads that are started later inherit both.

    One thread suffices, because whole passes are divided among the cores, and not single operations
    (``worker/passes.py``). Denormal numbers arise in the optimizer's state for dead units, and computing with them is
    slow (measured in ``docs/decisions.md``).
    """
    torch.set_flush_denormal(True)
    torch.set_num_threads(1)
