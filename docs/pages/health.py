"""The page of the rules that say when learning is ill, generated from the rules."""

from __future__ import annotations

from docs.pages.markdown import table
from launch.reports.format import as_percent
from launch.reports.health import GAMES, KEPT, LEARNED, REPORTS, RULES, WELL_REPORTS, HealthRule

_HEAD = f"""# Health of learning

These rules detect when learning goes wrong. The supervisor applies them to every row of `metrics.jsonl`. When a rule
fires, it writes an event `ill` with the numbers and a remedy. While the rule holds, the screen of `run` and `top` and
the desk show it, and the column `health` of `metrics.jsonl` contains its name. When its condition has not held in
{WELL_REPORTS} consecutive reports, an event `well again` follows. A rule neither stops nor changes a run.

`actorlearn health RUN` applies the same rules to a run's `metrics.jsonl`, also after its end.

* *Duration*: a condition must hold for at least the number of optimizer steps in the table and for at least {REPORTS}
  reports. It must hold in 90 % of these reports, or in all of them if the table says so. Reports without a new update
  do not count. An update has `algorithm.epochs` times `algorithm.minibatches` optimizer steps; with a replay it counts
  as one.
* *Rules marked* `*` do not fire while the run scores well. This is the case if the score is above the lowest score
  since {GAMES} games by more than {as_percent(LEARNED)} of that score's size, and by more than {as_percent(KEPT)} of
  the way to the best score. For example, a policy that has learned a task may have no entropy.
* *Missing metrics*: a rule does not fire if the algorithm does not report its metric. Q-learning has no `divergence`,
  and Box actions have no `entropy_share`. [Metrics](metrics.md) describes the columns.
* *Several learners*: each is judged separately, and the event names the learner.
* *Limits*: a run without fired rules is not necessarily healthy. The thresholds are chosen so that no rule fires in
  healthy runs of the shipped topologies.

The page is generated from `launch/reports/health.py` by `make pages`.

"""


def page() -> str:
    """Return the page, in Markdown."""
    return _HEAD + table(("rule", "fires when", "for at least", "remedy", "source"), map(_line, RULES))


def _line(rule: HealthRule) -> tuple[str, ...]:
    over = f"{rule.steps} optimizer steps{', all reports' if rule.share == 1.0 else ''}"
    mark = " *" if rule.unless_it_learns else ""
    return f"{rule.name}{mark}", rule.when, over, rule.remedy, rule.source
