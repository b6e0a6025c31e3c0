"""The reference page of metrics, generated from their registry and the algorithms' specs."""

from __future__ import annotations

from actorlearn.algorithms.settings import ALGORITHMS
from actorlearn.metric import Kind, Merge, Metric
from actorlearn.metrics.registry import GROUPS, LEARNERS, OWN_RATE, SECONDARY
from actorlearn.registry import OURS
from docs.pages.markdown import table

_HEAD = f"""# Metrics

Columns of a run's `metrics.jsonl`, a row a report; TensorBoard has the same names over `env_steps`. `make pages`
generates this page from `actorlearn/metrics/registry.py` and the specs of algorithms.

* A **counter** is a total since the run began; that of a learner that has left goes on counting. A **rate** is per
  second since the report before; that of a learner that has fallen silent is 0. A **gauge** is of the newest optimizer
  step, or of the time since the report before.
* Of several learners a row has one number, merged as the table says; what is marked `*` also stands for each learner
  under `{LEARNERS}`. With one learner a row is what its trainer said.
* A name that is not here is a plug-in's. Its algorithm's spec may describe it (`metrics`); without that it is a gauge,
  of which learners are averaged, shown among the terms of the loss.
* `{SECONDARY}` before a name: the same of the secondary learner (`replay.secondary_batch_size`).
* `{OWN_RATE}` and a network's name: the learning rate of one that has its own (`optimizer.groups`).
* A row may lack a column, or have null in it: there was nothing to count, or the number was not finite.
"""


def page() -> str:
    """Return the page, in Markdown: a table for each group, and for each shipped algorithm with metrics of its own."""
    own = {
        entry.name: ALGORITHMS.spec(entry.name).metrics for entry in ALGORITHMS.entries() if entry.distribution == OURS
    }
    groups = GROUPS | {f"`algorithm.name: {name}`": metrics for name, metrics in own.items() if metrics}
    return _HEAD + "".join(_table(title, group) for title, group in groups.items())


def _table(title: str, metrics: tuple[Metric, ...]) -> str:
    return f"\n## {title}\n\n" + table(("metric", "unit", "what it says", "kind", "learners"), map(_line, metrics))


def _line(metric: Metric) -> tuple[str, ...]:
    unit = metric.unit or ("by pair" if metric.by_pair else "words" if metric.text else "")
    return f"`{metric.name}`", unit, metric.description, metric.kind, _merging(metric)


def _merging(metric: Metric) -> str:
    words = f"mean weighted by `{metric.weight}`, at most {metric.most_weight:g}" if metric.weight else metric.merge
    if metric.merge is Merge.MAX and metric.kind is Kind.COUNTER:
        words = "all count together"
    return f"{words}{' *' if metric.per_learner else ''}"
