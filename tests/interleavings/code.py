"""Processes that run the project's own code, one word of shared memory at a time.

A process is a function ``step(state)`` over plain, hashable states, in which the real classes run on stand-ins for
shared arrays and locks. The function is deterministic except for what it reads. So its position follows from the state
with which it began and from the answers that it has read since. To advance by one word, the function is run again with
these answers, up to the first question without an answer. No frames of Python are kept or switched. A position is a
node of a tree that is grown once for all interleavings.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

LOAD, TRY, UNLOCK, WAIT, CHOOSE, STEP, DONE, FAIL = range(8)
"""Requests of a process: read a word, try a lock, release a lock, look again later, get a decision from outside.
Outcomes of a step: another step, the end, a violation."""


class Suspended(BaseException):
    """The code has asked a question that has no answer yet."""


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True)
class Done:
    """The return value of a process at its end; ``Scenario.at_end`` gets what was ``said``."""

    said: Hashable = None


class Run:
    """One execution of a step with the answers known so far."""

    def __init__(self, answers: list[Any]) -> None:
        self._answers = answers
        self._at = 0
        self._bulks = self._stored = 0
        self.stores: list[tuple[int, Any, int]] = []
        """Address, value and bulk (0: none) of each store since the last answer."""
        self.question: tuple[int, Any] | None = None

    def ask(self, kind: int, about: Any) -> Any:
        """Return the answer; raise Suspended if there is none yet."""
        if self.question is not None or self._at == len(self._answers):
            self.question = self.question or (kind, about)  # not a question of `finally` clauses on the way out
            raise Suspended
        self._at += 1
        self.stores.clear()
        return self._answers[self._at - 1]

    def store(self, address: int, value: Any, bulk: int = 0) -> None:
        if self.question is None:
            self.stores.append((address, value, bulk))
            self._stored = self._at

    def bulk(self) -> int:
        """Return a number for the words of one array copy, which are written in any order."""
        self._bulks += 1
        return self._bulks

    def wait(self) -> None:
        """Look again later. Reads since the last store are forgotten, unless they left a trace in the variables of the
        waiting functions."""
        if self.question is None:
            self.ask(WAIT, (self._stored, tuple(_traces(sys._getframe(1)))))


STAND_INS = {"arrays.py", "contextlib.py"}
"""Files whose functions only pass questions on."""


def _traces(frame: FrameType | None) -> Iterator[tuple[int, str]]:
    """Positions and variables of the functions that are being executed in a step."""
    while frame is not None and frame.f_code is not Tree._grow.__code__:
        if Path(frame.f_code.co_filename).name not in STAND_INS:
            yield frame.f_lasti, repr(sorted(frame.f_locals.items(), key=lambda item: item[0]))
        frame = frame.f_back


_now: list[Run] = []


def running() -> Run | None:
    """Return the present execution; None while a scenario is being set up or checked."""
    return _now[-1] if _now else None


def choose(options: int) -> int:
    """Return a decision from outside, such as a signal; every option is explored."""
    run = running()
    assert run is not None
    return int(run.ask(CHOOSE, options))


def expect(holds: object, what: str) -> None:
    """Raise Violation with this message unless an invariant holds."""
    if not holds:
        raise Violation(what)


@dataclass(frozen=True)
class Process:
    """A process of a scenario."""

    name: str
    start: Hashable
    step: Callable[[Any], Hashable]
    """From a state to the next one, or to Done."""
    mortal: bool = False
    """Whether it may be killed at any point."""
    again: Hashable = None
    """State in which its next incarnation begins; None = there is none."""


@dataclass(eq=False)
class Node:
    """A position in a process's code: its stores since the node before, and its question or outcome."""

    number: int
    process: int
    began: Hashable
    answers: tuple[Any, ...]
    stores: tuple[tuple[int, Any, int], ...] = ()
    kind: int = FAIL
    about: Any = None
    following: dict[Any, Node] = field(default_factory=dict)


class Tree:
    """All positions in the code of all processes that have been reached."""

    def __init__(self, processes: Iterable[Process]) -> None:
        self.processes = list(processes)
        self.nodes: list[Node] = []
        self._waiting: dict[Hashable, Node] = {}
        """The first of the waiting positions that differ only in reads without a trace."""
        self._roots: dict[tuple[int, Hashable], Node] = {}

    def root(self, process: int, state: Hashable) -> Node:
        """Return the position at which a process begins a step in this state."""
        found = self._roots.get((process, state))
        if found is None:
            found = self._roots[process, state] = self._grow(process, state, ())
        return found

    def after(self, node: Node, answer: Any) -> Node:
        """Return the position of a process after this answer."""
        found = node.following.get(answer)
        if found is None:
            first = node
            if node.kind == WAIT:
                stored, traces = node.about
                first = self._waiting.setdefault((node.process, node.began, node.answers[:stored], traces), node)
            if first is node:
                found = self._grow(node.process, node.began, (*node.answers, answer))
            else:
                found = self.after(first, answer)
            node.following[answer] = found
        return found

    def _grow(self, process: int, state: Hashable, answers: tuple[Any, ...]) -> Node:
        node = Node(len(self.nodes), process, state, answers)
        self.nodes.append(node)
        run = Run(list(answers))
        _now.append(run)
        try:
            came_to = self.processes[process].step(state)
            node.kind, node.about = (DONE, came_to.said) if isinstance(came_to, Done) else (STEP, came_to)
        except Suspended:
            assert run.question is not None
            node.kind, node.about = run.question
        except (AssertionError, RuntimeError) as error:  # any other is a mistake in the scenario
            node.kind, node.about = FAIL, f"{type(error).__name__}: {error}"
        finally:
            _now.pop()
        node.stores = tuple(run.stores)
        return node
