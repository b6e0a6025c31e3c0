"""Batches with consistent episode boundaries, written as words or drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from hypothesis import strategies as st
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.policies import heads
from actorlearn.algorithms.specs.ppo import PPOSettings

# What happened on arrival. "reset" is the transition whose action was ignored; a game's end is followed by one.
GO, LIFE, TERMINATED, TRUNCATED, BOTH, RESET = "go", "life", "terminated", "truncated", "both", "reset"
ENDS = (TERMINATED, TRUNCATED, BOTH)


def batch_of(*environments: Sequence[str], seed: int = 0, actions: int | tuple[int, ...] = 3) -> Batch:
    """Build a batch from one row of words per environment; rewards (0 on a reset), actions and columns are random."""
    generator = torch.Generator().manual_seed(seed)
    horizon, count = len(environments[0]), len(environments)

    def where(*words: str) -> Tensor:
        return torch.tensor([[environment[t] in words for environment in environments] for t in range(horizon)])

    valid = ~where(RESET)
    if isinstance(actions, int):
        action = torch.randint(actions, (horizon, count), generator=generator)
    else:
        action = torch.randn((horizon, count, *actions), generator=generator)
    columns = {name: torch.randn(horizon, count, generator=generator) for name in ("log_prob", "value")}
    return Batch(
        observation=torch.zeros(horizon + 1, count, 1),
        action=action,
        reward=torch.randn(horizon, count, generator=generator).mul(2.0).where(valid, 0.0),
        terminated=where(TERMINATED, BOTH),
        truncated=where(TRUNCATED, BOTH),
        life_lost=where(LIFE),
        first=torch.cat([torch.zeros(1, count, dtype=torch.bool), ~valid]),
        valid=valid,
        policy_lag=torch.randint(10, (horizon, count), generator=generator) // 3,
        columns=columns,
    )


def random_outputs(batch: Batch, seed: int = 0, more_rows: int = 1) -> dict[str, Tensor]:
    """Draw float64 network outputs that require a gradient, with this many rows more than transitions."""
    generator = torch.Generator().manual_seed(seed)
    rows, count = batch.valid.shape[0] + more_rows, batch.valid.shape[1]
    sizes = heads(3 if batch.action.ndim == 2 else tuple(batch.action.shape[2:]))
    return {
        name: torch.randn(rows, count, size, generator=generator, dtype=torch.float64).requires_grad_()
        for name, size in {**sizes, "value": 1}.items()
    }


def rows_of(batch: Batch, start: int, stop: int) -> Batch:
    """Cut transitions [start, stop) out of a batch."""
    longer = {name: getattr(batch, name)[start : stop + 1] for name in ("observation", "first")}
    cut = {name: getattr(batch, name)[start:stop] for name in batch.__slots__ if name not in (*longer, "columns")}
    return replace(batch, **longer, **cut, columns={name: c[start:stop] for name, c in batch.columns.items()})


@st.composite
def batches(draw: st.DrawFn, actions: tuple[int | tuple[int, ...], ...] = (3, (2,))) -> Batch:
    """Draw any batch that the environments can produce, of discrete or of Box actions."""
    horizon = draw(st.integers(1, 7))
    environments = []
    for _ in range(draw(st.integers(1, 3))):
        words: list[str] = []
        resetting = draw(st.booleans())
        for _ in range(horizon):
            words.append(RESET if resetting else draw(st.sampled_from((GO, GO, GO, LIFE, *ENDS))))
            resetting = words[-1] in ENDS
        environments.append(words)
    return batch_of(*environments, seed=draw(st.integers(0, 1000)), actions=draw(st.sampled_from(actions)))


class EveryKey(PPOSettings, frozen=True, kw_only=True, tag="every"):
    """The keys of a2c, ppo, impala and vaco, so that one example may be each one's."""

    rho_clip: float = 1.0
    c_clip: float = 1.0
    variation_limit: float = 0.2
    return_steps: int | None = None


settings_of_all_kinds = st.builds(
    EveryKey,
    discount=st.sampled_from((0.0, 0.9, 1.0)),
    entropy_cost=st.sampled_from((0.0, 0.1)),
    entropy_cost_final=st.sampled_from((0.0, 0.1)),
    value_cost=st.sampled_from((0.25, 1.0)),
    loss_scale=st.sampled_from((1.0, 5.0)),
    reduction=st.sampled_from(("mean", "sum")),
    gae_lambda=st.sampled_from((0.0, 0.9, 1.0)),
    value_clip=st.sampled_from((None, 0.3)),
    normalize_advantage=st.booleans(),
    proximal=st.sampled_from(("behaviour", "recomputed", "interpolated")),
    weight_clip=st.sampled_from((None, 0.9)),
    advantages=st.sampled_from(("recorded", "vtrace")),
    variation_limit=st.sampled_from((0.2, 5.0)),
    rho_clip=st.sampled_from((0.8, 1.0, 2.0)),
    c_clip=st.sampled_from((0.7, 1.0)),
    reward_clip=st.sampled_from((None, 0.5, 1.0)),
    life_loss_terminal=st.booleans(),
    bootstrap_on_truncation=st.booleans(),
)
