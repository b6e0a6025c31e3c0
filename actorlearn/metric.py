"""The definition of one metric: its unit, what it says, how learners' values merge, how it is shown.

Those of metrics that one algorithm alone reports stand in its spec (``metrics`` of an ``AlgorithmSpec``), all others in
``metrics/registry.py``. Imports nothing.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Relation of a value to time."""

    COUNTER = "counter"
    """A total since the run began, never negative; that of a learner that has left goes on counting."""
    RATE = "rate"
    """Per second since the report before; that of a learner that has fallen silent is 0."""
    GAUGE = "gauge"
    """Value of the newest optimizer step, or of the time since the report before."""


class Merge(StrEnum):
    """Rule by which the values of several learners become one of the run."""

    SUM = "sum"
    MEAN = "mean"
    MAX = "largest"
    FIRST = "first learner's"
    """The first learner's value: all would say the same, or no mean can be taken of it."""


class Form(StrEnum):
    """Form in which a value is written for people."""

    WHOLE = "whole"
    NUMBER = "three digits"
    PERCENT = "percent"
    DURATION = "hours, minutes, seconds"


@dataclass(frozen=True, slots=True)
class Metric:
    """Definition of one metric."""

    name: str
    unit: str
    description: str
    _: KW_ONLY
    label: str = ""
    """Beside the value on a screen; "": the name in words."""
    kind: Kind = Kind.GAUGE
    merge: Merge = Merge.MEAN
    weight: str = ""
    """Metric by which a mean is weighted; "": all learners weigh the same."""
    most_weight: float = 0.0
    """A weight above it counts as this."""
    form: Form = Form.NUMBER
    learning: bool = False
    """Whether it is among the numbers that say how learning goes: terms of the loss, norms, learning rate."""
    per_learner: bool = False
    """Whether a merged row also has it of each learner."""
    by_pair: bool = False
    """Whether its value is no number but a mapping {"0-1": number}, of each two learners."""

    text: bool = False
    """Whether its value is no number but a list of words."""

    @property
    def shown_as(self) -> str:
        """Words beside its value on a screen."""
        return self.label or self.name.replace("_", " ")
