"""Keys, ranges and defaults of what the package adds, read before any of it is made. Does not import torch."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from actorlearn.algorithms.settings import AlgorithmSpec
from actorlearn.algorithms.specs.actor_critic import VECTOR, ActorCriticSettings
from actorlearn.envs.specs import EnvironmentSpec, EnvSettings
from actorlearn.metric import Metric
from actorlearn.models.specs import EncoderSettings, ModelSpec


class FourierSettings(EncoderSettings, frozen=True, kw_only=True, tag="fourier"):
    """Keys of ``model`` with ``name: fourier``, besides those of every encoder."""

    frequencies: Annotated[int, Meta(ge=1, le=4_096, description="waves; each gives a sine and a cosine")] = 32
    scale: Annotated[float, Meta(gt=0, le=100, description="standard deviation of the initial frequencies")] = 3.0


class AWRSettings(ActorCriticSettings, frozen=True, kw_only=True, tag="awr"):
    """Keys of ``algorithm`` with ``name: awr``, besides those of every actor-critic."""

    temperature: Annotated[
        float,
        Meta(gt=0, le=1_000, description="temperature of the weights; with a small one only the best actions count"),
    ] = 0.3
    weight_clip: Annotated[float, Meta(gt=0, le=1_000_000, description="largest weight of a transition")] = 20.0


class CorridorsSettings(EnvSettings, frozen=True, kw_only=True, tag="corridors"):
    """Keys of ``env`` with an id that begins with corridors/, besides ``id`` and ``time_limit_steps``."""

    length: Annotated[int, Meta(ge=1, le=1_000, description="steps from the middle to a door")] = 6
    slip: Annotated[float, Meta(ge=0, lt=1, description="probability that a step goes the other way")] = 0.1


FOURIER = ModelSpec(name="fourier", settings=FourierSettings, made_by="actorlearn_corridor.network:Fourier")
AWR = AlgorithmSpec(
    name="awr",
    settings=AWRSettings,
    made_by="actorlearn_corridor.algorithm:AWR",
    metrics=(Metric("weight_mean", "", "mean weight of an action", learning=True),),
    defaults={"atari": {}, "vector": VECTOR},
)
CORRIDORS = EnvironmentSpec(
    name="corridors",
    settings=CorridorsSettings,
    made_by="actorlearn_corridor.many",
    prefix="corridors/",
    example="corridors/v0",
    environments=64,
)
