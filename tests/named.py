"""Settings as topologies write them: keys beside a name, or beside an environment's id, read by whoever's they are."""

from __future__ import annotations

from typing import Any

import msgspec

from actorlearn.algorithms.settings import ALGORITHMS
from actorlearn.envs.specs import ENVIRONMENTS
from actorlearn.models.specs import MODELS
from actorlearn.optim.specs import OPTIMIZERS


def algorithm(name: str = "a2c", **keys: Any) -> Any:
    return msgspec.convert(keys, ALGORITHMS.spec(name).settings)


def model(name: str = "nips", **keys: Any) -> Any:
    return msgspec.convert(keys, MODELS.spec(name).settings)


def optimizer(name: str = "rmsprop", **keys: Any) -> Any:
    return msgspec.convert(keys, OPTIMIZERS.spec(name).settings)


def env(id: str, **keys: Any) -> Any:
    settings = ENVIRONMENTS.of(id).settings
    if "action_mask" in settings.__struct_fields__:  # as the plan of a run writes it: no game begins to find out
        keys = {"action_mask": "none"} | keys
    return msgspec.convert({"id": id, **keys}, settings)
