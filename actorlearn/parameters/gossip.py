"""Learners that mix their weights: each takes its own steps, and now and then the mean with those of its in-peers.

Reads gradients, and messages of other learners; writes its own flat weights, its optimizer's state and its message.
Source: Assran et al. (2019), algorithm 1, with the rules of their code where the paper has none: a message is never
waited for, used at most once, and mixed with weight 1 / (1 + in-degree) once every in-peer has a new one. Beyond
``max_staleness`` exchanges without mixing a learner does wait. What the optimizer remembers is each learner's own.
A message with weights that are not finite, or beyond MOST, is refused as if its sender were no in-peer this time.

A learner that is killed loses its weights, and its peers keep traces of them. So it says of which rollout it shows them
something before it does, and that rollout is not learned from again: each is at most once in anybody's weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from actorlearn.address import Shm
from actorlearn.failpoints import hit
from actorlearn.memory.shared import Segment
from actorlearn.parameters.alone import Alone
from actorlearn.parameters.consensus import cosines, measure
from actorlearn.parameters.exchange_log import ExchangeLog
from actorlearn.parameters.interface import Agreed, Exchange, Joined, Learner, Position, Stepped
from actorlearn.parameters.mailbox import SharedMailbox, open_mailbox
from actorlearn.parameters.mixing import in_peers, neighbours
from actorlearn.parameters.settings import AloneExchangeSettings, GossipExchangeSettings
from actorlearn.parameters.shared_counts import SharedCounts
from actorlearn.wire.identity import trainer_id

FIRST_MESSAGE_S = 30.0
"""Longest that a learner which comes later waits for weights of others before it goes on with its own."""
MOST = 1e18
"""Largest size of a weight in a message that is mixed: the square of a larger one may be infinite in float32."""
_ROUNDING = 2.0**-23
"""Rounding of float32: the mean of n weights is off by less than n times this share of their size."""
_TURN_S = 1e-3
"""Sleep between two looks at what has come."""


class Gossip(Exchange):
    """The exchange of one of several learners that mix their weights."""

    def __init__(self, settings: GossipExchangeSettings, learner: Learner) -> None:
        """Bind to the own segments."""
        self.settings, self.weights = settings, learner.weights
        self.own = Alone(AloneExchangeSettings(), learner)
        self._alive, self._present_now, self._warn = learner.alive, learner.present, learner.warn
        self._learners: tuple[int, ...] = ()
        """The learners that there were when this was looked at last."""
        self._position, self._rollout = learner.position, 0
        self._segments: list[Segment] = []
        self.counts = SharedCounts(self._open(settings.counts), settings.rank)
        self.mailbox = open_mailbox(
            settings.messages, settings.rank, self.weights.numel(), self._readers, settings.incarnation
        )
        self._log = ExchangeLog(Path(settings.log), anew=not self.counts.begun) if settings.log else None
        self._gradients = SharedMailbox(settings.gradients, settings.rank) if settings.gradients else None
        self._message = np.empty(self.weights.numel(), np.float32)
        self._before = torch.empty_like(self.weights if self._log else self.weights[:0])
        """The weights when a change of them was logged last."""
        self._averaged = 0
        """Number of learners whose weights made the own ones since then; 0 = they were not mixed."""
        self._used: dict[int, int] = {}
        """Version of each peer's message that was used last."""
        self._mixes = self._steps = self._pending = self._unmixed = self._batch_steps = 0
        self._staleness: list[int] = []
        """Exchanges in a row that did not mix, after each exchange since the last report."""
        self._refused: dict[int, int] = {}
        """Number of each peer's messages that could not be used."""
        self._reported_refused = 0
        """Their sum over all peers at the report before."""
        self._waited_s = 0.0

    def state(self) -> dict[str, Tensor]:
        """Return the own optimizer's state."""
        return self.own.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy a checkpoint's state in."""
        self.own.restore(state)

    def join(self, env_steps: int, updates: int) -> Joined:
        """Begin with the own weights; one that was killed, or attached, takes those of its in-peers instead.

        All draw the same from the seed, and a run that is resumed goes on with each learner's own checkpoint.
        """
        if self.counts.begun or (self.settings.rank >= self.settings.learners and not updates):
            self._adopt()
        elif updates and self._log:
            self._log.adopted({})
        if not self.counts.begun:
            self.counts.begin(env_steps, updates)
        if self._log:
            self._before.copy_(self.weights)
        return Joined(*self.counts.total, self._resumed_position())

    def _resumed_position(self) -> Position | None:
        """The rollout after the one in which an incarnation before this one died, if others have some of it."""
        position = self._position()
        return Position(self.counts.claimed, position.used) if self.counts.claimed > position.rollout else None

    def agree(self, env_steps: int, optimizer_steps: int, draining: bool = False) -> Agreed:
        """Count the batch on top of what all have learned until now; nobody is waited for."""
        self._batch_steps, updates = (0, 0) if draining else (env_steps, 1)
        self.own.agree(env_steps, optimizer_steps, draining)
        self._rollout = self._position().rollout
        before = self.counts.total
        return Agreed(before[0] + self._batch_steps, before[1] + updates, draining)

    def merge(self, moments: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Combine the moments with the own statistics, which are mixed with the weights."""
        self.own.merge(moments, combine)

    def step(self, gradients: Tensor, learning_rate: float, usable: bool = True) -> Stepped:
        """Take a step of the own optimizer; every `local_steps` of them an exchange."""
        every = self.settings.gradient_every
        if self._gradients and self._steps % every == 0 and bool(torch.isfinite(gradients).all()):
            self._gradients.post(gradients.cpu().numpy())
        stepped = self.own.step(gradients, learning_rate, usable)
        self._steps += 1
        self._pending += 1
        if self._pending >= self.settings.local_steps:
            self._pending = 0
            self._exchange()
        return stepped

    def settle(self) -> None:
        """Count the batch."""
        self.counts.add(self._rollout, self._batch_steps, 1)
        self.own.settle()

    def metrics(self) -> dict[str, Any]:
        """Return exchanges, how many in a row did not mix, the share that did, waiting, and how far learners are apart.

        `messages_refused` since the last call were of peers whose weights could not be used.

        `consensus_distance` is the l2 norm from the own newest message to the mean of everybody's; `gradient_cosine`
        is of each pair.
        """
        stale, waited_s = self._staleness, self._waited_s
        self._staleness, self._waited_s = [], 0.0
        found: dict[str, Any] = {"exchanges": len(stale), "learner_wait_s": waited_s, **self._apart()}
        refused = sum(self._refused.values())
        found["messages_refused"], self._reported_refused = refused - self._reported_refused, refused
        if stale:
            mean = sum(stale) / len(stale)
            found |= {"staleness_mean": mean, "staleness_max": max(stale), "mixed_share": stale.count(0) / len(stale)}
        return found

    def _apart(self) -> dict[str, Any]:
        rank, present, apart = self.settings.rank, self._present(), dict[str, Any]()
        others = [peer for peer in present if peer != rank and self.mailbox.version(peer) >= 0]
        if others and self.mailbox.version(rank) >= 0:  # one that is sent is with the others alone
            measured = measure([rank, *others], self.mailbox.take, self.weights.numel())
            apart["consensus_distance"] = measured.distance
            if self._log:
                self._log.measured(measured)
        if self._gradients and rank == present[0]:  # one says it for all
            kept = {peer: np.empty_like(self._message[: self.own.parameters.numel()]) for peer in present}
            kept = {peer: gradient for peer, gradient in kept.items() if self._gradients.take(peer, gradient) >= 0}
            apart["gradient_cosine"] = cosines(kept)
        return apart

    def close(self) -> None:
        """Leave; the newest message stays."""
        for mapped in (self.mailbox, self._gradients, self._log):
            if mapped:
                mapped.close()
        for segment in self._segments:
            segment.close()

    # Exchanges ------------------------------------------------------------------------------------------------------

    def _exchange(self) -> None:
        """Post the own weights; then mix if every in-peer has a new message, or wait for it after too long a time."""
        if self._log:
            rounded = self._averaged * _ROUNDING * float(torch.linalg.vector_norm(self.weights))
            self._log.stepped(self.mailbox.version(self.settings.rank) + 1, self._moved() + rounded)
        self.counts.claim(self._rollout)
        self.mailbox.post(self.weights.detach().cpu().numpy())
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
        self._staleness.append(self._unmixed)

    def _present(self) -> tuple[int, ...]:
        """The learners that there are now, this one in any case; warns of a change of those it mixes with."""
        learners, stays = self._present_now()
        before, self._learners = self._learners, tuple(sorted({*learners, self.settings.rank}))
        if stays and before and before != self._learners and (said := self._change(before, self._learners)):
            self._warn(said)
        return self._learners

    def _change(self, before: tuple[int, ...], now: tuple[int, ...]) -> str:
        """Say whose weights are mixed from now on, and why; nothing where they are the same."""
        graph, rank = self.settings.graph, self.settings.rank
        mixed = neighbours(graph, now, rank)
        if mixed == neighbours(graph, before, rank):
            return ""
        whys = ((set(before) - set(now), "gone"), (set(now) - set(before), "come"))
        why = ", ".join(f"{_names(who)} {'has' if len(who) == 1 else 'have'} {how}" for who, how in whys if who)
        return f"mixes with {_names(mixed) or 'nobody'} from now on: {why}"

    def _ready(self) -> tuple[int, ...] | None:
        """The in-peers there are now, if each has a message that was not used yet; a dead one is none of them."""
        peers = in_peers(self.settings.graph, self._present(), self.settings.rank, self._mixes)
        return peers if all(self.mailbox.version(peer) != self._used.get(peer, -1) for peer in peers) else None

    def _wait(self, ready: Callable[[], tuple[int, ...] | None], limit_s: float = np.inf) -> tuple[int, ...] | None:
        """Wait for what is ready at last; None when this process is to end, or it has taken so many seconds."""
        began_s = time.monotonic()
        while (found := ready()) is None and self._alive() and time.monotonic() - began_s < limit_s:
            time.sleep(_TURN_S)
        self._waited_s += time.monotonic() - began_s
        return found

    def _mix(self, peers: tuple[int, ...]) -> bool:
        """Become the mean of the own weights and the messages of these; False when none could be used."""
        used = self._add(peers, self.weights)
        self.weights /= 1 + len(used)
        if self._log and used:
            self._log.mixed(used, self._moved())
            self._averaged = 1 + len(used)
        return bool(used)

    def _add(self, peers: Iterable[int], total: Tensor) -> dict[int, int]:
        """Add the messages of these that can be used; their versions. None is looked at twice."""
        used = {}
        for peer in peers:
            version = self._used[peer] = self.mailbox.take(peer, self._message)
            if version < 0:
                continue
            parameters = self._message[: self.own.parameters.numel()]  # a variance behind them may be larger
            if parameters.min() >= -MOST and parameters.max() <= MOST and np.isfinite(self._message).all():
                total += torch.from_numpy(self._message).to(total.device)
                used[peer] = version
            else:
                self._refuse(peer, version)
        return used

    def _refuse(self, peer: int, version: int) -> None:
        count = self._refused[peer] = self._refused.get(peer, 0) + 1
        if str(count).strip("0") == "1":  # the first, the tenth, the hundredth …
            self._warn(
                f"message {version} of {trainer_id(peer).name} is not mixed: it has weights that are not finite, "
                f"or beyond {MOST:g}; {count} of its messages so far. Its log says what happened to it; detach it "
                "if it goes on"
            )

    def _adopt(self) -> None:
        """Become the mean of the newest messages of those whose weights this learner mixes, if there are any.

        A message that travels may be on its way; in shared memory it is here, if there ever was one.
        """
        peers = (self._wait(self._heard, FIRST_MESSAGE_S) if self.settings.listens else self._heard()) or ()
        total = torch.zeros_like(self.weights)
        used = self._add(peers, total)
        if used:
            self.weights.copy_(total / len(used))
        self._averaged = len(used)
        if self._log:
            self._log.adopted(used)
        others = {peer: self.mailbox.version(peer) for peer in self._present() if peer not in peers}
        self._used |= others  # by the incarnation before, perhaps

    def _heard(self) -> tuple[int, ...] | None:
        """Learners whose weights this one mixes and of whom there is a message; None while there is none of any."""
        known = neighbours(self.settings.graph, self._present(), self.settings.rank)
        return tuple(peer for peer in known if self.mailbox.version(peer) >= 0) or (None if known else ())

    def _moved(self) -> float:
        """l2 norm of the change of the weights since this was asked last."""
        change = float(torch.linalg.vector_norm(self.weights - self._before))
        self._before.copy_(self.weights)
        self._averaged = 0
        return change

    # Segments and sockets --------------------------------------------------------------------------------------------

    def _open(self, segment: Shm) -> Segment:
        self._segments.append(Segment.open(segment.file))
        return self._segments[-1]

    def _readers(self) -> list[int]:
        """The learners that mix this one's weights."""
        graph, rank, present = self.settings.graph, self.settings.rank, self._present()
        return [peer for peer in present if rank in neighbours(graph, present, peer)]


def _names(learners: Collection[int]) -> str:
    return " and ".join(trainer_id(learner).name for learner in sorted(learners))
