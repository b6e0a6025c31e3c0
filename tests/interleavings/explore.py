"""Explore every schedule of a few processes, with a bounded number of kills, and each state once.

A state is memory with its store queues, the locks, and the position of each process in its code. Between two states one
process reads one word that others write, takes or releases a lock, or is killed. Actions that concern only the process
itself belong to the step before (partial-order reduction): its stores, which wait in its queue, and its reads of words
that no other process can write at that time. A scenario declares the writer of each word and the lock that guards it;
a store by another process is a violation.

The search looks for errors that a process raises, for violations at the end (``at_end``), and for states from which no
schedule leads to the end, because a process would wait for ever.
"""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.interleavings.arrays import Words
from tests.interleavings.code import (
    CHOOSE,
    DONE,
    FAIL,
    LOAD,
    STEP,
    TRY,
    UNLOCK,
    WAIT,
    Node,
    Process,
    Tree,
    Violation,
)
from tests.interleavings.orders import StoreBuffers

DEAD, ENDED = -1, -2
"""In place of a node's number: the process is dead; ENDED - n: it has ended at node n."""
MOST_STATES = 400_000
Locks = tuple[tuple[tuple[int, bool], ...], ...]
"""Holders of each lock, and whether they hold it exclusively."""
State = tuple[Any, tuple[int, ...], Locks, int]
"""Memory and queues, each process's node, locks, kills left."""


@dataclass
class Scenario:
    """Processes over shared words, and invariants."""

    name: str
    words: Words
    processes: Sequence[Process]
    kills: int = 0
    writers: Mapping[str, str | None] = field(default_factory=dict)
    """Prefixes of names of words -> their only writer ("": no process, None: several); the longest prefix counts."""
    guards: Mapping[str, str] = field(default_factory=dict)
    """Prefixes of names of words -> the lock that a writer must hold."""
    at_death: Mapping[str, Sequence[tuple[str, Any]]] = field(default_factory=dict)
    """Process -> words that show its death to others, with their values from then on."""
    at_end: Callable[[dict[str, Any], Callable[[str], Any]], None] = lambda said, word: None
    """Checks what each process has said at its end (None: it was killed and did not come back), and words."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Lock -> the process that holds it exclusively at the beginning."""


@dataclass(frozen=True)
class Found:
    """The outcome of an exploration."""

    scenario: str
    states: int
    transitions: int
    places: int
    """Positions in the code of all processes together."""
    seconds: float
    violation: str = ""
    schedule: tuple[str, ...] = ()

    def __str__(self) -> str:
        told = f"{self.scenario}: {self.states:,} states, {self.transitions:,} transitions, {self.seconds:.1f} s"
        steps = "".join(f"\n    {step}" for step in self.schedule)
        return f"{told}; {self.violation or 'no violation'}{steps}"


