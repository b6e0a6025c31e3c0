"""Spec of DQN: its keys, with the numbers of Mnih et al. 2015."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from actorlearn.algorithms.settings import AlgorithmSpec
from actorlearn.algorithms.specs.q_learning import ATARI, OPTIMIZERS, VECTOR, QSettings


class DQNSettings(QSettings, frozen=True, kw_only=True, tag="dqn"):
    """Keys of deep Q-networks."""

    huber_delta: Annotated[
        float,
        Meta(
            gt=0, le=1_000_000, description="error beyond which the loss is linear; priorities are also clipped to it"
        ),
    ] = 1.0


SPEC = AlgorithmSpec(
    name="dqn",
    settings=DQNSettings,
    made_by="actorlearn.algorithms.dqn:DQN",
    replayed=True,
    defaults={"atari": ATARI, "vector": VECTOR},
    optimizers=OPTIMIZERS,
)
