"""Shared experience: each learner posts rows of its rollouts, and also learns from the newest rows of its in-peers.

Reads: in-peers' messages (``memory/shared_rollout.py``), each at most once, without waiting.
Writes: this learner's message, a copy of rows of the rollout that it learns from next.
Rows include the log-probabilities of the policy that acted. So an algorithm that compares probabilities corrects for a
neighbour's policy as it does for an older policy of its own: IMPALA and VACO by V-trace, PPO by its ratio, and by
V-trace with ``algorithm.advantages: vtrace`` (otherwise its advantages use the values that the neighbour predicted).
SAPO (arXiv 2509.08721) shares experience and no weights, with language models.

Rows of others are not counted in this learner's steps, scores and policy lag.
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
    """The message that one learner posts and the messages that it reads."""

    def __init__(
        self, settings: ExperienceSettings, learner: int, seed: int, present: Callable[[], Present] = Present
    ) -> None:
        """Open nothing yet; ``present`` returns the present learners."""
        self._settings, self._learner, self._seed, self._present = settings, learner, seed, present
        self._mailbox = SharedMailbox(settings.messages, learner)
        self._fields = message_fields(settings.shape, settings.environments)
        self._used: dict[int, int] = {}
        """Version of each in-peer's message that was read last, or that was found at the first look and skipped.

        An earlier incarnation of this trainer may have learned from a message that is found at the first look.
        """
        self._takes = 0
        self._lags: list[NDArray[np.int64]] = []
        """Policy lags of the steps read since the last report."""
        self._refused = 0

    def post(self, rollout: int, parts: Sequence[GroupRollout], version: int) -> None:
        """Post rows of a rollout: of all environments, or of a random draw if a message holds fewer.

        ``version``: version of this learner's newest weights.
        """
        message = SharedRollout(self._fields)
        sizes = [part.blocks.envs_per_group for part in parts]
        drawn = np.random.default_rng((self._seed, self._learner, rollout)).permutation(sum(sizes))
        drawn = np.sort(drawn[: self._settings.environments])
        begin = 0
        for part, size in zip(parts, sizes, strict=True):
            own = drawn[(drawn >= begin) & (drawn < begin + size)] - begin
            names = [name for name in part.blocks.columns if name != "policy_version"]
            rows = {name: part.blocks.block(name, part.group, rollout)[:, own] for name in names}
            lag = version - part.blocks.block("policy_version", part.group, rollout)[:, None]
            message.add({**rows, "policy_lag": np.broadcast_to(lag, (len(lag), len(own)))})
            begin += size
        hit("experience.made")
        self._mailbox.post(message.numbers)
        hit("experience.posted")

    def take(self) -> list[Columns]:
        """Return the rows of each in-peer that has a new message; messages that are not usable are left out."""
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
        """Return the number of steps read since the last call, their mean lag, and the number of refused messages."""
        lags = np.concatenate(self._lags) if self._lags else np.empty(0, np.int64)
        found = {"foreign_steps": len(lags), "foreign_messages_refused": self._refused}
        self._lags, self._refused = [], 0
        return found | ({"foreign_lag_mean": float(lags.mean())} if len(lags) else {})

    def close(self) -> None:
        """Unmap the segments of messages, which stay."""
        self._mailbox.close()

    def _take_from(self, peer: int) -> SharedRollout | None:
        version = self._mailbox.version(peer)
        if version == self._used.setdefault(peer, version):
            return None
        message = SharedRollout(self._fields)
        self._used[peer] = self._mailbox.take(peer, message.numbers)
        return message
