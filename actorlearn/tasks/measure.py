"""A task that measures the speed of one part of a run alone, in steps per second, with the code that runs use.

The parts are simulation, inference, learning, and the optimizer's step.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from actorlearn.actions import draw
from actorlearn.address import Shm
from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.envs.interface import empty_row
from actorlearn.envs.make import make as make_env
from actorlearn.envs.make import spec as describe_env
from actorlearn.memory.shared import Segment, reserve, segment_bytes
from actorlearn.optim.specs import OptimizerSettings
from actorlearn.replay.rows import replay_fields
from actorlearn.worker.settings import MeasureSettings, TrainerReplay

if TYPE_CHECKING:
    from torch import Tensor

POOL_BYTES = 64 * 1024**2
"""Bytes of the observations with which inference is measured: more than fit into a processor's cache, as in a run."""
MOST_BATCHES = 4096
"""Largest number of different batches of observations with which inference is measured."""
REPLAYED = 4096
"""Smallest number of transitions in the replay with which learning is measured."""
ROLLOUT = 20
"""Number of timesteps of the rollouts that are stored in that replay."""
_WARMUP_S = 1.0


def run(settings: MeasureSettings) -> dict[str, float]:
    """Measure one part; return its speed as {"steps_per_s": number}."""
    measure = {"simulate": simulate, "infer": infer, "learn": learn, "optimize": optimize}[settings.part]
    return {"steps_per_s": measure(settings)}


def simulate(settings: MeasureSettings) -> float:
    """Return the steps per second of one group of a simulator's environments with random actions."""
    games = settings.environments // describe_env(settings.simulator.env).agents
    env = make_env(settings.simulator.env, settings.simulator.env_seeds[:games])
    row = empty_row(env.spec, env.count)
    env.reset(row)
    random = np.random.default_rng(settings.simulator.seed)

    def once() -> None:
        env.step(env.random_actions(random), row)

    return measured(once, env.count, settings.seconds)


