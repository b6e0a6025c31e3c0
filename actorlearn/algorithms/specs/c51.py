"""Spec of C51: its keys, with the numbers of Bellemare et al. 2017."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from actorlearn.algorithms.settings import AlgorithmSpec
from actorlearn.algorithms.specs.q_learning import ATARI, OPTIMIZERS, VECTOR, QSettings


class C51Settings(QSettings, frozen=True, kw_only=True, tag="c51"):
    """Keys of categorical DQN."""

    atoms: Annotated[int, Meta(ge=2, le=1_000, description="number of atoms of the distribution of returns")] = 51
    value_min: Annotated[
        float,
        Meta(
            ge=-1_000_000,
            le=1_000_000,
            description="smallest return in the distribution, as a discounted sum of clipped rewards",
        ),
    ] = -10.0
    value_max: Annotated[
        float,
        Meta(
            ge=-1_000_000,
            le=1_000_000,
            description="largest return in the distribution, as a discounted sum of clipped rewards",
        ),
    ] = 10.0

    def __post_init__(self) -> None:
        if self.value_max <= self.value_min:
            raise ValueError(f"algorithm.value_max: {self.value_max!r} must be above value_min, {self.value_min}")
        super().__post_init__()


SPEC = AlgorithmSpec(
    name="c51",
    settings=C51Settings,
    made_by="actorlearn.algorithms.c51:C51",
    replayed=True,
    defaults={
        "atari": ATARI
        | {
            "algorithm": ATARI["algorithm"] | {"epsilon_final": 0.01, "epsilon_eval": 0.001},
            "optimizer": {"name": "adam"},
        },
        "vector": VECTOR,
    },
    optimizers=OPTIMIZERS,
)
