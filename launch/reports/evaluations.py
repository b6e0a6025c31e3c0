"""Results of evaluations, as events of kind "evaluated", as metrics, and as lines of text. The module reads no files.

If learners have different weights, the evaluator plays with the mean of their weights and with the weights of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean, stdev
from typing import Any

import msgspec

from actorlearn.wire.messages import Evaluated
from launch.reports.checks import MOST, is_number
from launch.topology.changes import changes_task

PREFIX = "eval_"
"""Prefix of the names of the metrics that only runs with an evaluator have."""


def event_fields(message: Evaluated) -> dict[str, Any]:
    """Return the fields of the event "evaluated": those of the message, its mean score, and the best learner's score.

    Raises ValueError if a score is not finite or too large.
    """
    games = msgspec.structs.asdict(message)
    for score in (*message.returns, *message.learners.values(), message.secondary or 0.0):
        if not abs(score) <= MOST:  # NaN fails this test too
            raise ValueError(f"a score is {score}; it must be finite and at most {MOST:g}; check the rewards of env.id")
    games["mean"] = sum(message.returns) / max(len(message.returns), 1)
    if games["secondary"] is None:
        del games["secondary"]
    if not games["learners"]:
        del games["learners"]
        return games
    return {**games, **compare_learners(message.learners)}


def compare_learners(means: Mapping[str, float]) -> dict[str, Any]:
    """Return name and score of the best learner, and the mean over learners; ``means``: learner -> mean score."""
    best = max(means, key=means.__getitem__)
    return {"best": best, "best_mean": means[best], "learners_mean": fmean(means.values())}


def event_cause(event: Mapping[str, Any]) -> str:
    """Return the result of an evaluation as one line of text."""
    said = _score(event["mean"], len(event["returns"]), event["env_steps"])
    if "secondary" in event:
        said += f"; secondary learner {event['secondary']:,.1f}"
    if "learners" not in event:
        return said
    each = ", ".join(f"{name} {mean:,.1f}" for name, mean in event["learners"].items())
    best = f"best {event['best']} {event['best_mean']:,.1f}"
    return f"averaged weights {said}; {best}, mean {event['learners_mean']:,.1f}: {each}"


def metrics(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics ``eval_…`` for the following reports, from the fields of the event."""
    keys = {
        "eval_return_mean": event["mean"],
        "eval_episodes": len(event["returns"]),
        "eval_env_steps": event["env_steps"],
        "eval_policy_version": event["policy_version"],
    }
    if "learners" in event:
        keys |= {"eval_return_best": event["best_mean"], "eval_return_learners_mean": event["learners_mean"]}
    if "secondary" in event:
        keys["eval_return_secondary"] = event["secondary"]
    return keys


def best_and_last(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return ``count``, ``best`` (highest mean score) and ``last`` of a run's evaluations; {} if there are none.

    ``events``: all events of the run. Evaluations before a resume do not count if the resume changed the environment,
    or if it continued from a checkpoint that is older than the evaluated weights.
    """
    found: list[dict[str, Any]] = []
    for event in events:
        if isinstance(changed := event.get("changed"), Mapping) and changes_task(changed):
            found.clear()
        if event.get("kind") == "resumed" and is_number(at := event.get("env_steps")):
            found = [one for one in found if one["env_steps"] <= at]
        found += results([event])
    return {"count": len(found), "best": max(found, key=lambda one: one["mean"]), "last": found[-1]} if found else {}


def results(events: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the result of each evaluation among the events, in order; invalid events are left out."""
    return (_result(event) for event in events if event.get("kind") == "evaluated" and _is_whole(event))


def _is_whole(event: Mapping[str, Any]) -> bool:
    """Whether the event has all numbers that ``_result`` reads; events.jsonl may have been edited."""
    games = [event.get("mean"), *(returns if isinstance(returns := event.get("returns"), list) else [None])]
    return all(map(is_number, (*games, event.get("env_steps"))))


def _result(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mean score and the sample standard deviation in place of the score of each game."""
    returns = event["returns"]
    std = stdev(returns) if len(returns) > 1 else 0.0
    kept = ("env_steps", "policy_version", "secondary", "best", "best_mean", "learners_mean")
    about = {key: event[key] for key in kept if key in event}
    return {"mean": event["mean"], "std": std, "episodes": len(returns), **about}


def best_and_last_line(found: Mapping[str, Any]) -> str:
    """Return one line about the best and the last evaluation; ``found``: from ``best_and_last``, and not empty."""
    best, last = (_score(one["mean"], one["episodes"], one["env_steps"]) for one in (found["best"], found["last"]))
    if found["count"] == 1:
        return f"{last}, deviation {found['last']['std']:.1f}"
    return f"best {best}, last {last}; {found['count']} evaluations"


def _score(mean: float, games: int, env_steps: int) -> str:
    return f"{mean:,.1f} over {games} games at {env_steps:,} steps"
