"""The steps of a whole run at its end: made = used + dropped + in flight, whatever was alive then. Pure.

The counts of each learner are those that its trainer has committed, and that its simulators' blocks hold. Steps whose
weights were not saved are rolled back to the newest checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from actorlearn.memory.account import LearnerSteps, StepCounts


@dataclass(frozen=True)
class SavedSteps:
    """Counts in the newest checkpoint of a learner."""

    env_steps: int = 0
    counts: StepCounts = field(default_factory=StepCounts)
    in_flight: int = 0


@dataclass(frozen=True)
class Accounting:
    """The account of a run's steps."""

    row: Mapping[str, int | None]
    """Name of each metric of the account -> its value, for the summary; None: not known."""
    said: str = ""
    """What was lost or is not known, in words; empty if all trainers have finished."""


def account(
    learners: Mapping[int, LearnerSteps], saved: Mapping[int, SavedSteps], shared: bool, finished: int
) -> Accounting:
    """Return the account of a run with these learners and their newest checkpoints.

    ``shared``: the checkpoint of each learner has the weights of all. ``finished``: number of trainers that have
    finished, and so have saved. The counts in ``learners`` are changed.
    """
    for learner, steps in learners.items():
        before = saved.get(learner, SavedSteps())
        if not steps.commits:  # a resumed run in which its trainer has not begun
            steps.counts = before.counts
            steps.counts.dropped["not_resumed"] += before.in_flight
    lost = _lost_of_all(learners, saved, finished) if shared else _lost_of_each(learners, saved)
    for steps in learners.values():
        for reason, number in steps.moved.items():
            steps.counts.dropped[reason] += number
    counts = [steps.counts for steps in learners.values()]
    used, dropped = sum(own.used for own in counts), sum(own.dropped_steps for own in counts)
    in_flight = sum(steps.in_flight for steps in learners.values())
    made = used + dropped + in_flight
    row = {"steps_made": made, "steps_used": used, "steps_dropped": dropped, "steps_in_flight": in_flight}
    row |= {f"dropped_{reason}": sum(own.dropped[reason] for own in counts) for reason in StepCounts().dropped}
    sums = f"of {made:,} steps made, {used:,} are used, {dropped:,} dropped and {in_flight:,} in flight"
    return Accounting(row, "; ".join([*lost, sums]) if made and (lost or finished < len(learners)) else "")


def unknown(why: str) -> Accounting:
    """Return the account of a run in which the steps of some learner are not known; ``why``: the reason, in words."""
    names = account({}, {}, shared=False, finished=0).row
    return Accounting(dict.fromkeys(names), f"the steps of the run are not known, because {why}")


def moved(there: LearnerSteps, saved: SavedSteps) -> dict[str, int]:
    """Return the steps that a learner made on a node and that its checkpoint, on another node, does not count.

    They are dropped, by the reasons in the result. ``there``: its final steps on the node that it has left.
    """
    if not there.commits:  # no trainer began there, so nothing was learned
        return {"not_resumed": there.in_flight} if there.in_flight else {}
    learned = max(0, there.counts.passed - saved.counts.passed)
    made = there.counts.used + there.counts.dropped_steps + there.in_flight
    known = saved.counts.used + saved.counts.dropped_steps + saved.in_flight
    found = {"rolled_back": learned, "not_resumed": max(0, made - known - learned)}
    return {reason: number for reason, number in found.items() if number}


def _lost_of_each(learners: Mapping[int, LearnerSteps], saved: Mapping[int, SavedSteps]) -> list[str]:
    """Roll each learner back to its newest checkpoint; returns in words what was lost."""
    said = []
    for learner, steps in learners.items():
        before = saved.get(learner, SavedSteps())
        lost = steps.counts.passed - before.counts.passed
        if lost > 0:
            steps.counts.roll_back(before.counts)
            said.append(_words(lost, before.env_steps, f" by learner {learner}" if len(learners) > 1 else ""))
    return said


def _lost_of_all(learners: Mapping[int, LearnerSteps], saved: Mapping[int, SavedSteps], finished: int) -> list[str]:
    """Roll all learners back to the newest checkpoint, unless a trainer has finished; returns in words what was lost.

    The newest checkpoint does not contain the counts of the other learners, so the steps are taken from any learners.
    """
    newest = max((before.env_steps for before in saved.values()), default=0)
    rest = lost = 0 if finished else max(0, sum(steps.counts.passed for steps in learners.values()) - newest)
    for steps in learners.values():
        back = min(rest, steps.counts.used)
        steps.counts.used -= back
        steps.counts.dropped["rolled_back"] += back
        rest -= back
    return [_words(lost, newest)] if lost else []


def _words(lost: int, env_steps: int, by: str = "") -> str:
    return f"{lost:,} steps that were learned{by} since the checkpoint at {env_steps:,} steps are lost"
