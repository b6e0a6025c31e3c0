"""Answers what a plan needs to know of an environment and a network, so that the planner imports neither.

Reads its settings; prints one line of JSON: shapes, actions, columns and number of weights, or an error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import msgspec
import torch

from actorlearn.algorithms.make import make as make_algorithm
from actorlearn.envs.make import spec as env_spec
from actorlearn.models.make import flatten
from actorlearn.models.make import make as make_model
from actorlearn.models.unroll import state_size
from actorlearn.optim.make import make as make_optimizer
from actorlearn.worker.settings import DescribeSettings


def run(settings: DescribeSettings) -> None:
    """Build each part once and print what it is; exits 2 with ``{"error": …}`` when one cannot be built."""
    try:
        check_devices(settings.devices)
        spec = env_spec(settings.env)
        algorithm = make_algorithm(settings.algorithm)
        network = make_model(
            settings.model, spec.observation_shape, spec.observation_dtype, algorithm.heads(spec.actions), 0
        )
        weights, gradients = flatten(network)
        make_optimizer(settings.optimizer, weights[: gradients.numel()])
    except Exception as error:  # a user's environment or model may raise anything
        print(json.dumps({"error": " ".join(str(error).split()) or type(error).__name__}), flush=True)
        sys.exit(2)
    columns = {name: [dtype, list(shape)] for name, (dtype, shape) in algorithm.columns(spec.actions).items()}
    sizes = {"weights": weights.numel(), "statistics": weights.numel() - gradients.numel()}
    sizes["state_size"] = state_size(network)
    answer = {**msgspec.to_builtins(spec), "columns": columns, **sizes}
    print(json.dumps(answer), flush=True)


def check_devices(devices: Mapping[str, str]) -> None:
    """Refuse a device that this machine, or this build of torch, has not."""
    for key, device in devices.items():
        index = torch.device(device).index or 0
        if torch.device(device).type == "cuda" and torch.cuda.device_count() <= index:
            found = torch.cuda.device_count()
            raise ValueError(
                f"{key}: {device!r} is not there: torch {torch.__version__} sees {found} GPU(s); write cpu"
            )
