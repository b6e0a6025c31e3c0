"""Orders that a processor may give to loads and stores, as seen by the other processes.

``StoreBuffers`` is x86-TSO (Owens, Sarkar, Sewell 2009): each process's stores wait in a queue of its own, from which
it reads its own newest, and reach memory in order, at any time. Words of one array assignment may reach it in any order
among themselves, as string copies do. Taking and giving up a lock is a system call and drains the queue.

A queue is not emptied word by word at all possible times, which nobody could tell apart, but as late as it matters:
when another process looks at a word, it sees memory as it is, or the queue emptied up to that word.

A killed process's retired stores do reach memory; so a kill is: the queue is cut anywhere, what is before the cut
arrives, and then the locks are free. That a store before the cut arrives later is the same as a kill later, of a
process that was not scheduled; that one is lost is the same as a kill before it.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

Group = tuple[tuple[int, Any], ...]
"""Stores that are in no order among themselves: addresses and values."""
Queue = tuple[Group, ...]
Shared = tuple[tuple[Any, ...], tuple[Queue, ...]]
"""Memory by address, and the queue of each process."""

MOST_SUBSETS = 3
"""Words that are written together of which any may have arrived at a kill; of more the first or the last."""


class StoreBuffers:
    """x86-64."""

    def begin(self, values: list[Any], processes: int) -> Shared:
        """Nothing is under way."""
        return tuple(values), ((),) * processes

    def memory(self, shared: Shared) -> list[Any]:
        """All words, where nothing is under way."""
        return list(shared[0])

    def load(self, shared: Shared, process: int, address: int) -> list[tuple[Any, Shared]]:
        """Values that the process may read there, and how things stand then."""
        queues = shared[1]
        for group in reversed(queues[process]):
            for at, value in group:
                if at == address:
                    return [(value, shared)]
        found, at = [shared], 0
        while at < len(found):
            queues = found[at][1]
            for other, queue in enumerate(queues):
                if other != process and _waits(queue, address):
                    seen = _arrived(found[at], other, address)
                    if seen not in found:
                        found.append(seen)
            at += 1
        return [(seen[0][address], seen) for seen in found]

    def own(self, shared: Shared, process: int, address: int) -> Any:
        """The value that a process reads where nobody else writes."""
        for group in reversed(shared[1][process]):
            for at, value in group:
                if at == address:
                    return value
        return shared[0][address]

    def store(self, shared: Shared, process: int, stores: tuple[tuple[int, Any, int], ...]) -> Shared:
        """Queue what the process has written: address, value and bulk (0: alone)."""
        memory, queues = shared
        queue, bulk = list(queues[process]), 0
        for address, value, of in stores:
            if of and of == bulk:
                queue[-1] += ((address, value),)
            else:
                queue.append(((address, value),))
            bulk = of
        return memory, _replaced(queues, process, tuple(queue))

    def drain(self, shared: Shared, process: int) -> Shared:
        """All that the process has written is in memory."""
        memory, queues = shared
        if not queues[process]:
            return shared
        changed = list(memory)
        for group in queues[process]:
            for address, value in group:
                changed[address] = value
        return tuple(changed), _replaced(queues, process, ())

    acquired = released = drain

    def settled(self, shared: Shared, address: int) -> bool:
        """Whether everybody reads the same there, until somebody writes."""
        return not any(_waits(queue, address) for queue in shared[1])

    def arrivals(self, shared: Shared) -> list[tuple[int, Shared]]:
        """Where two have written the same word it matters whose arrives first, though nobody looks: all that may."""
        queues = shared[1]
        waiting = [{address for group in queue for address, _ in group} for queue in queues]
        contended = [
            (process, address)
            for process, own in enumerate(waiting)
            for address in own
            if any(address in others for other, others in enumerate(waiting) if other != process)
        ]
        return [(process, _arrived(shared, process, address)) for process, address in contended]

    def cuts(self, shared: Shared, process: int) -> list[Shared]:
        """Stores of a process that may have arrived when it is killed."""
        memory, queues = shared
        queue, found = queues[process], []
        for at, group in enumerate(queue):
            sizes = range(len(group))
            parts = [group[:size] for size in sizes] + [group[size:] for size in sizes[1:]]
            if len(group) <= MOST_SUBSETS:
                parts = [part for size in sizes for part in combinations(group, size)]
            found += [(*queue[:at], part) if part else queue[:at] for part in parts]
        found.append(queue)
        return [self.drain((memory, _replaced(queues, process, cut)), process) for cut in found]


def _replaced(queues: tuple[Queue, ...], process: int, queue: Queue) -> tuple[Queue, ...]:
    return (*queues[:process], queue, *queues[process + 1 :])


def _waits(queue: Queue, address: int) -> bool:
    return any(at == address for group in queue for at, _ in group)


def _arrived(shared: Shared, process: int, address: int) -> Shared:
    """The process's queue emptied up to the first store to this address."""
    memory, queues = shared
    changed, rest = list(memory), list(queues[process])
    while rest:
        group = rest.pop(0)
        if any(at == address for at, _ in group):
            left = tuple(store for store in group if store[0] != address)
            changed[address] = next(value for at, value in group if at == address)
            if left:
                rest.insert(0, left)
            break
        for at, value in group:
            changed[at] = value
    return tuple(changed), _replaced(queues, process, tuple(rest))
