"""Describes an environment and a network for a plan, so that the planner imports neither.

Reads its settings; prints one line of JSON: shapes, actions, columns and number of weights, or an error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import msgspec
import torch

from actorlearn.algorithms.make import extra_networks
from actorlearn.algorithms.make import make as make_algorithm
from actorlearn.envs.interface import EnvSpec
from actorlearn.envs.make import spec as env_spec
from actorlearn.models.make import flatten
from actorlearn.models.make import make as make_model
from actorlearn.models.several import spans
from actorlearn.models.unroll import state_size
from actorlearn.optim.groups import GroupedOptimizer, make_groups
from actorlearn.optim.make import make as make_optimizer
from actorlearn.worker.settings import DescribeSettings

RULE = "a network returns one tensor per head (actorlearn/models/interface.py)"


def run(settings: DescribeSettings) -> None:
    """Build each part once and print its description; exits 2 with ``{"error": …}`` when one cannot be built."""
    try:
        check_devices(settings.devices)
        spec = env_spec(settings.env)
        algorithm = make_algorithm(settings.algorithm)
        heads = algorithm.heads(spec.actions)
        extra = extra_networks(algorithm, spec.actions)
        network = make_model(settings.model, spec.observation_shape, spec.observation_dtype, heads, 0, extra)
        check_outputs(network, spec, heads, settings.model.name)
        weights, gradients = flatten(network)
        groups = make_groups(settings.optimizer, spans(network), gradients.numel())
        GroupedOptimizer(make_optimizer, groups, weights[: gradients.numel()])
    except Exception as error:  # a user's environment or model may raise anything
        print(json.dumps({"error": " ".join(str(error).split()) or type(error).__name__}), flush=True)
        sys.exit(2)
    columns = {name: [dtype, list(shape)] for name, (dtype, shape) in algorithm.columns(spec.actions).items()}
    sizes = {"weights": weights.numel(), "statistics": weights.numel() - gradients.numel()}
    sizes["state_size"] = state_size(network)
    answer = {**msgspec.to_builtins(spec), "columns": columns, **sizes}
    print(json.dumps(answer), flush=True)


def check_outputs(network: Any, spec: EnvSpec, heads: Mapping[str, int], name: str) -> None:
    """Refuse a network that does not return float32 [N, size] for every head: it is shown one observation of zeros."""
    observation = torch.zeros(1, 1, *spec.observation_shape, dtype=getattr(torch, spec.observation_dtype))
    state, first = torch.zeros(1, state_size(network)), torch.ones(1, 1, dtype=torch.bool)
    with torch.no_grad():
        outputs = network(observation, state, first)[0] if state_size(network) else network(observation[0])
    if not isinstance(outputs, Mapping):
        raise ValueError(f"model.name: {name!r} returns {type(outputs).__name__}; {RULE}")
    rows = (1, 1) if state_size(network) else (1,)
    for head, size in heads.items():
        if head not in outputs:
            raise ValueError(f"model.name: {name!r} returns {', '.join(outputs) or 'nothing'} and no {head}; {RULE}")
        found = outputs[head]
        if (found.dtype, tuple(found.shape)) != (torch.float32, (*rows, size)):
            said = f"{found.dtype} {list(found.shape)}"
            raise ValueError(f"model.name: {name!r} returns {head} as {said}, not float32 {[*rows, size]}; {RULE}")


def check_devices(devices: Mapping[str, str]) -> None:
    """Refuse a device that this machine, or this build of torch, has not."""
    for key, device in devices.items():
        index = torch.device(device).index or 0
        if torch.device(device).type == "cuda" and torch.cuda.device_count() <= index:
            found = torch.cuda.device_count()
            raise ValueError(
                f"{key}: {device!r} is not there: torch {torch.__version__} sees {found} GPU(s); write cpu"
            )