class Explorer:
    """One search through a scenario."""

    def __init__(self, scenario: Scenario, orders: Any = None) -> None:
        self.scenario, self.orders = scenario, orders or StoreBuffers()
        self.tree = Tree(scenario.processes)
        self.names = [process.name for process in scenario.processes]
        words = scenario.words
        self.writer = [self._writer(name) for name in words.names]
        self.guard = [self._guard(name) for name in words.names]
        self._address = {name: at for at, name in enumerate(words.names)}
        self.at_death = [
            tuple((self._address[name], value, 0) for name, value in scenario.at_death.get(own, ()))
            for own in self.names
        ]
        self._states: list[State] = []
        self._number: dict[State, int] = {}
        self._from: list[tuple[int, str]] = []
        self._parts: dict[Any, Any] = {}

    def _writer(self, name: str) -> int | None:
        """Return the only writer of a word; -1: no process writes it, None: any process may."""
        matching = [prefix for prefix in self.scenario.writers if name.startswith(prefix)]
        if not matching:
            return None
        owner = self.scenario.writers[max(matching, key=len)]
        if owner is None:
            return None
        return self.names.index(owner) if owner else -1

    def _guard(self, name: str) -> int | None:
        """Return the lock that a writer of a word must hold, or None."""
        locks = [lock for prefix, lock in self.scenario.guards.items() if name.startswith(prefix)]
        return self.scenario.words.lock(locks[0]) if locks else None

    # Steps -----------------------------------------------------------------------------------------------------

    def _enter(self, shared: Any, nodes: list[int], locks: Locks, process: int, node: Node) -> Any:
        """Let a process run until its question depends on others; set its node."""
        while True:
            if node.stores:
                self._see_that_it_may(locks, process, node)
                shared = self.orders.store(shared, process, node.stores)
            if node.kind == LOAD and self._alone(shared, nodes, locks, process, node.about):
                node = self.tree.after(node, self.orders.own(shared, process, node.about))
            elif node.kind == STEP:
                node = self.tree.root(process, node.about)
            elif node.kind == FAIL:
                raise Violation(f"{self.names[process]}: {node.about}")
            else:
                break
        nodes[process] = node.number
        return shared

    def _see_that_it_may(self, locks: Locks, process: int, node: Node) -> None:
        """Raise Violation if a process writes a word of another process, or writes without the lock."""
        for address, _, _ in node.stores:
            guard, name = self.guard[address], self.scenario.words.names[address]
            if self.writer[address] not in (None, process):
                raise Violation(f"{self.names[process]} writes {name}, which is not its own")
            if guard is not None and (process, True) not in locks[guard]:
                raise Violation(f"{self.names[process]} writes {name} without {self.scenario.words.locks[guard]}")

    def _alone(self, shared: Any, nodes: list[int], locks: Locks, process: int, address: int) -> bool:
        """Whether no other process can change what a process reads there, now or until it releases a lock."""
        writer, guard = self.writer[address], self.guard[address]
        if guard is not None and (process, True) in locks[guard]:
            return True
        if writer is None:
            return False
        if writer in (process, -1):
            return True
        return nodes[writer] < 0 and bool(self.orders.settled(shared, address))

    def begin(self) -> State:
        """Return the first state."""
        processes = self.scenario.processes
        shared = self.orders.begin(self.scenario.words.values, len(processes))
        held, nodes = self.scenario.held, [0] * len(processes)
        locks: Locks = tuple(
            ((self.names.index(held[path]), True),) if path in held else () for path in self.scenario.words.locks
        )
        for index, process in enumerate(processes):
            shared = self._enter(shared, nodes, locks, index, self.tree.root(index, process.start))
        return shared, tuple(nodes), locks, self.scenario.kills

    def following(self, state: State) -> Iterator[tuple[str, Callable[[], State]]]:
        """Yield all possible next events, each with a function that returns the state after it."""
        shared, nodes, locks, kills = state
        for process, number in enumerate(nodes):
            if number < 0:
                continue
            node = self.tree.nodes[number]
            if node.kind == DONE:
                yield f"{self.names[process]} ends", lambda p=process, n=number: self._ended(state, p, n)
            for told, answer, then_shared, then_locks in self._answers(shared, locks, process, node):
                yield (
                    told,
                    lambda p=process, n=node, a=answer, s=then_shared, k=then_locks: self._went(state, p, n, a, s, k),
                )
            if kills and self.scenario.processes[process].mortal:
                for cut in self.orders.cuts(shared, process):
                    yield f"{self.names[process]} is killed", lambda p=process, c=cut: self._killed(state, p, c)
        for process, arrived in self.orders.arrivals(shared):
            yield f"{self.names[process]}'s stores arrive", lambda s=arrived: (s, nodes, locks, kills)

    def _answers(self, shared: Any, locks: Locks, process: int, node: Node) -> Iterator[tuple[str, Any, Any, Locks]]:
        kind, about, name = node.kind, node.about, self.names[process]
        if kind == LOAD:
            word = self.scenario.words.names[about]
            for value, seen in self.orders.load(shared, process, about):
                yield f"{name} reads {word}: {value}", value, seen, locks
        elif kind == TRY:
            lock, alone = about
            others = [how for who, how in locks[lock] if who != process]
            free = not others if alone else not any(others)
            path = self.scenario.words.locks[lock]
            then = _without(locks, process, lock)
            if free:
                then = (*then[:lock], tuple(sorted((*then[lock], (process, alone)))), *then[lock + 1 :])
            acquired = self.orders.acquired(shared, process)
            yield f"{name} {'takes' if free else 'does not get'} {path}", free, acquired, then if free else locks
        elif kind == UNLOCK:
            path = self.scenario.words.locks[about]
            yield (
                f"{name} gives up {path}",
                None,
                self.orders.released(shared, process),
                _without(locks, process, about),
            )
        elif kind == WAIT:
            yield f"{name} waits", None, shared, locks
        elif kind == CHOOSE:
            for option in range(about):
                yield f"{name} is told {option}", option, shared, locks

    def _went(self, state: State, process: int, node: Node, answer: Any, shared: Any, locks: Locks) -> State:
        nodes = list(state[1])
        shared = self._enter(shared, nodes, locks, process, self.tree.after(node, answer))
        return shared, tuple(nodes), locks, state[3]

    def _killed(self, state: State, process: int, shared: Any) -> State:
        nodes, locks = list(state[1]), _without(state[2], process)
        seen = self.at_death[process]
        if seen:
            shared = self.orders.drain(self.orders.store(shared, process, seen), process)
        again = self.scenario.processes[process].again
        if again is None:
            nodes[process] = DEAD
        else:
            shared = self._enter(shared, nodes, locks, process, self.tree.root(process, again))
        return shared, tuple(nodes), locks, state[3] - 1

    def _ended(self, state: State, process: int, number: int) -> State:
        shared, nodes, locks, kills = state
        nodes = (*nodes[:process], ENDED - number, *nodes[process + 1 :])
        return self.orders.drain(shared, process), nodes, _without(locks, process), kills

    # Search ----------------------------------------------------------------------------------------------------

    def explore(self) -> Found:
        """Visit all states up to the first violation."""
        began_s, transitions = time.perf_counter(), 0

        def found(violation: str = "", schedule: Sequence[str] = ()) -> Found:
            seconds = time.perf_counter() - began_s
            counted = len(self._states), transitions, len(self.tree.nodes)
            return Found(self.scenario.name, *counted, seconds, violation, tuple(schedule))

        self._add(self.begin(), -1, "")
        edges: dict[int, array[int]] = {}
        ends: list[int] = []
        waiting = [0]
        while waiting:
            at = waiting.pop()
            state, after, known = self._states[at], array("l"), len(self._states)
            edges[at] = after
            for told, going in self.following(state):
                transitions += 1
                try:
                    after.append(self._add(going(), at, told))
                except Violation as violation:
                    return found(str(violation), (*self._schedule(at), told))
            if all(number < 0 for number in state[1]):
                ends.append(at)
                try:
                    self.scenario.words.values = self.orders.memory(state[0])  # what is read outside of a process
                    self.scenario.at_end(self._said(state), self._word(state))
                except AssertionError as violation:
                    return found(str(violation), self._schedule(at))
            waiting.extend(range(known, len(self._states)))
            if len(self._states) > MOST_STATES:
                raise MemoryError(f"{self.scenario.name}: more than {MOST_STATES:,} states; bound it more closely")
        stuck = _cannot_reach(edges, ends)
        if stuck is not None:
            return found("no schedule leads to the end from here", self._schedule(stuck))
        return found()

    def _add(self, state: State, parent: int, told: str) -> int:
        shared, nodes, locks, kills = state
        shared = tuple(self._parts.setdefault(part, part) for part in shared)
        state = self._parts.setdefault(shared, shared), nodes, self._parts.setdefault(locks, locks), kills
        number = self._number.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
            self._from.append((parent, told))
        return number

    def _said(self, state: State) -> dict[str, Any]:
        return {
            name: None if number == DEAD else self.tree.nodes[ENDED - number].about
            for name, number in zip(self.names, state[1], strict=True)
        }

    def _word(self, state: State) -> Callable[[str], Any]:
        """Return a function from a word's name to its value, once all stores have arrived."""
        return lambda name: self.orders.own(state[0], 0, self._address[name])

    def _schedule(self, number: int) -> list[str]:
        steps: list[str] = []
        while number > 0:
            number, told = self._from[number]
            steps.append(told)
        return steps[::-1]


def explore(scenario: Scenario, orders: Any = None) -> Found:
    """Explore all schedules of a scenario."""
    collecting = gc.isenabled()
    gc.disable()  # there are no reference cycles, and looking for them would take a third of the time
    try:
        return Explorer(scenario, orders).explore()
    finally:
        if collecting:
            gc.enable()


def _without(locks: Locks, process: int, lock: int | None = None) -> Locks:
    """Return the locks after a process has released this one, or all of its locks."""
    return tuple(
        tuple(held for held in holders if held[0] != process) if lock in (None, at) else holders
        for at, holders in enumerate(locks)
    )


def _cannot_reach(edges: dict[int, array[int]], ends: list[int]) -> int | None:
    """Return the first state from which no end can be reached."""
    before: list[list[int]] = [[] for _ in edges]
    for state, after in edges.items():
        for then in after:
            before[then].append(state)
    reaching, waiting = set(ends), list(ends)
    while waiting:
        for state in before[waiting.pop()]:
            if state not in reaching:
                reaching.add(state)
                waiting.append(state)
    return next((state for state in range(len(edges)) if state not in reaching), None)
