"""The barrier and the all-gather over it: learners in lock-step, of which one may be killed or told to end."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from actorlearn.memory.fields import Field
from actorlearn.parameters.barrier import SLOTS, SharedBarrier, barrier_fields
from actorlearn.parameters.interface import PeerLost, Stopped
from tests.interleavings.arrays import Words
from tests.interleavings.code import Done, Process, choose, expect
from tests.interleavings.explore import Scenario

WIDTH = 2
"""Words of a row: enough to be half written."""


@dataclass
class Learners:
    """Learners that pass barriers, each with its own numbers at each barrier."""

    kind: type[SharedBarrier]
    gathers: bool
    learners: int
    barriers: int
    told: bool
    places: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.words = Words()
        everyone, rows = self.learners, (SLOTS, self.learners, WIDTH)
        self.segment: Any = self.words.create("arrived", barrier_fields(everyone))
        self.rows: Any = self.words.create("gradients", [Field("rows", "float32", rows, -1)])
        seen = [Field("dead", "int64", (1,), 0), Field("acted", "int64", (everyone,), 0)]
        self.seen: Any = self.words.create("seen", seen)
        for rank in range(everyone):
            self.words.lock(f"arrived.lock-{rank}")

    def take_place(self, rank: int) -> None:
        self.places[rank] = self.kind(self.segment, self.rows, rank, lambda: self.alive(rank))

    def alive(self, rank: int) -> bool:
        """Whether to wait on; at the first barrier a death is known by a newer list of learners, later by a lock."""
        if self.told and rank == 0 and choose(2):
            return False
        return self.places[rank].arrivals > 1 or not self.seen["dead"][0]

    def step(self, rank: int, state: int) -> Hashable:
        """Take the place in state -1, else pass one barrier."""
        if state < 0:
            try:
                self.take_place(rank)
            except RuntimeError:
                return Done(("Refused", self.barriers))
            return 0
        place = self.places[rank]
        place.arrivals = state
        if state == self.barriers:
            return Done(("all", state))
        try:
            said = self.gather_numbers(rank, state)
        except (PeerLost, Stopped) as lost:
            copy.copy(place).close()  # releases its locks; other interleavings still use the place
            return Done((type(lost).__name__, state))
        expected = [[_said(other, state)] * said.shape[1] for other in range(self.learners)]
        expect(said.tolist() == expected, f"barrier {state} gave {said.tolist()}, and not {expected}")
        self.seen["acted"][rank] = state + 1
        return state + 1

    def gather_numbers(self, rank: int, barrier: int) -> Any:
        place = self.places[rank]
        if self.stays(barrier):
            return np.asarray(place.gather(np.full(WIDTH, _said(rank, barrier), np.float32)))
        return place.gather_numbers([_said(rank, barrier)])[:, :1]

    def stays(self, barrier: int) -> bool:
        """Whether it is an all-gather; the first is not, because a learner may never come to it."""
        return self.gathers and barrier > 0

    def at_end(self, said: dict[str, Any], word: Any) -> None:
        acted = max(word(f"seen.acted[{rank}]") for rank in range(self.learners))
        ended = {name: how for name, how in said.items() if how}
        excused = {name for name, (how, at) in ended.items() if how == "Stopped" and not self.stays(at)}
        left = {name: how for name, how in ended.items() if how[1] < acted and name not in excused}
        expect(not left, f"a learner has passed {acted} barriers, and these that live have not: {left}")

    def writers(self) -> dict[str, str]:
        own = {"seen.dead[0]": f"learner-{self.learners - 1}"}
        for rank in range(self.learners):
            rows = [f"{array}[{slot},{rank}," for array in ("arrived.numbers", "gradients.rows") for slot in range(2)]
            own |= dict.fromkeys([*rows, f"arrived.arrived[{rank},", f"seen.acted[{rank}]"], f"learner-{rank}")
        return own


def passing(
    kind: type[SharedBarrier] = SharedBarrier,
    *,
    gathers: bool = False,
    learners: int = 2,
    barriers: int = 3,
    kills: int = 1,
    told: bool = False,
    placed: bool = False,
    back: bool = False,
) -> Scenario:
    """Learners that pass barriers; with ``gathers`` all barriers but the first are all-gathers of a row.

    Invariants: all read the same numbers, of this barrier and whole; all living learners pass a barrier, or none.
    ``told``: learner 0 may be told to end while it waits. ``placed``: all have taken their places at the beginning.
    ``back``: a killed learner comes back to the same barrier, and must be refused.
    """
    all_ = Learners(kind, gathers, learners, barriers, told)
    last = learners - 1
    processes, held = [], {}
    for rank in range(learners):
        if placed:
            all_.take_place(rank)
            held[f"arrived.lock-{rank}"] = f"learner-{rank}"
        again = -1 if back and rank == last else None
        step = partial(all_.step, rank)
        processes.append(Process(f"learner-{rank}", 0 if placed else -1, step, mortal=rank == last, again=again))
    return Scenario(
        f"{'all-gather' if gathers else 'barrier'} of {learners}",
        all_.words,
        processes,
        kills,
        all_.writers(),
        at_death={f"learner-{last}": [("seen.dead[0]", 1)]},
        at_end=all_.at_end,
        held=held,
    )


def _said(rank: int, barrier: int) -> int:
    return 10 * (rank + 1) + barrier
