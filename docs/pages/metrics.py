"""The reference page of metrics, generated from their registry and the algorithms' specs."""

from __future__ import annotations

from actorlearn.algorithms.settings import ALGORITHMS
from actorlearn.imports import OURS
from actorlearn.metric import Kind, Merge, Metric
from actorlearn.metrics.registry import GROUPS, LEARNERS, OWN_RATE, SECONDARY
from docs.pages.markdown import table

_HEAD = f"""# Metrics

<!-- generated from actorlearn/metrics/registry.py and the specs of the algorithms by `make pages` -->

This page lists the metrics of a run, that is, of a training by actorlearn. Metrics are the columns of the file
`metrics.jsonl` in the run's folder. The file has one line for each *report*, which the run writes every
`report.every_s` seconds (default 2). TensorBoard shows the same metrics over `env_steps`. If a run ends with an
evaluation of its final weights, a last line repeats the last report with the scores of this evaluation.

These terms are used in the tables; the [glossary](concepts.md#glossary) defines all terms:

* A *learner* is a trainer, the process that learns, with its simulators, which step the environments. A run has one
  learner by default.
* The *acting* policy or weights are those that chose an action. They may be some updates older than the weights that
  learn from this action.
* A step is *in flight* while it is neither learned from nor dropped.
* A *rollout* is the steps of all environments of a learner from which its trainer learns together. This learning is
  called an *update*.

The column *kind* of the tables says over which time a metric is taken:

* A **counter** is a total since the start of the run. It includes learners that have left the run.
* A **rate** is per second since the previous report.
* A **gauge** describes the newest optimizer step or the time since the previous report.

If a learner no longer reports, for example because it was given up, rates and gauges leave it out.

The column *learners* says how one value is computed from those of several learners: as their sum, their mean or the
largest of them, or it is the first learner's value. *Counted together* means that all learners add to one shared count.
Metrics marked `*` are also listed for each learner under `{LEARNERS}`.

The unit *share* means a fraction from 0 to 1. For example, if `policy_lag_0` is 0.8, then the actions
of 80 % of the steps were chosen by the newest weights, which are 0 updates old.

* A column is missing or null if there was nothing to count, or if the number was not finite.
* A name that starts with `{SECONDARY}` is that metric of the secondary learner (`replay.secondary_batch_size`).
* A name that starts with `{OWN_RATE}` is the learning rate of one of several networks (`optimizer.groups`). The name of
  the network follows this prefix.
* A column that is not on this page belongs to an algorithm or process of a [plug-in](plugins.md). If the plug-in does
  not describe the column, it is a gauge, and the mean over the learners is taken.
"""


def page() -> str:
    """Return the page, in Markdown: a table for each group, and for each shipped algorithm with metrics of its own."""
    own = {
        entry.name: ALGORITHMS.spec(entry.name).metrics for entry in ALGORITHMS.entries() if entry.distribution == OURS
    }
    groups = GROUPS | {f"`algorithm.name: {name}`": metrics for name, metrics in own.items() if metrics}
    return _HEAD + "".join(_table(title, group) for title, group in groups.items())


def _table(title: str, metrics: tuple[Metric, ...]) -> str:
    return f"\n## {title}\n\n" + table(("metric", "unit", "meaning", "kind", "learners"), map(_line, metrics))


def _line(metric: Metric) -> tuple[str, ...]:
    unit = metric.unit or ("by pair" if metric.by_pair else "words" if metric.text else "")
    return f"`{metric.name}`", unit, metric.description, metric.kind, _merging(metric)


def _merging(metric: Metric) -> str:
    words = f"mean weighted by `{metric.weight}`" if metric.weight else metric.merge
    if metric.merge is Merge.MAX and metric.kind is Kind.COUNTER:
        words = "counted together"
    return f"{words}{' *' if metric.per_learner else ''}"
