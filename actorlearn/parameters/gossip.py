"""Mode gossip: each learner learns alone, and at times replaces its weights by the mean of its own and its neighbours'.

Source: Assran et al. (2019), algorithm 1, and their code for rules that the paper does not give. Each learner has its
own optimizer state. After ``local_steps`` optimizer steps it makes an *exchange*:

1. It posts its weights as its newest message.
2. If every in-peer (a learner whose weights it mixes) has a new message, it mixes: its weights become the mean of its
   own weights and those in the messages. A message is used at most once. It is left out of the mean if its weights are
   not finite, or larger than MOST.
3. Otherwise it goes on without mixing. After ``max_staleness`` exchanges without mixing, it waits for messages.

With ``age_corrected``, which is from no paper, a message is corrected before it is mixed: the learner adds the change
that its own weights have made since the message was posted (``mixing.progress_since``).

A learner that is killed loses its weights, but others may have mixed them. Before it posts weights, it therefore
records from which rollout they have learned, and after a restart it skips that rollout. So no weights learn from a
rollout twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from actorlearn.address import ByLearner, Shm
from actorlearn.failpoints import hit
from actorlearn.memory.shared import Segment
from actorlearn.parameters.alone import Alone
from actorlearn.parameters.consensus import ExchangeLog, cosines, measure
from actorlearn.parameters.consumed import BEGINNING, Position
from actorlearn.parameters.interface import NEAR_END, Agreed, Joined, Learner, Stepped
from actorlearn.parameters.mailbox import Mailbox, SharedMailbox, SocketMailbox, ipc_transport, tcp_transport
from actorlearn.parameters.mixing import in_peers, neighbours, progress_since
from actorlearn.parameters.settings import GossipExchangeSettings
from actorlearn.parameters.shared_counts import SharedCounts
from actorlearn.wire.endpoints import Endpoints
from actorlearn.wire.identity import trainer_id

FIRST_MESSAGE_S = 30.0
"""Seconds for which an attached or restarted learner waits for others' weights before it continues with its own."""
MOST = 1e18
"""Largest absolute weight in a message that is mixed. The square of a larger weight may be infinite in float32."""
_ROUNDING = 2.0**-23
"""Relative rounding error of float32. The error of a mean of n weights is less than n * _ROUNDING * their size."""
_TURN_S = 1e-3
"""Seconds between two checks for new messages."""


