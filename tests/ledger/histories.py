"""Histories with one fault: at every failpoint that a trainer reaches, in every mode, with every kind of algorithm.

A history is a small run in which one trainer dies at the nth hit of a failpoint. With ``restart`` the supervisor
restarts the trainer. With ``both`` one of its simulators dies too, before the trainer is back. With ``resume`` the
whole run dies with the trainer, and is resumed from its checkpoints. A run without a fault shows which failpoints
there are. ``drained`` plays runs that are stopped in a given turn, and resumed.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import msgspec

from launch.errors import RunError
from launch.topology.load import Topology
from tests.ledger.oracle import violations
from tests.ledger.world import PowerCutError, World, topology

Sections = dict[str, Any]

MODES: dict[str, Sections] = {
    "alone": {},
    **{mode: {"mode": mode, "learners": {"count": 2}, "total_steps": 180} for mode in ("sync", "async", "gossip")},
}
_REPLAY = {"capacity_steps": 400, "batch_size": 4, "ratio": 1.0, "learning_starts_steps": 12, "save": True}
_VALUES: Sections = {"algorithm": {"name": "dqn", "target_every_steps": 24}}
ALGORITHMS: dict[str, Sections] = {
    "a2c": {},
    "normalized": {
        "model": {"normalize_observation": True, "statistics_rows": 20},
        "env": {"kwargs": {"dtype": "float32"}},
    },
    "ppo": {"algorithm": {"name": "ppo", "epochs": 2, "minibatches": 3}},
    "pqn": {"algorithm": {"name": "pqn", "epochs": 2, "minibatches": 3}},
    "uniform": {**_VALUES, "replay": _REPLAY},
    "prioritised": {**_VALUES, "replay": {**_REPLAY, "prioritised": True}},
}
WAYS = ("restart", "both", "resume")


@dataclass(frozen=True)
class History:
    """One death of a trainer in a run."""

    mode: str
    algorithm: str
    place: str
    """The failpoint."""
    nth: int
    way: str

    def __str__(self) -> str:
        """Return the name of the history in reports."""
        return f"{self.mode}-{self.algorithm}-{self.place}@{self.nth}-{self.way}"


def of(mode: str, algorithm: str, changed: Sections) -> Topology:
    """The topology of a history."""
    sections = {**MODES[mode], **ALGORITHMS[algorithm]}
    return topology(**{**sections, **{name: {**sections.get(name, {}), **own} for name, own in changed.items()}})


def victim(mode: str) -> str:
    """Peer id of the trainer that dies: not the first, where there are several."""
    return "trainer.0" if mode == "alone" else "trainer-1.0"


@cache
def hits(mode: str, algorithm: str) -> dict[str, int]:
    """Return how often the victim reaches each failpoint if no process dies; that run must have no violations."""
    with _world(mode, algorithm) as world:
        assert world.run() == 0, world.summary
        assert violations(world) == []
        return dict(world.arms.hits)


def histories(mode: str, algorithm: str) -> Iterator[History]:
    """Deaths at the first, the second, a middle and the last hit of every failpoint."""
    for place, count in sorted(hits(mode, algorithm).items()):
        for nth in sorted({1, min(2, count), count // 2 + 1, count}):
            for way in WAYS:
                yield History(mode, algorithm, place, nth, way)


def played(history: History) -> list[str]:
    """Play a history; return its violations."""
    with _world(history.mode, history.algorithm) as world:
        world.power_cut = history.way == "resume"
        if history.way == "both":
            world.interfere = _while_it_is_away
        try:
            world.run(arms=f"{history.place}=raise@{history.nth}")
        except PowerCutError:
            world.power_cut, world.expected = False, {"not_resumed"}
            return _resumed(world)
        if not world.arms.acted:
            return [*violations(world), "the trainer never reached the failpoint"]
        world.expected = {"rolled_back"}
        if not world.has_come(victim(history.mode)):
            return world.errors  # a death before the trainer is ready ends the run, which has learned nothing
        return violations(world)


def _while_it_is_away(world: World) -> None:
    """Kill the last simulator of the victim once the victim is dead."""
    name = "simulator-1" if world.victim == "trainer.0" else "simulator-3"
    if world.arms.acted and f"{name}.0" not in world.cut and (worker := world.present(name)):
        world.kill(worker.key[0])


def drained(mode: str, algorithm: str, turn: int, lagging: bool = False) -> list[str]:
    """Return violations of a run that is saved, then stopped and resumed; with ``lagging`` it drops stale rows."""
    changed: Sections = {"algorithm": {"max_policy_lag": 0, "on_policy_lag": "drop"}, "simulators": {"blocks": 4}}
    with _world(mode, algorithm, changed if lagging else {}) as world:
        world.expected = {"stale"} if lagging else set()

        def stop(world: World) -> None:
            if world.turns in (turn, turn + 1):
                world.ask("save" if world.turns == turn else "stop")

        world.interfere = stop
        world.run()
        found = violations(world)
        world.interfere = lambda world: None
        world.expected.add("not_resumed")
        return [*found, *_resumed(world)]


def _resumed(world: World) -> list[str]:
    """Resume the run, with more total steps if it had learned all; without a checkpoint there are no violations."""
    try:
        world.run(resume=True)
    except RunError as error:
        if "no valid checkpoint (none found)" in str(error) and not world.saved:
            return []
        if "has already learned from" not in str(error):
            return [f"it cannot be resumed: {error}"]
        world.topology = msgspec.structs.replace(world.topology, total_steps=2 * world.topology.total_steps)
        world.run(resume=True)
    return violations(world)


class _world:
    """A world in a folder of its own."""

    def __init__(self, mode: str, algorithm: str, changed: Sections | None = None) -> None:
        self._folder = Path(mkdtemp(prefix="ledger-"))
        self._world = World(self._folder / "run", of(mode, algorithm, changed or {}))
        self._world.victim = victim(mode)

    def __enter__(self) -> World:
        return self._world

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def a_choice(mode: str, way: str, share: int = 1) -> list[History]:
    """Return a death at each failpoint of a mode, at its second hit, with one of the algorithms that reach it.

    ``share``: choose one in this number of failpoints; each way chooses others.
    """
    there: dict[str, list[str]] = {}
    for algorithm in ALGORITHMS:
        for place in hits(mode, algorithm):
            there.setdefault(place, []).append(algorithm)
    chosen = []
    for index, (place, algorithms) in enumerate(sorted(there.items())):
        algorithm = algorithms[index % len(algorithms)]
        if index % share == WAYS.index(way) % share:
            chosen.append(History(mode, algorithm, place, min(2, hits(mode, algorithm)[place]), way))
    return chosen


def main() -> None:
    """Play all histories, and print their number and violations."""
    count = 0
    for mode, algorithm in itertools.product(MODES, ALGORITHMS):
        every = list(histories(mode, algorithm))
        wrong = {history: said for history in every if (said := played(history))}
        count += len(every)
        print(f"{mode} {algorithm}: {len(every)} histories, {len(wrong)} with violations", flush=True)
        for history, said in wrong.items():
            print(f"  {history}: {'; '.join(said)}", flush=True)
    print(f"{count} histories")


if __name__ == "__main__":
    main()
