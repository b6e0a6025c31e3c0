"""The definition of a metric: its unit, its meaning, how learners' values are merged, and how it is displayed.

Metrics that only one algorithm reports are defined in its spec (``metrics`` of an ``AlgorithmSpec``), all others in
``metrics/registry.py``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The period to which a metric's value refers."""

    COUNTER = "counter"
    """A total since the run began, never negative. The total of a learner that has left still counts."""
    RATE = "rate"
    """Per second since the previous report. The rate of a learner that no longer reports does not count."""
    GAUGE = "gauge"
    """The value at the newest optimizer step, or a value computed over the time since the previous report."""


class Merge(StrEnum):
    """Rule by which the values of several learners become one of the run."""

    SUM = "sum"
    MEAN = "mean"
    MAX = "largest"
    FIRST = "first learner's"
    """The first learner's value, because all learners report the same value, or because values have no mean."""


class Form(StrEnum):
    """How a value is displayed."""

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
    """Label of the value on a screen; "": the name, with spaces for underscores."""
    kind: Kind = Kind.GAUGE
    merge: Merge = Merge.MEAN
    weight: str = ""
    """Name of the metric by which learners are weighted in the mean; "": all learners have the same weight."""
    form: Form = Form.NUMBER
    learning: bool = False
    """Whether the metric describes learning: terms of the loss, norms, learning rate."""
    per_learner: bool = False
    """Whether the reports of a run with several learners also have the value of each."""
    by_pair: bool = False
    """Whether the metric's value is a mapping {"0-1": number} with an entry for each pair of learners."""
    text: bool = False
    """Whether the metric's value is a list of words."""

    @property
    def shown_as(self) -> str:
        """Label of the metric's value on a screen."""
        return self.label or self.name.replace("_", " ")
