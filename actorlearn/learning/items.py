"""Converts samples of a replay to the batches that algorithms learn from: of transitions, or of sequences with burn-in.

The burn-in consists of the first rows of a sequence. From these rows only the state of a recurrent network is computed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actorlearn.algorithms.interface import Batch
from actorlearn.models.interface import Outputs
from actorlearn.replay.buffer import Sample
from actorlearn.worker.passes import FlatNetwork
from actorlearn.worker.staging import Staging


def batch_of(sample: Sample, weight: NDArray[np.float32], staging: Staging) -> Batch:
    """Return a replay's sample of B transitions or sequences as a batch on the device.

    The batch has the columns "discount", "reached" and "weight", each [L, B] for sequences of L transitions, and
    "state" [1, B, S] if the replay stores states (``replay/buffer.py``). Algorithms multiply the errors of item b by
    ``weight[b]``.
    """
    fields = {name: getattr(sample, name) for name in ("observation", "action", "reward", "first", "valid")}
    columns: dict[str, NDArray[Any]] = {"discount": sample.discount, "reached": sample.reached, "weight": weight[None]}
    if sample.state.shape[1]:
        columns["state"] = sample.state[None]
    staged = staging.join({name: [array] for name, array in {**fields, **columns}.items()}, 0)
    staged["weight"] = staged["weight"].expand_as(staged["valid"])
    return Batch.plain(**{name: staged[name] for name in fields}, columns={name: staged[name] for name in columns})


def following_outputs(batch: Batch, network: FlatNetwork, burn_in: int) -> Outputs:
    """Return the network's outputs for next observations, for target values: {head: [R - burn_in - 1, B, size]}.

    The batch has R time steps, of which the first ``burn_in`` are not learned from. The outputs begin with the second
    step after the burn-in. A recurrent network passes over all R steps.
    """
    rows = slice(burn_in + 1, None)
    if not network.state_size:
        return network.passes.forward(batch.observation[rows])[0]
    outputs, _ = network.passes.forward(batch.observation, batch.columns["state"][0], batch.first)
    return {name: output[rows] for name, output in outputs.items()}


def without_burn_in(batch: Batch, network: FlatNetwork, burn_in: int) -> Batch:
    """Return a batch without its burn-in steps, with the recurrent state after them.

    The state is computed by a pass over the burn-in, from the stored state, which older weights have computed. It is
    therefore closer to the state of the present weights (Kapturowski et al. 2019, section 3).
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
