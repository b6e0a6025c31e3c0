"""What an evaluation came to, for events, rows and people: one policy, or several learners and their average. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import msgspec

from actorlearn.wire.messages import Evaluated


def fields(message: Evaluated) -> dict[str, Any]:
    """What the event has: the message's own, the mean of its scores, and of several learners the best and the mean."""
    games = msgspec.structs.asdict(message)
    del games["name"]
    games["mean"] = sum(message.returns) / max(len(message.returns), 1)
    if not games["learners"]:
        del games["learners"]
        return games
    return {**games, **compared(message.learners)}


def compared(means: Mapping[str, float]) -> dict[str, Any]:
    """Learners compared by the mean score of each."""
    best = max(means, key=means.__getitem__)
    return {"best": best, "best_mean": means[best], "learners_mean": fmean(means.values())}


def words(event: Mapping[str, Any]) -> str:
    """The same in one line."""
    said = f"{event['mean']:,.1f} over {len(event['returns'])} games at {event['env_steps']:,} steps"
    if "learners" not in event:
        return said
    each = ", ".join(f"{name} {mean:,.1f}" for name, mean in event["learners"].items())
    best = f"best {event['best']} {event['best_mean']:,.1f}"
    return f"average of the weights {said}; {best}, mean {event['learners_mean']:,.1f}: {each}"


def row(event: Mapping[str, Any]) -> dict[str, Any]:
    """What the rows after it say of it."""
    keys = {
        "eval_return_mean": event["mean"],
        "eval_episodes": len(event["returns"]),
        "eval_env_steps": event["env_steps"],
        "eval_policy_version": event["policy_version"],
    }
    if "learners" in event:
        keys |= {"eval_return_best": event["best_mean"], "eval_return_learners_mean": event["learners_mean"]}
    return keys
