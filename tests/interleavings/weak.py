"""Processors with a weaker order than x86, such as ARM: which fences the protocols would need. Runs need only x86.

``Relaxed`` is a machine without order between words. Others may see a store at any time, whatever was stored before it.
A load may be made early and give an older value of the word, but none older than this process has seen. Fences (ARM's
dmb ish) put loads and stores of their process in order, as those of C11 do (Lahav et al. 2017, without stores that are
made before an earlier load, which only shows in code without conditions). Locks are system calls and order everything.
No process is killed here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from tests.interleavings.orders import replaced

View = tuple[int, ...]
"""For each word the number of the oldest value that may still be seen."""
Fence = tuple[str, str, str]
"""("before" or "after", "load" or "store", field)."""
Shared = tuple[tuple[tuple[tuple[Any, View], ...], ...], tuple[tuple[View, View, View], ...], View]
"""For each word all its values, each with the view that comes with it; for each process its view, its view after the
next fence, and the view that its stores carry; and the view that a lock gives."""


class Relaxed:
    """Memory with fences at these places and no others."""

    def __init__(self, fences: Collection[Fence] = ()) -> None:
        self.fences = set(fences)
        self.names: list[str] = []

    def name(self, names: Iterable[str]) -> Relaxed:
        """Set the names of words; a fence names the field, which stands between the segment's name and the index."""
        self.names = [name.split(".")[-1].split("[")[0] for name in names]
        return self

    def begin(self, values: list[Any], processes: int) -> Shared:
        nothing = (0,) * len(values)
        return tuple(((value, nothing),) for value in values), ((nothing, nothing, nothing),) * processes, nothing

    def load(self, shared: Shared, process: int, address: int) -> list[tuple[Any, Shared]]:
        shared = self._fenced(shared, process, "before", "load", address)
        words, views, locks = shared
        sees, will_see, shows = views[process]
        found = []
        for at in range(sees[address], len(words[address])):
            value, along = words[address][at]
            own = (*sees[:address], at, *sees[address + 1 :])
            then = words, replaced(views, process, (own, _joined(will_see, along), shows)), locks
            found.append((value, self._fenced(then, process, "after", "load", address)))
        return found

    def own(self, shared: Shared, _process: int, address: int) -> Any:
        return shared[0][address][-1][0]

    def store(self, shared: Shared, process: int, stores: tuple[tuple[int, Any, int], ...]) -> Shared:
        for address, value, _ in stores:
            words, views, locks = self._fenced(shared, process, "before", "store", address)
            sees, will_see, shows = views[process]
            at = len(words[address])
            own = (*sees[:address], at, *sees[address + 1 :])
            along = (*shows[:address], at, *shows[address + 1 :])
            words = (*words[:address], (*words[address], (value, along)), *words[address + 1 :])
            then = words, replaced(views, process, (own, will_see, shows)), locks
            shared = self._fenced(then, process, "after", "store", address)
        return shared

    def acquired(self, shared: Shared, process: int) -> Shared:
        words, views, locks = shared
        sees = _joined(_joined(views[process][0], views[process][1]), locks)
        return words, replaced(views, process, (sees, sees, sees)), _joined(locks, sees)

    released = drain = acquired

    def settled(self, shared: Shared, address: int) -> bool:
        return len(shared[0][address]) == 1

    def arrivals(self, _shared: Shared) -> list[tuple[int, Shared]]:
        return []

    def memory(self, shared: Shared) -> list[Any]:
        return [values[-1][0] for values in shared[0]]

    def _fenced(self, shared: Shared, process: int, moment: str, kind: str, address: int) -> Shared:
        if (moment, kind, self.names[address]) not in self.fences:
            return shared
        words, views, locks = shared
        sees = _joined(*views[process][:2])
        return words, replaced(views, process, (sees, sees, sees)), locks


def _joined(one: View, other: View) -> View:
    return one if one == other else tuple(map(max, one, other))
