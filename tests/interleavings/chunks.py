"""The parameter store: learners that update its chunks and fill it; each may be killed and come back."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from actorlearn.parameters.store import LearnerRecord, SharedStore, store_fields
from tests.interleavings.arrays import Words
from tests.interleavings.code import Done, Process, expect
from tests.interleavings.explore import Scenario

BACK = "back"
"""State of a learner that was killed."""
PARAMETERS = 2
"""Words of a chunk of weights: enough to be half written."""


def _stores(kind: type[SharedStore], learners: int, chunks: int) -> tuple[Words, list[SharedStore]]:
    words = Words()
    segment: Any = words.create("store", store_fields(PARAMETERS * chunks, 0, 0, learners, chunks))
    segment["values"][0] = 0.0
    return words, [kind(segment, rank, PARAMETERS * chunks, lambda: None) for rank in range(learners)]


def updating(
    kind: type[SharedStore] = SharedStore,
    *,
    learners: int = 2,
    rollouts: int = 2,
    chunks: int = 1,
    kills: int = 1,
    guarded: bool = True,
) -> Scenario:
    """Learners that update every chunk in every rollout; the first may be killed, and then repeats its rollout.

    An update adds 1 to its learner's digit in every word of a chunk, unless the chunk has it already, as in ``Async``.
    Invariants: a chunk is read whole; the steps that a learner reads never become fewer; at the end each update is in
    each chunk once.
    """
    words, stores = _stores(kind, learners, chunks)

    def learner(rank: int) -> Process:
        store = stores[rank]

        def step(state: Any) -> Hashable:
            if state == BACK:
                record = store.record
                return (record.rollouts_learned if record else 0), tuple(range(chunks)), 0
            rollout, waiting, heard = state
            if rollout == rollouts:
                return Done()
            if not waiting:
                steps = (rollout + 1) * (100 if rank == 0 else 1)
                store.settle(LearnerRecord(rollout + 1, steps, steps, rollout + 1, 0, 0, 0))
                env_steps = store.env_steps if rank else 0  # learner 0 does not read, to explore fewer states
                expect(env_steps >= heard, f"{env_steps} steps are read after {heard}")
                return rollout + 1, tuple(range(chunks)), env_steps
            with store.locked(waiting) as chunk:
                values = np.asarray(store.current(chunk)).ravel()
                expect(len(set(values)) == 1, f"version {store.version(chunk)} of chunk {chunk} holds {values}")
                if rollout > store.applied(chunk):
                    store.spare(chunk)[:] = values + 10**rank
                    store.commit(chunk, rollout)
            return rollout, tuple(other for other in waiting if other != chunk), heard

        return Process(f"learner-{rank}", (0, tuple(range(chunks)), 0), step, mortal=rank == 0)

    def at_end(said: dict[str, Any], word: Any) -> None:
        expected = float(sum(rollouts * 10**rank for rank in range(learners)))
        for chunk in range(chunks):
            slot = word(f"store.version[{chunk},0]") % 2
            values = [word(f"store.values[{slot},0,{chunk * PARAMETERS + at}]") for at in range(PARAMETERS)]
            expect(values == [expected] * PARAMETERS, f"chunk {chunk} holds {values} and not {expected}")

    own = {f"store.settled[{rank},": f"learner-{rank}" for rank in range(learners)}
    own |= {f"store.records[{slot},{rank},": f"learner-{rank}" for slot in range(2) for rank in range(learners)}
    processes = [learner(rank) for rank in range(learners)]
    processes[0] = replace(processes[0], again=BACK)
    guards = _guards(range(chunks)) if guarded else {}
    return Scenario("store: updates", words, processes, kills, own, guards, at_end=at_end)


def _guards(chunks: Sequence[int]) -> dict[str, str]:
    """Words of the store, with the lock of each."""
    words = {f"store.version[{chunk},": f"store.lock-{chunk}" for chunk in chunks}
    for chunk, slot in product(chunks, range(2)):
        words[f"store.applied[{slot},{chunk},"] = f"store.lock-{chunk}"
        own = range(chunk * PARAMETERS, (chunk + 1) * PARAMETERS)
        words |= {f"store.values[{slot},0,{at}]": f"store.lock-{chunk}" for at in own}
    return words


def filling(kind: type[SharedStore] = SharedStore, *, kills: int = 1, guarded: bool = True) -> Scenario:
    """Learners that each fill the store if no other has, as ``Async.join`` does, and then read it.

    Invariant: all chunks that a learner reads, and its steps and updates, are of one learner.
    """
    words, stores = _stores(kind, 2, 2)

    def learner(rank: int) -> Process:
        store, own = stores[rank], float(rank + 1)

        def step(state: str) -> Hashable:
            if state == "joining":
                with store.locked([0]):
                    if not store.filled:
                        for chunk in range(2):
                            store.spare(chunk)[:] = own
                            store.commit(chunk)
                        store.fill(100 * (rank + 1), rank + 1)
                return "pulling"
            taken = []
            for chunk in range(2):
                with store.locked([chunk]):
                    taken += np.asarray(store.current(chunk)).ravel().tolist()
            began = [int(word) for word in np.asarray(words.segments["store"]["filled"][1:3])]
            of = {*taken, began[0] / 100, float(began[1])}
            expect(len(of) == 1, f"chunks hold {taken} at {began[0]} steps, {began[1]} updates")
            return Done(of.pop())

        return Process(f"learner-{rank}", "joining", step, mortal=True, again="joining")

    def at_end(said: dict[str, Any], word: Any) -> None:
        expect(len(set(said.values())) == 1, f"learners begin with weights of {said}")

    guards = {"store": "store.lock-0"} if guarded else {}
    return Scenario("store: filling", words, [learner(rank) for rank in range(2)], kills, guards=guards, at_end=at_end)
