"""Counts at the end of a run what became of its environment steps: made = used + dropped + in flight.

*Used* steps were learned from. Steps *in flight* were neither used nor dropped when the run ended. The counts come from
shared memory, so they are correct also if processes have died. If the weights learned from some steps were not saved,
these steps are moved from used to dropped (rolled back). The module reads no files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from actorlearn.memory.account import LearnerSteps, StepCounts
from launch.reports.checks import check_row


@dataclass(frozen=True)
class SavedSteps:
    """The step counts that the newest checkpoint of a learner contains."""

    env_steps: int = 0
    counts: StepCounts = field(default_factory=StepCounts)
    in_flight: int = 0
    """Steps that were made, but neither used nor dropped, when the checkpoint was saved."""


@dataclass(frozen=True)
class Accounting:
    """What became of the steps of a run."""

    row: Mapping[str, int | None]
    """Metrics of the account for summary.json: name -> number of steps, or None if it is unknown."""
    said: str = ""
    """A sentence on the steps that were lost or are unknown; empty if all trainers have finished."""


def account(
    learners: Mapping[int, LearnerSteps],
    saved: Mapping[int, SavedSteps],
    shared: bool,
    finished: int,
    left: Sequence[Mapping[str, int]] = (),
) -> Accounting:
    """Return what became of the steps of a run; changes the counts in ``learners``.

    ``saved``: what the newest checkpoint of each learner contains. ``shared``: whether the weights of each learner
    contain what the others have learned, so that the newest checkpoint of any counts for all. ``finished``: number of
    trainers that have saved their last weights. ``left``: counters (`counters_of`) of learners that had left the run
    before it was resumed.
    """
    for learner, steps in learners.items():
        before = saved.get(learner, SavedSteps())
        if not steps.commits:  # a resumed run in which its trainer has not begun
            steps.counts = before.counts
            steps.counts.dropped["not_resumed"] += before.in_flight
    passed_before = sum(row["steps_used"] + row["dropped_not_finite"] for row in left)
    lost = _lost_of_all(learners, saved, finished, passed_before) if shared else _lost_of_each(learners, saved)
    for steps in learners.values():
        for reason, number in steps.moved.items():
            steps.counts.dropped[reason] += number
    counts = [steps.counts for steps in learners.values()]
    used, dropped = sum(own.used for own in counts), sum(own.dropped_steps for own in counts)
    in_flight = sum(steps.in_flight for steps in learners.values())
    row = {
        "steps_made": used + dropped + in_flight,
        "steps_used": used,
        "steps_dropped": dropped,
        "steps_in_flight": in_flight,
    }
    row |= {f"dropped_{reason}": sum(own.dropped[reason] for own in counts) for reason in StepCounts().dropped}
    row |= {key: number + sum(own.get(key, 0) for own in left) for key, number in row.items()}
    made, used, dropped, in_flight = (row[f"steps_{name}"] for name in ("made", "used", "dropped", "in_flight"))
    sums = f"of {made:,} steps made, {used:,} are used, {dropped:,} dropped and {in_flight:,} in flight"
    return Accounting(row, "; ".join([*lost, sums]) if made and (lost or finished < len(learners)) else "")


def counters_of(state: Mapping[str, Any]) -> dict[str, int]:
    """Return the counters, as in metrics.jsonl, of a learner that has left the run; ``state``: of its checkpoint.

    Its steps in flight at the checkpoint count as dropped, because no learner uses them.
    """
    counts = msgspec.convert(state.get("account", {}), StepCounts)
    counts.dropped["not_resumed"] += state.get("in_flight", 0)
    return _counters(state, counts)


def row_of(state: Mapping[str, Any], same_task: bool = True) -> dict[str, Any]:
    """Return the counters and the scores, as in metrics.jsonl, of a learner that is resumed from a checkpoint's state.

    Its steps in flight are made, and neither used nor dropped: its trainer decides that when it begins. There is no
    score if not ``same_task``, because the games before were of another environment. Raises ValueError for a value
    that is not a number.
    """
    row: dict[str, Any] = _counters(state, msgspec.convert(state.get("account", {}), StepCounts))
    row["steps_made"] += state.get("in_flight", 0)
    games = {"return": "recent_returns", "length": "recent_lengths"}
    recent = {name: state.get(key, ()) if same_task else () for name, key in games.items()}
    means = {f"episode_{name}_mean": sum(of) / len(of) if of else None for name, of in recent.items()}
    return check_row({**row, **means, "episodes_in_mean": len(recent["return"])})


def _counters(state: Mapping[str, Any], counts: StepCounts) -> dict[str, int]:
    used, dropped = counts.used, counts.dropped_steps
    row = {"steps_made": used + dropped, "steps_used": used, "steps_dropped": dropped}
    row |= {f"dropped_{reason}": number for reason, number in counts.dropped.items()}
    return {"episodes": state.get("episodes_finished", 0), **row}


def unknown(why: str) -> Accounting:
    """Return an account without numbers; ``why``: the reason why they are not known."""
    names = account({}, {}, shared=False, finished=0).row
    return Accounting(dict.fromkeys(names), f"the steps of the run are not known, because {why}")


def moved(there: LearnerSteps, saved: SavedSteps) -> dict[str, int]:
    """Return reason -> number of the steps that a learner loses when it continues from a checkpoint on another node.

    ``there``: its final counts on the old node; ``saved``: those of the checkpoint.
    """
    if not there.commits:  # no trainer began there, so nothing was learned
        return {"not_resumed": there.in_flight} if there.in_flight else {}
    learned = max(0, there.counts.passed - saved.counts.passed)
    made = there.counts.used + there.counts.dropped_steps + there.in_flight
    known = saved.counts.used + saved.counts.dropped_steps + saved.in_flight
    found = {"rolled_back": learned, "not_resumed": max(0, made - known - learned)}
    return {reason: number for reason, number in found.items() if number}


def _lost_of_each(learners: Mapping[int, LearnerSteps], saved: Mapping[int, SavedSteps]) -> list[str]:
    """Count steps learned after the newest checkpoint of each learner as dropped; return a sentence for each loss."""
    said = []
    for learner, steps in learners.items():
        before = saved.get(learner, SavedSteps())
        lost = steps.counts.passed - before.counts.passed
        if lost > 0:
            steps.counts.roll_back(before.counts)
            said.append(_words(lost, before.env_steps, f" by learner {learner}" if len(learners) > 1 else ""))
    return said


def _lost_of_all(
    learners: Mapping[int, LearnerSteps], saved: Mapping[int, SavedSteps], finished: int, passed_before: int
) -> list[str]:
    """Count steps learned after the newest checkpoint of any learner as dropped; return a sentence if there are any.

    The checkpoint does not say which learner used them, so they are taken from one learner after another. If a trainer
    has finished, nothing is lost. ``passed_before``: steps used by learners that have left the run.
    """
    newest = max((before.env_steps for before in saved.values()), default=0)
    passed = passed_before + sum(steps.counts.passed for steps in learners.values())
    rest = lost = 0 if finished else max(0, passed - newest)
    for steps in learners.values():
        back = min(rest, steps.counts.used)
        steps.counts.used -= back
        steps.counts.dropped["rolled_back"] += back
        rest -= back
    return [_words(lost, newest)] if lost else []


def _words(lost: int, env_steps: int, by: str = "") -> str:
    return f"{lost:,} steps that were learned{by} since the checkpoint at {env_steps:,} steps are lost"
