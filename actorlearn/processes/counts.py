"""Counts of a trainer: steps and updates of all learners, the account of its own experience, scores of its games."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from actorlearn.memory.account import Account, StepCounts
from actorlearn.metrics.episodes import Episodes
from actorlearn.parameters.interface import Agreed
from actorlearn.processes.batches import Gathered


@dataclass
class TrainerCounts:
    """Counts of one trainer."""

    account: Account
    """Steps of this learner's own simulators: learned from, dropped, and the rollout to be learned next."""
    episodes: Episodes
    """Games of these simulators."""
    env_steps: int = 0
    """Environment steps that all learners together have learned from."""
    updates: int = 0
    """Updates of all learners together, one for each rollout; in mode sync one for the rollouts of all of them."""

    def count_learned(self, agreed: Agreed, steps: int) -> None:
        """Count so many steps that this learner has learned from, and all that all learners have by agreement."""
        self.env_steps, self.updates = agreed.env_steps, agreed.updates
        self.account.steps.used += steps

    def finish_rollout(self, gathered: Gathered) -> None:
        """Count the games of a rollout and the steps left out of its batch; the rollout after it is the next."""
        dropped = self.account.steps.dropped
        dropped["stale"] += gathered.stale
        dropped["no_room"] += gathered.no_room
        dropped["statistics"] += gathered.statistics_steps
        for part in gathered.parts:
            column = {
                name: part.blocks.block(name, part.group, gathered.rollout)
                for name in ("reward", "terminated", "truncated", "first")
            }
            over = column["terminated"] | column["truncated"]
            self.episodes.add(part.owner, column["reward"], over, column["first"])
        self.account.rollouts_learned += 1

    # Checkpoints ---------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {
            "env_steps": self.env_steps,
            "updates": self.updates,
            "account": msgspec.to_builtins(self.account.steps),
            "learned": self.account.rollouts_learned,  # a rollout; older checkpoints have it by this name
            "episodes_finished": self.episodes.finished,
            "recent_returns": list(self.episodes.recent),
            "recent_lengths": list(self.episodes.recent_lengths),
            "games": self.episodes.state(),
        }

    def restore(self, state: Mapping[str, Any], exactly: bool, outlived: bool) -> None:
        """Restore the state of a checkpoint, without unfinished games.

        If this run has committed nothing yet, the account is the checkpoint's (a resumed run). Otherwise it is the one
        in memory of the dead trainer, whose steps since the checkpoint are rolled back unless its weights ``outlived``
        it. Steps in flight are dropped unless their simulators continue ``exactly``.
        """
        self.env_steps, self.updates = state["env_steps"], state["updates"]
        self.episodes.finished = state["episodes_finished"]
        self.episodes.recent.extend(state["recent_returns"])
        self.episodes.recent_lengths.extend(state["recent_lengths"])
        # Older checkpoints have no account, but the steps used.
        saved = msgspec.convert(state.get("account") or {"used": state["own_steps"]}, StepCounts)
        if not self.account.commits:
            self.account.rollouts_learned, self.account.steps = state["learned"], saved
            if not exactly:
                saved.dropped["not_resumed"] += state.get("in_flight", 0)
        elif not outlived:
            steps = self.account.steps
            in_weights = steps.used + steps.dropped["statistics"]
            steps.dropped["rolled_back"] += in_weights - saved.used - saved.dropped["statistics"]
            steps.used, steps.dropped["statistics"] = saved.used, saved.dropped["statistics"]
