"""The page of the rules that say when learning is ill, generated from the rules."""

from __future__ import annotations

from docs.pages.markdown import table
from launch.reports.format import as_percent
from launch.reports.health import GAMES, KEPT, LEARNED, REPORTS, RULES, WELL_REPORTS, HealthRule

_HEAD = f"""# Health of learning

<!-- generated from launch/reports/health.py by `make pages` -->

actorlearn detects common errors in learning by rules. A **rule** is a condition on the [metrics](metrics.md) of a run
(a training), for example that the policy has collapsed to one action. A run checks all rules each time it writes a
report, that is, a line of `metrics.jsonl`. A rule never stops or changes a run.

If its condition has held for long enough, the rule **fires**:

* The run writes an event `ill` to `events.jsonl`, with the numbers and a remedy to try.
* The screens of `actorlearn run` and `actorlearn top`, the [desk](desk.md), and the column `health` of `metrics.jsonl`
  name the rule.
* When the condition has not held in {WELL_REPORTS} consecutive reports, an event `well again` follows.

`actorlearn health RUN` checks the same rules on a run that still trains or has ended. The table at the end of this page
lists the rules. They work as follows:

* *How long a condition must hold*: for the number of optimizer steps in the table, and for at least {REPORTS} reports.
  It must hold in 90 % of these reports, or in all of them if the table says *all reports*. Reports without a new update
  do not count. An update counts as `algorithm.epochs` times `algorithm.minibatches` optimizer steps; with a replay
  buffer, it counts as one optimizer step.
* *Rules marked* `*` do not fire while the score is well above the lowest score of the run, because the agent then
  learns although the condition holds. For example, the policy of a solved task may have almost no entropy.
* *Well above* means that two conditions hold. The score is higher than the lowest score by more than
  {as_percent(LEARNED)} of the absolute value of the lowest score. It is also higher by more than {as_percent(KEPT)} of
  the difference between the lowest and the best score. For example, if the lowest score is -20 and the best is 0, the
  score must be above -10. Mean scores of fewer than {GAMES} games do not change the lowest and the best score.
* *Missing metrics*: a rule does not fire if the algorithm does not report its metric. For example, Q-learning has no
  `divergence`, and Box actions have no `entropy_share`. [Metrics](metrics.md) describes all columns.
* *Several learners*: if a run has several trainers, each with its simulators, the rules are checked for each of them,
  and the event names the trainer.
* *Limits*: a run in which no rule fires is not necessarily healthy. The thresholds were chosen so that no rule fires in
  healthy runs of the topologies in `configs/`.

"""


def page() -> str:
    """Return the page, in Markdown."""
    return _HEAD + table(("rule", "fires when", "for at least", "remedy", "source"), map(_line, RULES))


def _line(rule: HealthRule) -> tuple[str, ...]:
    over = f"{rule.steps} optimizer steps{', all reports' if rule.share == 1.0 else ''}"
    mark = " *" if rule.unless_it_learns else ""
    return f"{rule.name}{mark}", rule.when, over, rule.remedy, rule.source
