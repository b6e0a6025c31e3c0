"""A world for sweeps without processes, in which the test decides when runs end and when the sweep is killed.

Like ``launch/sweeps/loop.py``, it records each fact before it acts on it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from launch.sweeps.axes import Values
from launch.sweeps.decisions import OVER, Search, next_step
from launch.sweeps.history import FORMAT, AnyFact, Begun, Ended, History, RunId, Started, Trial
from launch.sweeps.slots import Slots

Score = Callable[[Values, int], float | None]
"""Returns the score of a run with these values and this seed; None: the run fails."""


class Killed(Exception):
    """The sweep is killed at this point."""


class World:
    """The state file, the processes that are alive, and what run folders say."""

    def __init__(self, score: Score, slots: Slots) -> None:
        self.lines: list[bytes] = []
        self.alive = set[RunId]()
        self.over: dict[RunId, float | None] = {}
        """Runs that have ended, with their scores, as their folders would show them."""
        self.begun: list[RunId] = []
        """Runs in the order in which they began; a run that is started again is not listed again."""
        self.most = 0
        self.busy: list[tuple[str, ...]] = []
        """Hosts of the living runs, whenever one was begun."""
        self.score, self.slots = score, slots

    def history(self) -> History:
        """Read the state file."""
        found = History()
        for line in self.lines:
            found.add(msgspec.json.decode(line, type=AnyFact))
        return found

    def live(self, search: Search, random: Random, kill_after: int | None = None) -> History:
        """Run the sweep to its end, or, with ``kill_after``, kill it after that number of chances."""
        left = [kill_after]

        def chance() -> None:
            if left[0] is not None:
                left[0] -= 1
                if left[0] < 0:
                    raise Killed

        def add(fact: AnyFact) -> None:
            chance()
            history.add(fact)
            self.lines.append(msgspec.json.encode(fact))
            chance()

        history = self.history()
        if history.begun is None:
            add(Begun(format=FORMAT, version="0", keys={}, topology=""))
        while True:
            for run in [run for run in history.starts if run not in history.ended and run in self.over]:
                score = self.over[run]
                status = "failed" if score is None else "finished"
                add(Ended(trial=run.trial, seed=run.seed, status=status, score=score))
            while slot := self.slots.free([history.starts[run][-1] for run in self.alive]):
                step = next_step(search, history, self.alive)
                if step is OVER:
                    return history
                if isinstance(step, Trial):
                    add(step)
                elif isinstance(step, RunId):
                    add(Started(trial=step.trial, seed=step.seed, hosts=slot.hosts))
                    self._start(step)
                    self.busy.append(tuple(host for run in self.alive for host in history.starts[run][-1].hosts))
                else:
                    break
            chance()
            self.end_one(random)

    def _start(self, run: RunId) -> None:
        assert run not in self.alive and run not in self.over, f"{run} is begun twice"
        if run not in self.begun:
            self.begun.append(run)
        self.alive.add(run)
        self.most = max(self.most, len(self.alive))

    def end_one(self, random: Random) -> None:
        """Let one of the living runs end, or die so that it is begun again."""
        if not self.alive:
            return
        run = random.choice(sorted(self.alive))
        self.alive.remove(run)
        if random.random() < 0.8:
            values = self.history().trials[run.trial].values
            self.over[run] = self.score(values, run.seed)
