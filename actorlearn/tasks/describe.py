"""A task that describes an environment, a network and an algorithm to the supervisor, which plans a run.

The supervisor imports neither torch nor the user's classes, so this task runs in a process of its own. It returns the
shapes of observations, the space of actions, the arrays of a rollout, and the number of weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import fields
from typing import Any

import msgspec
import numpy as np
import torch

from actorlearn.algorithms.make import extra_networks
from actorlearn.algorithms.make import make as make_algorithm
from actorlearn.algorithms.settings import AlgorithmSpec
from actorlearn.algorithms.state import declared_by
from actorlearn.envs.interface import EnvSpec, Row, VectorEnv, empty_row
from actorlearn.envs.make import make as make_env
from actorlearn.exceptions import in_one_line, place_of
from actorlearn.models.make import make as make_model
from actorlearn.models.several import spans
from actorlearn.models.specs import ModelSpec
from actorlearn.optim.groups import GroupedOptimizer, make_groups
from actorlearn.optim.interface import make as make_optimizer
from actorlearn.optim.specs import OptimizerSpec
from actorlearn.parameters.modes import MODES
from actorlearn.registry import PlugIn
from actorlearn.tasks.rehearse import (
    Rehearsal,
    RehearsedPart,
    blaming,
    check_columns,
    check_extra_networks,
    check_heads,
)
from actorlearn.worker.passes import ComputePool, FlatNetwork
from actorlearn.worker.roles import ROLES
from actorlearn.worker.settings import DescribeSettings

SEED = 0
COMPARED_STEPS = 8
"""Number of steps over which an environment is compared with another one that was restored from its state."""


def run(settings: DescribeSettings) -> dict[str, Any]:
    """Check the devices, then call `describe`; raises ValueError with a reason."""
    check_devices(settings.devices)
    return describe(settings)


def describe(settings: DescribeSettings) -> dict[str, Any]:
    """Make environment, algorithm and network, try them in a few steps (``tasks/rehearse.py``), and describe them.

    Raises ValueError if one of them cannot be made or does not fit the others.
    """
    for spec_of, key, names in ((MODES.spec, "mode", [settings.mode]), (ROLES.spec, "roles", settings.roles)):
        for name in names:
            found: PlugIn = spec_of(name)
            with blaming(RehearsedPart(key, name, found.described_in or "docs/plugins.md"), "cannot be used"):
                found.load()
    parts = {
        "env": RehearsedPart(
            "env.id", settings.env.id, "gymnasium.Env (or, for another kind, actorlearn/envs/interface.py)"
        ),
        "model": RehearsedPart("model.name", settings.model.name, ModelSpec.described_in),
        "algorithm": RehearsedPart("algorithm.name", settings.algorithm.name, AlgorithmSpec.described_in),
        "optimizer": RehearsedPart("optimizer.name", settings.optimizer.name, OptimizerSpec.described_in),
    }
    with blaming(parts["env"], "cannot be made"):
        env = make_env(settings.env, [SEED])
        spec = env.spec
        if not isinstance(spec, EnvSpec):
            raise ValueError(f"its spec is {spec!r:.100}; it must be an EnvSpec")
    with blaming(parts["algorithm"], "cannot be made"):
        algorithm = make_algorithm(settings.algorithm)
        heads = algorithm.heads(spec.actions)
        check_heads(heads)
        columns = algorithm.columns(spec.actions)
        check_columns(columns)
        others = extra_networks(algorithm, spec.actions)
        check_extra_networks(others)
    with blaming(parts["model"], "cannot be made"):
        shape, dtype = spec.observation_shape, spec.observation_dtype
        module = make_model(settings.model, shape, dtype, heads, SEED, others, spec.action_mask)
        network = FlatNetwork(module, ComputePool(), "fp32", compiled=False)
    with blaming(parts["optimizer"], "cannot take a step"):
        groups = make_groups(settings.optimizer, spans(module), network.parameters.numel())
        optimizer = GroupedOptimizer(make_optimizer, groups, network.parameters)
        optimizer.step(network.parameters, network.gradients, [0.0] * len(groups))
        optimizer.restore(optimizer.state())
    rehearsal = Rehearsal(settings.algorithm, parts, env, algorithm, network)
    hidden = rehearsal.run()
    inexact, unverified = spec.inexact, ""
    if not inexact and rehearsal.step_s:
        unverified = "the environment is slow, so no restored game was compared with the original"
    elif not inexact:
        try:
            other = make_env(settings.env, [SEED + 1])
        except (Exception, SystemExit) as error:  # it may exist only once, because of a port or a licence
            unverified = f"a second environment cannot be made: {in_one_line(error)}{place_of(error)}"
        else:
            with blaming(parts["env"], "cannot be compared with a restored one"), closing(other):
                inexact = difference_after_restore(env, other)
    with blaming(parts["env"], "cannot be closed"):
        env.close()
    weights, parameters = network.weights.numel(), network.parameters.numel()
    return {
        **msgspec.to_builtins(spec),
        "columns": {name: [dtype, list(shape)] for name, (dtype, shape) in columns.items()},
        "weights": weights,
        "statistics": weights - parameters,
        "tensors": {
            part: {name: list(tensor.shape) for name, tensor in tensors.items()}
            for part, tensors in (
                ("weights", module.state_dict()),
                ("optimizer", optimizer.state()),
                ("algorithm", declared_by(algorithm)),
            )
        },
        "state_size": network.state_size,
        "inexact": inexact,
        "unverified": unverified,
        "algorithm_inexact": hidden,
        "step_s": rehearsal.step_s,
    }


def check_devices(devices: Mapping[str, str]) -> None:
    """Raise ValueError for a device that this machine or this build of torch does not have."""
    for key, device in devices.items():
        index = torch.device(device).index or 0
        if torch.device(device).type == "cuda" and torch.cuda.device_count() <= index:
            found = torch.cuda.device_count()
            raise ValueError(
                f"{key}: there is no device {device!r}: torch {torch.__version__} finds {found} GPU(s); set it to cpu"
            )


def difference_after_restore(env: VectorEnv, other: VectorEnv) -> str:
    """Restore ``other`` from the state of ``env``, step both with equal actions, and return how they differ.

    The result is empty if they do not differ. ``env`` must have been reset, and must claim that its state is complete
    (``spec.inexact`` is empty). ``other`` has the same settings and other seeds. Exceptions of ``env.step`` are raised.
    """
    try:
        state = {name: array.copy() for name, array in env.state().items()}
    except Exception as error:  # a user's environment may raise anything
        return f"its state cannot be saved: {in_one_line(error)}{place_of(error)}"
    try:
        other.restore(state)
    except Exception as error:
        return f"its state cannot be restored: {in_one_line(error)}{place_of(error)}"
    row, other_row = empty_row(env.spec, env.count), empty_row(env.spec, env.count)
    random = np.random.default_rng(0)
    for step in range(1, COMPARED_STEPS + 1):
        actions = env.random_actions(random)
        env.step(actions.copy(), row)
        try:
            other.step(actions.copy(), other_row)
        except Exception as error:
            return f"once restored, it cannot take a step: {in_one_line(error)}{place_of(error)}"
        if differing := _differing(row, other_row):
            return (
                f"an environment that was restored from its state plays another game: {differing} differs after "
                f"{step} steps; state() has to return all that determines the next rows"
            )
    return ""


def _differing(row: Row, other: Row) -> str:
    """Return the name of the first array in which two time steps differ; empty if they are equal."""
    for column in fields(row):
        if not np.array_equal(getattr(row, column.name), getattr(other, column.name)):
            return column.name
    return ""
