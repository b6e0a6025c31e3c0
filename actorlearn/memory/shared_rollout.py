"""A rollout of some environments as one message between learners: its layout, and the check of a received one.

A message is an array of float32 numbers, so that the versioned slots of published weights can hold it and readers never
see half of it (``parameters/published.py``). Its bytes are the columns of a block, for the chosen environments:

==================  ===================================  ===========================================================
column              shape                                meaning
==================  ===================================  ===========================================================
environments        [1]                                  number of environments whose rows the message has
policy_lag          [T + 1, E]                           updates that the acting weights were behind their learner
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
"""Columns of one message by name."""


def message_fields(shape: BlockShape, environments: int) -> list[Field]:
    """Return the fields of a message with rows of at most ``environments`` environments, from blocks of this shape."""
    rows = (shape.groups, shape.blocks, shape.horizon + 1)
    columns = [field for field in block_fields(shape) if field.shape[:3] == rows]
    return [Field("environments", "int64", (1,)), *(_of_environments(field, environments) for field in columns)]


def _of_environments(field: Field, environments: int) -> Field:
    rows = 1 if field.name == "state" else field.shape[2]
    name = "policy_lag" if field.name == "policy_version" else field.name  # versions have no meaning to other learners
    return msgspec.structs.replace(field, name=name, shape=(rows, environments, *field.shape[4:]))


class SharedRollout:
    """One message, to be filled and sent, or received."""

    def __init__(self, fields: list[Field]) -> None:
        self._fields = fields
        self.numbers = np.zeros(message_size(fields), np.float32)
        """The message as it is sent."""
        self._columns = views(self.numbers, fields)

    def add(self, rows: Columns) -> None:
        """Add the rows of n environments; each column is [T + 1, n, …]."""
        begin = int(self._columns["environments"][0])
        end = begin + rows["first"].shape[1]
        for name, column in rows.items():
            into = self._columns[name]
            into[:, begin:end] = column[: len(into)]
        self._columns["environments"][0] = end

    @property
    def rows(self) -> Columns:
        """Columns of the environments added so far, [T + 1, n, …] each."""
        count = int(self._columns["environments"][0])
        return {name: column[:, :count] for name, column in self._columns.items() if column.ndim > 1}

    @property
    def usable(self) -> bool:
        """Whether there are rows, and all numbers that a learner reads are finite; observations are not checked.

        The action of row T and the columns that belong to it are not known yet, and the reward of row 0 is not read.
        """
        rows = self.rows
        read = {"reward": slice(1, None), "observation": slice(0), "state": slice(None)}
        floats = [column[read.get(name, slice(-1))] for name, column in rows.items() if column.dtype.kind == "f"]
        return bool(rows["first"].size) and all(bool(np.isfinite(column).all()) for column in floats)


def message_size(fields: list[Field]) -> int:
    """Return the length of a message with these fields, in float32 numbers."""
    return layout(fields)[1] // np.dtype(np.float32).itemsize