def infer(settings: MeasureSettings) -> float:
    """Return the observations per second for which a policy chooses actions, batch by batch."""
    import torch

    from actorlearn.acting.policy import Policy

    torch.set_num_threads(1)
    policy = Policy(
        settings.simulator.policy, settings.device, settings.simulator.seed, stream=0, threads=settings.threads
    )
    shape, dtype = settings.simulator.policy.observation_shape, settings.simulator.policy.observation_dtype
    state = torch.zeros(settings.environments, policy.state_size) if policy.state_size else None
    first = torch.zeros(settings.environments).bool() if policy.state_size else None
    batches = min(MOST_BATCHES, max(2, POOL_BYTES // observations(shape, dtype, (settings.environments,)).nbytes))
    pool = observations(shape, dtype, (batches, settings.environments))
    moment = 0

    def once() -> None:
        nonlocal moment
        chosen = policy.choose(pool[moment % batches], moment, False, state, first)
        for column in chosen.values():
            column.cpu()
        moment += 1

    return measured(once, settings.environments, settings.seconds)


def learn(settings: MeasureSettings) -> float:
    """Measure learning alone: environment steps per second, on random experience and with learning rate 0."""
    if settings.trainer.replay:
        return _learn_from_replay(settings, settings.trainer.replay)
    import torch

    from actorlearn.algorithms.interface import Batch
    from actorlearn.learning.make import make

    trainer = settings.trainer
    learning = make(msgspec.structs.replace(trainer, optimizer=ending_at_zero(trainer.optimizer)))
    horizon, environments = learning.algorithm_settings.horizon, settings.environments
    policy, shape, device = trainer.policy, (horizon, environments), trainer.device
    seen = observations(policy.observation_shape, policy.observation_dtype, (horizon + 1, environments))
    state = torch.zeros((1, environments, learning.network.state_size), device=device)
    batch = Batch.plain(
        observation=seen.to(device),
        action=torch.from_numpy(draw(policy.actions, shape, np.random.default_rng(0))).to(device),
        reward=torch.zeros(shape, device=device),
        columns={
            name: torch.zeros((*shape, *cell), dtype=getattr(torch, dtype)).to(device)
            for name, (dtype, cell) in learning.algorithm.columns(policy.actions).items()
        }
        | ({"state": state} if learning.network.state_size else {}),
    )
    end = trainer.total_steps  # at this step the learning rate is 0
    return measured(lambda: learning.learn(batch, end, 0), horizon * environments, settings.seconds)


def _learn_from_replay(settings: MeasureSettings, stored: TrainerReplay) -> float:
    """Return the environment steps per second that are learned from, with a small, full replay of random steps.

    A minibatch counts as its number of transitions divided by ``replay.ratio``: a run makes as many environment steps
    for each minibatch.
    """
    from actorlearn.learning.make import make
    from actorlearn.learning.replay import Replayed

    trainer, environments = settings.trainer, stored.shape.rings
    algorithm = trainer.policy.algorithm
    assert isinstance(algorithm, OffPolicySettings)
    items = stored.shape.length + stored.shape.every - 2  # rows of an item besides those of a transition
    least = ROLLOUT + 1 + stored.shape.stack + algorithm.n_step + items
    rollouts = -(-max(REPLAYED // environments, least) // ROLLOUT)
    shape = msgspec.structs.replace(stored.shape, size=rollouts * ROLLOUT, margin=ROLLOUT + 1)
    needed_bytes = segment_bytes(replay_fields(shape))
    with closing(reserve(f"alone-{os.getpid()}", needed_bytes, Path.cwd())) as folder:
        numbers = msgspec.structs.replace(stored.settings, secondary_batch_size=0)  # the acting learner is measured
        small = msgspec.structs.replace(stored, segment=Shm(str(folder.path / "replay")), shape=shape, settings=numbers)
        Segment.create(folder.path / "replay", replay_fields(shape)).close()
        learning = make(msgspec.structs.replace(trainer, optimizer=ending_at_zero(trainer.optimizer), replay=small))
        replayed = learning.minibatches
        assert isinstance(replayed, Replayed)
        policy, rows = trainer.policy, (ROLLOUT + 1, environments)
        no = np.zeros(rows, np.bool_)
        reached = observations(policy.observation_shape, policy.observation_dtype, rows[1:]).numpy()
        for rollout in range(rollouts):
            seen = observations(policy.observation_shape, policy.observation_dtype, rows).numpy()
            seen[0], reached = reached, seen[-1]
            block = {
                "observation": seen,
                "action": draw(policy.actions, rows, np.random.default_rng(0)),
                "reward": np.zeros(rows, np.float32),
                **dict.fromkeys(("terminated", "truncated", "life_lost", "first"), no),
                "state": np.zeros((*rows, stored.shape.state_size), np.float32),
            }
            replayed.replay.add("random", rollout, block)
            replayed.replay.flush()
        end = trainer.total_steps  # at this step the learning rate is 0
        steps = stored.settings.batch_steps / stored.settings.ratio
        return measured(lambda: learning.learn_from(replayed.draw_one(end), end), steps, settings.seconds)


def optimize(settings: MeasureSettings) -> float:
    """Return the optimizer steps per second, with a gradient of zeros and learning rate 0."""
    from actorlearn.algorithms.make import make as make_algorithm
    from actorlearn.learning.make import make_network
    from actorlearn.optim.interface import make as make_optimizer

    trainer = settings.trainer
    network = make_network(trainer, make_algorithm(trainer.policy.algorithm))
    optimizer = make_optimizer(trainer.optimizer, network.parameters, network.pool.spread)
    return measured(lambda: optimizer.step(network.parameters, network.gradients, 0.0), 1, settings.seconds)


def ending_at_zero(optimizer: OptimizerSettings) -> OptimizerSettings:
    """Return the optimizer's settings with a schedule whose learning rate is 0 at the last step of the run."""
    return msgspec.structs.replace(optimizer, learning_rate_final=0.0, schedule="linear", warmup_steps=0)


def observations(shape: tuple[int, ...], dtype: str, rows: tuple[int, ...]) -> Tensor:
    """Return random observations [*rows, *shape]: from 0 to 255 for uint8, otherwise from 0 to 1."""
    import torch

    if dtype == "uint8":
        return torch.randint(256, (*rows, *shape), dtype=torch.uint8)
    return torch.rand((*rows, *shape)).to(getattr(torch, dtype))


def measured(once: Callable[[], object], steps: float, seconds: float) -> float:
    """Call ``once``, which makes ``steps`` steps, repeatedly for ``seconds``, and return the steps per second.

    After a warm-up it prints "ready" and waits for a line on standard input, so that several processes can measure at
    the same time.
    """
    until_s = time.monotonic() + _WARMUP_S
    while time.monotonic() < until_s:
        once()
    print("ready", flush=True)
    sys.stdin.readline()
    calls, began_s = 0, time.monotonic()
    while (elapsed_s := time.monotonic() - began_s) < seconds:
        once()
        calls += 1
    return calls * steps / elapsed_s
