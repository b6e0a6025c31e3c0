"""The page of the rules that say when learning is ill, generated from the rules."""

from __future__ import annotations

from docs.pages.markdown import table
from launch.reports.format import as_percent
from launch.reports.health import GAMES, KEPT, LEARNED, REPORTS, RULES, WELL_REPORTS, Rule

_HEAD = f"""# Health of learning

The supervisor judges every row of `metrics.jsonl` by these rules. When a rule fires, it writes an event `ill` with the
numbers and what to try. While the rule holds, the screen of `run` and `top` and the desk show it, and the column
`health` of `metrics.jsonl` names it. An event `well again` follows when its condition has not held in {WELL_REPORTS}
consecutive reports. A rule neither stops nor changes a run. `make pages` generates this page from
`launch/reports/health.py`.

`actorlearn health RUN` applies the same rules to a run's `metrics.jsonl`, also after its end.

* A condition must hold over at least the optimizer steps in the table and over at least {REPORTS} reports: in 90 %
  of the reports, or in all of them where the table says so. Reports without a new update do not count. The
  optimizer steps of an update are `algorithm.epochs` times `algorithm.minibatches`; with a replay they count as one.
* A rule marked `*` is silent while the score is clearly above the lowest that the run had after {GAMES} games: by
  {as_percent(LEARNED)} of its size, and by {as_percent(KEPT)} of the way from the lowest to the best. A policy that has
  learned a task may have no entropy, for example.
* A rule is silent where the algorithm does not report its metric: Q-learning has no `divergence`, a Box has no
  `entropy_share`. [Metrics](metrics.md) describes the columns.
* Several learners are judged one by one, and an event names its learner.
* A silent rule is no proof of health. The thresholds are chosen so that healthy runs of the shipped topologies are
  silent.

"""


def page() -> str:
    """Return the page, in Markdown."""
    return _HEAD + table(("rule", "it fires when", "over", "try", "source"), map(_line, RULES))


def _line(rule: Rule) -> tuple[str, ...]:
    over = f"{rule.steps} optimizer steps{', all reports' if rule.share == 1.0 else ''}"
    mark = " *" if rule.unless_it_learns else ""
    return f"{rule.name}{mark}", rule.when, over, rule.remedy, rule.source
