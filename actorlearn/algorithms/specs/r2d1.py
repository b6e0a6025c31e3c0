"""Spec of R2D1: its keys, with the numbers of R2D2 (Kapturowski et al. 2019) and rlpyt's R2D1.

Differences of the Atari defaults from the paper, with the numbers of rlpyt (``configs/atari/dqn/atari_r2d1.py``):

    number               here                   paper              rlpyt
    batch_size           32                     64                 32
    ratio                1.0                    0.8                2.7 (4, burn-in counted)
    target_every_steps   50,000                 2,500 updates      2,500 updates
    capacity_steps       1,000,000              4,000,000          1,000,000, or 4,000,000
    epsilon              1 -> .0007 … .4        .0007 … .4         1 -> .0005 … .05, or .1
                         in 1,000,000 steps     from the start     in 1,000,000 steps
    clip_norm            80                     not given          80

2,500 updates would be 6,400,000 agent steps here, so a run on one machine would update its target network only a few
times.

``algorithms/r2d1.py`` lists the differences in the network, in sequences and in the priorities of new sequences.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from actorlearn.algorithms.settings import AlgorithmSpec, Share
from actorlearn.algorithms.specs.q_learning import ATARI, OPTIMIZERS, VECTOR, QSettings


class R2D1Settings(QSettings, frozen=True, kw_only=True, tag="r2d1"):
    """Keys of recurrent replay DQN; the keys of its sequences are in the section ``replay``."""

    rescale_epsilon: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(
            description="e in the value rescaling h(x) = sign(x) (sqrt(|x| + 1) - 1) + e x; null = values are not "
            "rescaled"
        ),
    ] = 1e-3  # Kapturowski et al. 2019; 1e-2 in Pohlen et al. 2018, who introduced h
    priority_eta: Annotated[
        Share,
        Meta(
            description="weight of the largest error of a sequence in its priority; the mean error has the "
            "remaining weight"
        ),
    ] = 0.9


SEQUENCES = {"prioritised": True, "alpha": 0.9, "beta": 0.6, "beta_final": 0.6, "ratio": 1.0}

SPEC = AlgorithmSpec(
    name="r2d1",
    settings=R2D1Settings,
    made_by="actorlearn.algorithms.r2d1:R2D1",
    replayed=True,
    sequences=True,
    defaults={
        "atari": ATARI
        | {
            "model": ATARI["model"] | {"recurrence": "lstm", "recurrent_size": 512},
            "algorithm": ATARI["algorithm"]
            | {
                "horizon": 20,
                "discount": 0.997,
                "reward_clip": None,
                "life_loss_terminal": False,
                "double": True,
                "dueling": True,
                "n_step": 5,
                "target_every_steps": 50_000,
                "epsilon_final": 0.4,
                "epsilon_final_min": 0.0007,
                "epsilon_eval": 0.001,
            },
            "replay": {
                **SEQUENCES,
                "sequence_steps": 80,
                "burn_in_steps": 40,
                "sequence_every": 40,
                "learning_starts_steps": 100_000,
            },
            "optimizer": {"name": "adam"},
        },
        "vector": {
            **VECTOR,
            "model": {"recurrence": "lstm"},
            "algorithm": {**VECTOR["algorithm"], "double": True},
            "replay": {
                **VECTOR["replay"],
                **SEQUENCES,
                "sequence_steps": 20,
                "burn_in_steps": 10,
                "sequence_every": 10,
                "ratio": 4.0,
            },
        },
    },
    optimizers={
        **OPTIMIZERS,
        "atari": OPTIMIZERS["atari"]
        | {"adam": {"learning_rate": 1e-4, "schedule": "constant", "epsilon": 1e-3, "clip_norm": 80.0}},
    },
)
