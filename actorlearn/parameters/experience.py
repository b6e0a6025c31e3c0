"""Shared experience in mode gossip (``gossip.experience``): learners also learn from rows of other learners.

Each learner posts a message with rows of the rollout from which it learns next, and reads the newest message of each of
its in-peers (the learners before it in the graph). A message (``memory/shared_rollout.py``) is read at most once, and
no learner waits for one. Rows of others do not count in this learner's steps, scores and policy lag.

Rows include the log-probabilities of the policy that acted. Algorithms therefore correct for another learner's policy
as they do for an older policy of their own: IMPALA and VACO by V-trace, PPO by its ratio. With
``algorithm.advantages: vtrace`` PPO also computes advantages by V-trace; otherwise they use the values that the other
learner predicted. SAPO (arXiv 2509.08721) shares experience and no weights, with language models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actorlearn.failpoints import hit
from actorlearn.memory.rollout import GroupRollout
from actorlearn.memory.shared_rollout import Columns, SharedRollout, message_fields
from actorlearn.parameters.interface import Present
from actorlearn.parameters.mailbox import SharedMailbox
from actorlearn.parameters.mixing import in_peers
from actorlearn.parameters.settings import ExperienceSettings


class Experience:
    """Shares rollouts in mode gossip: sends parts of one learner's rollouts, and reads those of other learners."""

    def __init__(
        self, settings: ExperienceSettings, learner: int, seed: int, present: Callable[[], Present] = Present
    ) -> None:
        """Set the learner; ``present`` returns the learners that are in the run now."""
        self._settings, self._learner, self._seed, self._present = settings, learner, seed, present
        self._mailbox = SharedMailbox(settings.messages, learner)
        self._fields = message_fields(settings.shape, settings.environments)
        self._used: dict[int, int] = {}
        """Version of the newest message of each in-peer that was read or skipped.

        The message that is found first is skipped, because this trainer may have learned from it before a restart.
        """
        self._takes = 0
        """Number of calls of `take`."""
        self._lags: list[NDArray[np.int64]] = []
        """Policy lags of the steps read since the last report."""
        self._refused = 0
        """Number of unusable messages since the last report."""

    def post(self, rollout: int, parts: Sequence[GroupRollout], version: int) -> None:
        """Send a rollout to other learners: all its environments, or as many, drawn at random, as a message holds.

        ``version`` is that of this learner's newest weights, from which policy lags are computed.
        """
        message = SharedRollout(self._fields)
        sizes = [part.blocks.envs_per_group for part in parts]
        drawn = np.random.default_rng((self._seed, self._learner, rollout)).permutation(sum(sizes))
        drawn = np.sort(drawn[: self._settings.environments])
        begin = 0
        for part, size in zip(parts, sizes, strict=True):
            chosen = drawn[(drawn >= begin) & (drawn < begin + size)] - begin
            names = [name for name in part.blocks.columns if name != "policy_version"]
            rows = {name: part.blocks.block(name, part.group, rollout)[:, chosen] for name in names}
            lag = version - part.blocks.block("policy_version", part.group, rollout)[:, None]
            message.add({**rows, "policy_lag": np.broadcast_to(lag, (len(lag), len(chosen)))})
            begin += size
        hit("experience.made")
        self._mailbox.post(message.numbers)
        hit("experience.posted")

    def take(self) -> list[Columns]:
        """Return the rollouts that other learners have sent since the last call. Unusable ones are only counted."""
        learners = sorted({*self._present().learners, self._learner})
        peers = in_peers(self._settings.graph, learners, self._learner, self._takes)
        self._takes += 1
        found = [message for peer in peers if (message := self._take_from(peer)) is not None]
        usable = [message for message in found if message.usable]
        self._refused += len(found) - len(usable)
        for message in usable:
            acted = ~message.rows["first"][1:]
            self._lags.append(message.rows["policy_lag"][:-1][acted])
        return [message.rows for message in usable]

    def metrics(self) -> dict[str, Any]:
        """Return the time steps read since the last call, their mean policy lag, and the unusable messages."""
        lags = np.concatenate(self._lags) if self._lags else np.empty(0, np.int64)
        found = {"foreign_steps": len(lags), "foreign_messages_refused": self._refused}
        self._lags, self._refused = [], 0
        return found | ({"foreign_lag_mean": float(lags.mean())} if len(lags) else {})

    def close(self) -> None:
        """Close the segments of messages, which stay in shared memory."""
        self._mailbox.close()

    def _take_from(self, peer: int) -> SharedRollout | None:
        version = self._mailbox.version(peer)
        if version == self._used.setdefault(peer, version):
            return None
        message = SharedRollout(self._fields)
        self._used[peer] = self._mailbox.take(peer, message.numbers)
        return message
