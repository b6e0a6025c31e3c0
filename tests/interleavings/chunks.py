"""The parameter store: learners that update its chunks and fill it; each may be killed and come back."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from actorlearn.parameters.store import Store, store_fields
from tests.interleavings.arrays import Words
from tests.interleavings.code import Done, Process, expect
from tests.interleavings.explore import Scenario

PARAMETERS = 2
"""Words of the one chunk of weights: enough to be half written."""


def _stores(kind: type[Store], learners: int, chunks: int) -> tuple[Words, list[Store]]:
    words = Words()
    segment: Any = words.create("store", store_fields(PARAMETERS * chunks, 0, 0, learners, chunks))
    segment["values"][0] = 0.0
    return words, [kind(segment, rank, PARAMETERS * chunks, lambda: None) for rank in range(learners)]


def updating(kind: type[Store] = Store, *, learners: int = 2, updates: int = 2, kills: int = 1) -> Scenario:
    """Learners that add 1 to every word of a chunk, and say so in a word of their own once they have committed.

    Invariants: a chunk is whole, and holds as many updates as its version says; at the end none that was said is lost.
    """
    words, stores = _stores(kind, learners, 1)

    def learner(rank: int) -> Process:
        store = stores[rank]

        def step(done: int) -> Hashable:
            if done == updates:
                return Done(done)
            with store.locked([0]) as chunk:
                version, values = store.version(chunk), np.asarray(store.current(chunk))
                expect((values == version).all(), f"version {version} of the chunk holds {values.tolist()}")
                store.spare(chunk)[:] = values + 1
                store.commit(chunk)
            store.count(10, 1)
            return done + 1

        return Process(f"learner-{rank}", 0, step, mortal=rank == 0)

    def at_end(said: dict[str, Any], word: Any) -> None:
        version, counted = word("store.version[0,0]"), [word(f"store.counts[{r},1]") for r in range(learners)]
        values = [word(f"store.values[{version % 2},0,{at}]") for at in range(PARAMETERS)]
        expect(set(values) == {float(version)}, f"version {version} of the chunk holds {values} at the end")
        lost = [rank for rank in range(learners) if said[f"learner-{rank}"] is None]
        expect(sum(counted) <= version <= sum(counted) + len(lost), f"{version} versions, counted {counted}")

    own = {f"store.counts[{rank},": f"learner-{rank}" for rank in range(learners)}
    return Scenario("store: updates", words, [learner(r) for r in range(learners)], kills, own, at_end=at_end)


def filling(kind: type[Store] = Store, *, kills: int = 1) -> Scenario:
    """Learners that each fill the store if nobody has, as ``Async.join`` does, and then take what it holds.

    Invariants: all chunks are of one learner, and so are the steps that they begin with.
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
            of = {*taken, store.env_steps / 100, float(store.updates)}
            expect(len(of) == 1, f"taken are {taken} at {store.env_steps} steps, {store.updates} updates")
            return Done(of.pop())

        return Process(f"learner-{rank}", "joining", step, mortal=True, again="joining")

    def at_end(said: dict[str, Any], word: Any) -> None:
        expect(len(set(said.values())) == 1, f"learners begin with weights of {said}")

    own = {f"store.counts[{rank},": f"learner-{rank}" for rank in range(2)}
    return Scenario("store: filling", words, [learner(rank) for rank in range(2)], kills, own, at_end=at_end)