class Gossip(Alone):
    """Mode gossip: a learner learns alone, and from time to time averages its weights with those of its neighbours."""

    def __init__(self, settings: GossipExchangeSettings, learner: Learner) -> None:
        """Open the step counts of all learners, this learner's mailbox for weights, and its log."""
        super().__init__(settings, learner)
        self.settings, self.outer = settings, learner.outer
        self._learners: tuple[int, ...] = ()
        """The learners present at the last check."""
        self._segment = Segment.open(settings.counts.file)
        self.counts = SharedCounts(self._segment, settings.rank)
        self.mailbox = self._open_mailbox(learner.endpoints)
        self._log = ExchangeLog(Path(settings.log), anew=not self.counts.begun) if settings.log else None
        self._gradients = SharedMailbox(settings.gradients, settings.rank) if settings.gradients else None
        self._message = np.empty(self.weights.numel(), np.float32)
        self._before = torch.empty_like(self.parameters if self._log else self.parameters[:0])
        """The parameters when their change was last logged; empty without a log."""
        self._began = learner.weights[: self.parameters.numel() if settings.age_corrected else 0].clone()
        """The parameters after the last exchange; empty without ``age_corrected``."""
        self._began_ns = self._posted_ns = time.monotonic_ns()
        """Time of the last exchange, and time at which this learner last sent its weights."""
        self._ages: list[float] = []
        """Ages of the weights of others averaged since the last report; 1 is the time between two exchanges."""
        self._averaged = 0
        """Number of learners in the newest mean whose rounding error is not logged yet; 0 = there is none."""
        self._used: dict[int, int] = {}
        """Version of the newest message of each peer that was used."""
        self._near_end = False
        """Whether the run is about to end, so that counts are sent after each batch and not with the next message."""
        self._mixes = self._steps = self._pending = self._unmixed = 0
        """Number of averages, of optimizer steps, of optimizer steps since the last exchange, and of consecutive
        exchanges without an average."""
        self._steps_since = 0
        """Number of environment steps that this learner has counted since its newest message."""
        self._staleness: list[int] = []
        """For each exchange since the last report, the value of ``_unmixed`` after it."""
        self._refused: dict[int, int] = {}
        """Number of unusable messages, by peer."""
        self._refused_since_report = 0
        self._waited_s = 0.0
        """Seconds of waiting for messages since the last report."""

    def join(self, env_steps: int, updates: int, position: Position = BEGINNING) -> Joined:
        """Begin with this learner's weights or, after a restart or an attach, with the mean of its neighbours' weights.

        In a new run all learners have drawn equal weights from the seed; in a resumed run each has those of its
        checkpoint.
        """
        attached = self.settings.rank >= self.settings.learners and not updates
        moved = bool(self.settings.host) and self.settings.incarnation > 0
        if self.counts.begun or attached or moved:
            self._adopt()
        elif updates and self._log:
            self._log.adopted({})
        if moved and updates and len(self._present()) > 1:  # others have its counts, also if it mixes no weights
            self._wait(lambda: () if self.counts.received else None, FIRST_MESSAGE_S)
        known = self.counts.received
        if moved and known is not None and known.updates > self.counts.updates:
            self.counts.begin_again(known, position.rollout)
        elif not self.counts.begun:
            self.counts.begin(env_steps, updates)
        if self._log:
            self._before.copy_(self.parameters)
        self._begin_steps()
        claimed = self.counts.claimed  # others may have mixed weights that have learned from the rollouts before it
        resumed = Position(claimed, position.used) if claimed > position.rollout else None
        return Joined(*self.counts.total, resumed)

    def agree(
        self, env_steps: int, optimizer_steps: int, position: Position = BEGINNING, draining: bool = False
    ) -> Agreed:
        """Return the environment steps and updates of all learners, including this batch; does not wait for the others.

        These counts, and with them schedules such as that of the learning rate, depend on timing. Runs with the same
        seed therefore differ, even if learners wait for every message (``max_staleness`` 0).
        """
        super().agree(env_steps, optimizer_steps, position, draining)
        self._batch_steps, updates = (0, 0) if draining else (env_steps, 1)
        self._rollout = position.rollout
        before = self.counts.total
        return Agreed(before[0] + self._batch_steps, before[1] + updates, draining)

    def step(self, gradients: Tensor, learning_rates: Sequence[float], usable: bool = True) -> Stepped:
        """Take an optimizer step; after every `local_steps` steps, make an exchange."""
        every = self.settings.gradient_every
        if self._gradients and self._steps % every == 0 and bool(torch.isfinite(gradients).all()):
            self._gradients.post(gradients.cpu().numpy())
        stepped = super().step(gradients, learning_rates, usable)
        self._steps += 1
        self._pending += 1
        if self._pending >= self.settings.local_steps:
            self._pending = 0
            self._exchange()
        return stepped

    def settle(self) -> None:
        """Count the batch as learned. Near the end of the run, also send the count to learners on other machines."""
        self.counts.add(self._rollout, self._batch_steps)
        self._steps_since += self._batch_steps
        if self._near_end and isinstance(self.mailbox, SocketMailbox):
            self.mailbox.tell_counts()
        super().settle()

    def learned(self, end_steps: int) -> int:
        """Return the newest known number of environment steps of all learners, to see if the run is near its end.

        Learners on other machines are assumed to have learned, since their last messages, from as many steps as this
        learner.
        """
        total, learners = self.counts.total[0], len(self._present())
        unheard = (learners - 1) * self._steps_since
        self._near_end = total + unheard + NEAR_END * learners * self._batch_steps >= end_steps
        return total

    def metrics(self) -> dict[str, Any]:
        """Return metrics of exchanges, staleness, waiting, messages, and differences between learners.

        ``metrics/registry.py`` describes each of them.
        """
        stale, ages = self._staleness, self._ages
        found: dict[str, Any] = {
            "exchanges": len(stale),
            "learner_wait_s": self._waited_s,
            **self._apart(),
            "messages_refused": self._refused_since_report,
        }
        self._staleness, self._waited_s, self._ages, self._refused_since_report = [], 0.0, [], 0
        if isinstance(self.mailbox, SocketMailbox):
            found |= self.mailbox.moved.metrics()
        if stale:
            mean = sum(stale) / len(stale)
            if ages:
                found["message_age"] = sum(ages) / len(ages)
            found |= {"staleness_mean": mean, "staleness_max": max(stale), "mixed_share": stale.count(0) / len(stale)}
        return found

    def _apart(self) -> dict[str, Any]:
        """Return metrics of the differences between the learners' newest parameters, and between their gradients."""
        rank, present, apart = self.settings.rank, self._present(), dict[str, Any]()
        others = [peer for peer in present if peer != rank and self.mailbox.version(peer) >= 0]
        if others and self.mailbox.version(rank) >= 0:  # a socket mailbox does not have this learner's own message
            measured = measure([rank, *others], self.mailbox.take, self.weights.numel(), self.parameters.numel())
            apart["consensus_distance"] = measured.distance
            if self._log:
                self._log.measured(measured)
        if self._gradients and rank == present[0]:  # one learner reports it for all
            kept = {peer: np.empty_like(self._message[: self.parameters.numel()]) for peer in present}
            kept = {peer: gradient for peer, gradient in kept.items() if self._gradients.take(peer, gradient) >= 0}
            apart["gradient_cosine"] = cosines(kept)
        return apart

    def close(self) -> None:
        """Leave the other learners; in shared memory, this learner's newest message stays."""
        for opened in (self.mailbox, self._gradients, self._log, self._segment):
            if opened:
                opened.close()

    # Exchanges ------------------------------------------------------------------------------------------------------

    def _exchange(self) -> None:
        """Send the weights to the neighbours, and average with theirs if they have arrived; see the module's docstring.

        Then the outer optimizer takes a step. If there was no average, it uses this learner's weights.
        """
        if self._log:
            rounded = self._averaged * _ROUNDING * float(torch.linalg.vector_norm(self.parameters))
            self._log.stepped(self.mailbox.version(self.settings.rank) + 1, self._moved() + rounded)
        self.counts.claim(self._rollout)
        self.mailbox.post(self.weights.detach().cpu().numpy())
        self._posted_ns, self._steps_since = time.monotonic_ns(), 0
        hit("gossip.posted")
        peers = self._ready()
        limit = self.settings.max_staleness
        if peers is None and limit is not None and self._unmixed >= limit:
            peers = self._wait(self._ready)
        if peers is None:
            self._unmixed += 1
        else:
            self._mixes += 1
            self._unmixed = 0 if self._mix(peers) or not peers else self._unmixed + 1
        if self.outer is not None:
            self.outer.step(self.parameters)
        self._staleness.append(self._unmixed)
        self._begin_steps()

    def _begin_steps(self) -> None:
        """Keep the time and, with ``age_corrected``, the parameters at the beginning of the next local steps."""
        self._began_ns = time.monotonic_ns()
        if self.settings.age_corrected:
            self._began.copy_(self.parameters)

    def _present(self) -> tuple[int, ...]:
        """Return the learners in the run, including this one, and warn the user if this learner's neighbours change."""
        learners, stays = self.learner.present()
        before, self._learners = self._learners, tuple(sorted({*learners, self.settings.rank}))
        if stays and before and before != self._learners and (change := self._change(before, self._learners)):
            self.learner.warn(change)
        return self._learners

    def _change(self, before: tuple[int, ...], now: tuple[int, ...]) -> str:
        graph, rank = self.settings.graph, self.settings.rank
        mixed = neighbours(graph, now, rank)
        if mixed == neighbours(graph, before, rank):
            return ""
        whys = ((set(before) - set(now), "left"), (set(now) - set(before), "joined"))
        why = ", ".join(f"{_names(who)} {'has' if len(who) == 1 else 'have'} {how}" for who, how in whys if who)
        return f"now mixes weights with {_names(mixed) or 'no other learner'}, because {why}"

    def _ready(self) -> tuple[int, ...] | None:
        """Return the learners to average with next if each of them has sent new weights; otherwise None."""
        peers = in_peers(self.settings.graph, self._present(), self.settings.rank, self._mixes)
        return peers if all(self.mailbox.version(peer) != self._used.get(peer, -1) for peer in peers) else None

    def _wait(self, ready: Callable[[], tuple[int, ...] | None], limit_s: float = np.inf) -> tuple[int, ...] | None:
        """Wait until ``ready`` returns learners, and return them; None after ``limit_s`` s, or if told to end."""
        began_s = time.monotonic()
        while (found := ready()) is None and self.learner.alive() and time.monotonic() - began_s < limit_s:
            if isinstance(self.mailbox, SocketMailbox):
                self.mailbox.send_again()
            time.sleep(_TURN_S)
        self._waited_s += time.monotonic() - began_s
        return found

    def _mix(self, peers: tuple[int, ...]) -> bool:
        """Replace the weights by their mean with the newest weights of ``peers``; returns False if none were usable."""
        moved = self.parameters - self._began if self.settings.age_corrected else None
        used = self._add(peers, self.weights)
        shares = [progress_since(self.mailbox.posted_ns(peer), self._began_ns, self._posted_ns) for peer in used]
        self._ages += shares
        if moved is not None:
            self.parameters.add_(moved, alpha=sum(shares))
        self.weights /= 1 + len(used)
        if self._log and used:
            self._log.mixed(used, self._moved())
            self._averaged = 1 + len(used)
        return bool(used)

    def _add(self, peers: Iterable[int], total: Tensor) -> dict[int, int]:
        """Add to ``total`` the newest weights that each of ``peers`` has sent; returns their {learner: version}.

        Unusable weights are left out. All messages are marked as used.
        """
        used = {}
        for peer in peers:
            version = self._used[peer] = self.mailbox.take(peer, self._message)
            if version < 0:
                continue
            parameters = self._message[: self.parameters.numel()]  # the statistics after them may exceed MOST
            if parameters.min() >= -MOST and parameters.max() <= MOST and np.isfinite(self._message).all():
                total += torch.from_numpy(self._message).to(total.device)
                used[peer] = version
            else:
                self._refuse(peer, version)
        return used

    def _refuse(self, peer: int, version: int) -> None:
        """Count an unusable message of a learner, and warn the user of the first, the tenth, the hundredth etc."""
        count = self._refused[peer] = self._refused.get(peer, 0) + 1
        self._refused_since_report += 1
        if str(count).strip("0") == "1":
            self.learner.warn(
                f"message {version} of {trainer_id(peer).name} was not mixed, because it has weights that "
                f"are not finite or larger than {MOST:g} ({count} refused messages of this learner so far); see its "
                "log, and detach it if this continues"
            )

    def _adopt(self) -> None:
        """Replace the weights by the mean of the neighbours' newest usable messages, if there are any.

        Messages that are sent over sockets may not have arrived yet, so the learner waits up to FIRST_MESSAGE_S.
        """
        sent = isinstance(self.mailbox, SocketMailbox)
        peers = (self._wait(self._senders, FIRST_MESSAGE_S) if sent else self._senders()) or ()
        total = torch.zeros_like(self.weights)
        used = self._add(peers, total)
        if used:
            self.weights.copy_(total / len(used))
            self.consumed.take_over(self.counts.total[0])  # learners send weights only when they learn
            self.consumed.forget_parts()  # the neighbours' weights lack the minibatches since the last exchange
            if self.outer is not None:
                self.outer.begin(self.parameters)
        self._averaged = len(used)
        if self._log:
            self._log.adopted(used)
        others = {peer: self.mailbox.version(peer) for peer in self._present() if peer not in peers}
        self._used |= others  # this learner may have used these before a restart

    def _senders(self) -> tuple[int, ...] | None:
        """Return the neighbours that have sent weights; None if there are neighbours and none has."""
        known = neighbours(self.settings.graph, self._present(), self.settings.rank)
        return tuple(peer for peer in known if self.mailbox.version(peer) >= 0) or (None if known else ())

    def _moved(self) -> float:
        """Return the L2 norm of the change of the parameters since the last call."""
        change = float(torch.linalg.vector_norm(self.parameters - self._before))
        self._before.copy_(self.parameters)
        self._averaged = 0
        return change

    # Messages --------------------------------------------------------------------------------------------------------

    def _open_mailbox(self, endpoints: Endpoints | None) -> Mailbox:
        """Open the mailbox for weights, in shared memory or on a socket; raises ChannelError if it cannot listen."""
        settings, each = self.settings, self.settings.messages.each
        rank, size, incarnation = settings.rank, self.weights.numel(), settings.incarnation
        if settings.host:
            assert endpoints is not None
            transport = tcp_transport(endpoints, settings.host)
            return SocketMailbox(rank, size, transport, self._readers, incarnation, self.counts, self._present)
        if isinstance(each, Shm):
            return SharedMailbox(ByLearner(each), rank)
        return SocketMailbox(rank, size, ipc_transport(ByLearner(each), rank), self._readers, incarnation)

    def _readers(self) -> list[int]:
        graph, rank, present = self.settings.graph, self.settings.rank, self._present()
        return [peer for peer in present if rank in neighbours(graph, present, peer)]


def _names(learners: Collection[int]) -> str:
    return " and ".join(trainer_id(learner).name for learner in sorted(learners))
