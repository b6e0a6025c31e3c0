"""The layout of a message by which a learner shares the rollout of some of its environments with other learners.

A message is an array of float32 numbers, because it travels through the same versioned slots of shared memory as
published weights (``parameters/published.py``), so readers never see a half-written message. The bytes of these numbers
are columns of a block, for the E chosen environments; T is the horizon and S the size of a recurrent network's state:

==================  ===================================  ===========================================================
column              shape                                meaning
==================  ===================================  ===========================================================
environments        [1]                                  number of environments in the message
policy_lag          [T + 1, E]                           updates by which the acting weights were older than those of
                                                         the learner that sends
state               [1, E, S], recurrent networks only   state before row 0
all others          [T + 1, E, …]                        as in the block (``memory/rollout.py``)
==================  ===================================  ===========================================================
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from actorlearn.memory.fields import Field, layout, views
from actorlearn.memory.rollout import BlockShape, block_fields

Columns = dict[str, NDArray[Any]]
"""Columns of a message by name."""


def message_fields(shape: BlockShape, environments: int) -> list[Field]:
    """Return the layout of a message with the rollouts of at most ``environments`` environments."""
    rows = (shape.groups, shape.blocks, shape.horizon + 1)
    columns = [field for field in block_fields(shape) if field.shape[:3] == rows]
    return [Field("environments", "int64", (1,)), *(_of_environments(field, environments) for field in columns)]


def _of_environments(field: Field, environments: int) -> Field:
    rows = 1 if field.name == "state" else field.shape[2]
    name = "policy_lag" if field.name == "policy_version" else field.name  # versions have no meaning to other learners
    return msgspec.structs.replace(field, name=name, shape=(rows, environments, *field.shape[4:]))


class SharedRollout:
    """A message with rollouts of some environments: `add` fills one to be sent, ``numbers`` holds a received one."""

    def __init__(self, fields: list[Field]) -> None:
        self._fields = fields
        self.numbers = np.zeros(message_size(fields), np.float32)
        """The message as it is sent."""
        self._columns = views(self.numbers, fields)

    def add(self, rows: Columns) -> None:
        """Add a rollout of n environments; each column is [T + 1, n, …]."""
        begin = int(self._columns["environments"][0])
        end = begin + rows["first"].shape[1]
        for name, column in rows.items():
            into = self._columns[name]
            into[:, begin:end] = column[: len(into)]
        self._columns["environments"][0] = end

    @property
    def rows(self) -> Columns:
        """Columns of all environments in the message, [T + 1, n, …] each."""
        count = int(self._columns["environments"][0])
        return {name: column[:, :count] for name, column in self._columns.items() if column.ndim > 1}

    @property
    def usable(self) -> bool:
        """Whether the message has environments, and all numbers that a learner reads are finite, except observations.

        Learners do not read the reward of time step 0, nor the action of step T and the other columns of this action.
        """
        rows = self.rows
        read = {"reward": slice(1, None), "observation": slice(0), "state": slice(None)}
        floats = [column[read.get(name, slice(-1))] for name, column in rows.items() if column.dtype.kind == "f"]
        return bool(rows["first"].size) and all(bool(np.isfinite(column).all()) for column in floats)


def message_size(fields: list[Field]) -> int:
    """Return the length of a message with this layout, in float32 numbers."""
    return layout(fields)[1] // np.dtype(np.float32).itemsize
