"""Converts items of a replay to the batches that algorithms learn from: transitions, and sequences with burn-in.

Reads: samples, and a recurrent network's passes. Writes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.models.interface import Outputs
from actorlearn.replay.buffer import Sample
from actorlearn.worker.passes import FlatNetwork
from actorlearn.worker.staging import Staging


def batch_of(sample: Sample, weight: NDArray[np.float32], staging: Staging) -> Batch:
    """Return a sample of B items as a batch for algorithms; ``weight`` [B] multiplies each item's errors.

    The batch has the columns "discount", "reached" and "weight", each [L, B] for sequences of L transitions, and
    "state" [1, B, S] if the replay stores states. ``actorlearn/replay/buffer.py`` describes them.
    """

    def stage(name: str, array: NDArray[Any]) -> Tensor:
        return staging.join(name, [array], 0)

    valid = stage("valid", sample.valid)
    columns = {
        "discount": stage("discount", sample.discount),
        "reached": stage("reached", sample.reached),
        "weight": stage("weight", weight[None]).expand_as(valid),
    }
    if sample.state.shape[1]:
        columns["state"] = stage("state", sample.state[None])
    return Batch.plain(
        observation=stage("observation", sample.observation),
        action=stage("action", sample.action),
        reward=stage("reward", sample.reward),
        first=stage("first", sample.first),
        valid=valid,
        columns=columns,
    )


def following_outputs(batch: Batch, network: FlatNetwork, burn_in: int) -> Outputs:
    """Return outputs {head: [R - burn_in - 1, B, size]} for the rows after the first row that is learned from.

    A network with memory also passes over all rows before these.
    """
    rows = slice(burn_in + 1, None)
    if not network.state_size:
        return network.passes.forward(batch.observation[rows])[0]
    outputs, _ = network.passes.forward(batch.observation, batch.columns["state"][0], batch.first)
    return {name: output[rows] for name, output in outputs.items()}


def without_burn_in(batch: Batch, network: FlatNetwork, burn_in: int) -> Batch:
    """Return the batch without the rows of its burn-in, and with the state that the network computes from these rows.

    The stored state was computed by older weights; the new state is closer to that of the present weights (Kapturowski
    et al. 2019, section 3).
    """
    if not burn_in:
        return batch
    columns = {name: column[burn_in:] for name, column in batch.columns.items() if name != "state"}
    columns["reached"] = columns["reached"] - burn_in
    if network.state_size:
        _, state = network.passes.forward(batch.observation[:burn_in], batch.columns["state"][0], batch.first[:burn_in])
        assert state is not None
        columns["state"] = state[None]
    rows = {name: getattr(batch, name)[burn_in:] for name in Batch.__slots__ if name != "columns"}
    return replace(batch, **rows, columns=columns)
