"""Orders that a processor may give to loads and stores, as seen by the other processes.

``StoreBuffers`` is x86-TSO (Owens, Sarkar, Sewell 2009): each process's stores wait in a queue of its own, from which
it reads its own newest, and reach memory in order, at any time. Words of one array assignment may reach it in any order
among themselves, as string copies do. Taking and giving up a lock is a system call and drains the queue.

A queue is not emptied word by word at all possible times, because no process could tell them apart, but as late as it
matters: a process that reads a word sees memory as it is, or with the queue emptied up to that word.

Retired stores of a killed process do reach memory. So a kill cuts the queue anywhere: the stores before the cut arrive,
and then the locks are free. If such a store arrived later, that would equal a later kill of a process that was not
scheduled; a store that is lost equals an earlier kill.
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
"""Of a group up to this size any stores may have arrived at a kill; of a larger group only the first or the last."""


class StoreBuffers:
    """The order of x86-64."""

    def begin(self, values: list[Any], processes: int) -> Shared:
        """Return memory with empty queues."""
        return tuple(values), ((),) * processes

    def memory(self, shared: Shared) -> list[Any]:
        """Return all words in memory."""
        return list(shared[0])

    def load(self, shared: Shared, process: int, address: int) -> list[tuple[Any, Shared]]:
        """Return the values that the process may read there, each with memory and queues after the read."""
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
        return memory, replaced(queues, process, tuple(queue))

    def drain(self, shared: Shared, process: int) -> Shared:
        """Move all stores of the process to memory."""
        memory, queues = shared
        if not queues[process]:
            return shared
        changed = list(memory)
        for group in queues[process]:
            for address, value in group:
                changed[address] = value
        return tuple(changed), replaced(queues, process, ())

    acquired = released = drain

    def settled(self, shared: Shared, address: int) -> bool:
        """Whether all processes read the same there, until the next store."""
        return not any(_waits(queue, address) for queue in shared[1])

    def arrivals(self, shared: Shared) -> list[tuple[int, Shared]]:
        """Return possible arrivals of stores to words that two processes have written, because their order matters."""
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
        """Return what memory and queues may be when a process is killed."""
        memory, queues = shared
        queue, found = queues[process], []
        for at, group in enumerate(queue):
            sizes = range(len(group))
            parts = [group[:size] for size in sizes] + [group[size:] for size in sizes[1:]]
            if len(group) <= MOST_SUBSETS:
                parts = [part for size in sizes for part in combinations(group, size)]
            found += [(*queue[:at], part) if part else queue[:at] for part in parts]
        found.append(queue)
        return [self.drain((memory, replaced(queues, process, cut)), process) for cut in found]


def replaced(parts: tuple[Any, ...], process: int, part: Any) -> tuple[Any, ...]:
    """Return the parts of all processes with another one for this process."""
    return (*parts[:process], part, *parts[process + 1 :])


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
    return tuple(changed), replaced(queues, process, tuple(rest))
