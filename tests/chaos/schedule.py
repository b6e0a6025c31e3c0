"""Schedule of faults over runs, drawn from a seed: nothing else decides it.

Pure. A campaign is one list of trials, each a run of one mode with its faults, so a part of it can be done again, or
later, by its number. Which process a fault hits is drawn as a number from 0 to 1, because only the run knows them.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

SHORT_S = (0.1, 1.2)
"""Range of short stops, after which no process may be restarted; the hang limits of these runs are ``HANG_S``."""
HANG_S = 4.0

LEASE_S = 20.0
"""An agent ends its processes if the head does not answer for as long; after 1.5 leases its node counts as lost."""

ENDINGS = ("drain", "drain", "drain", "finish")


@dataclass(frozen=True)
class Fault:
    """One fault."""

    kind: str
    role: str
    which: float
    """Which of those with that role: from 0 to 1."""
    after_s: float
    """Seconds since the fault before."""
    lasts_s: float
    """Duration of a stop or of a full file system."""
    how: str = ""
    """A variant of the kind."""


@dataclass(frozen=True)
class Trial:
    """One run, and its faults in order."""

    number: int
    mode: str
    seed: int
    ending: str
    faults: tuple[Fault, ...]


FAULTS: tuple[tuple[str, str, float, tuple[str, ...]], ...] = (
    # kind, role, weight, variants; faults after which networks are loaded again are rarer
    ("kill", "simulator", 24.0, ()),
    ("kill", "trainer", 8.0, ()),
    ("kill", "inference", 5.0, ()),
    ("kill", "evaluator", 2.0, ()),
    ("kill", "guardian", 0.8, ()),
    ("kill", "supervisor", 1.0, ()),
    ("drain", "supervisor", 0.6, ()),
    ("stop", "simulator", 9.0, ()),
    ("stop", "trainer", 8.0, ()),
    ("stop", "inference", 6.0, ()),
    ("stop", "evaluator", 3.0, ()),
    ("stop", "guardian", 3.0, ()),
    ("stop", "supervisor", 3.0, ()),
    ("freeze", "all", 1.5, ()),
    ("hang", "simulator", 2.5, ()),
    ("hang", "trainer", 1.2, ()),
    ("hang", "inference", 1.0, ()),
    ("hang", "evaluator", 0.5, ()),
    ("wakeup", "simulator", 5.0, ("removed", "replaced", "full", "file")),
    ("wakeup", "trainer", 4.0, ("removed", "replaced", "full", "file")),
    ("wakeup", "inference", 4.0, ("removed", "replaced", "full", "file")),
    ("disk", "run folder", 4.0, ("alone", "simulator", "trainer", "inference")),
    ("memory", "/dev/shm", 4.0, ("alone", "simulator", "trainer", "inference")),
)
"""A file system is filled alone, or with a kill of a process of that role while it is full."""

FAULTS_OVER_NODES: tuple[tuple[str, str, float, tuple[str, ...]], ...] = (
    ("kill", "simulator", 20.0, ()),
    ("kill", "trainer", 10.0, ()),
    ("kill", "inference", 5.0, ()),
    ("kill", "evaluator", 2.0, ()),
    ("kill", "parameter_server", 4.0, ()),
    ("kill", "guardian", 2.0, ()),
    ("kill", "agent", 4.0, ()),
    ("kill", "supervisor", 2.0, ()),
    ("drain", "agent", 2.0, ()),
    ("drain", "supervisor", 1.0, ()),
    ("stop", "simulator", 5.0, ()),
    ("stop", "trainer", 6.0, ()),
    ("stop", "inference", 4.0, ()),
    ("stop", "evaluator", 2.0, ()),
    ("stop", "parameter_server", 4.0, ()),
    ("stop", "guardian", 2.0, ()),
    ("stop", "agent", 6.0, ()),
    ("stop", "supervisor", 4.0, ()),
    ("hang", "simulator", 1.5, ()),
    ("hang", "trainer", 1.5, ()),
    ("hang", "inference", 1.0, ()),
    ("hang", "parameter_server", 1.0, ()),
    ("hang", "agent", 2.0, ()),
    ("wakeup", "simulator", 3.0, ("removed", "replaced", "full", "file")),
    ("wakeup", "trainer", 3.0, ("removed", "replaced", "full", "file")),
    ("wakeup", "inference", 3.0, ("removed", "replaced", "full", "file")),
    ("disk", "run folder", 2.0, ("alone", "simulator", "trainer", "inference")),
    ("memory", "/dev/shm", 2.0, ("alone", "simulator", "trainer", "inference")),
)
"""The supervisor is at the head, and the agent of each node has a guardian; the nodes share one /dev/shm."""

MODES = {
    "alone": ("alone-a2c", "alone-ppo", "alone-dqn"),
    "sync": ("sync-a2c", "sync-ppo", "sync-dqn"),
    "async": ("async-a2c", "async-ppo"),
    "gossip": ("gossip-a2c",),
    "nodes": ("nodes-sync-a2c", "nodes-async-a2c", "nodes-gossip-a2c"),
}
ALL_MODES = [name for names in zip(*(names * 6 for names in MODES.values()), strict=False) for name in names]
"""Each mode as often as the others, each of its algorithms in turn."""


def modes(prefixes: Collection[str] = ("",)) -> list[str]:
    """Return the modes that begin with one of the prefixes, in the order of trials."""
    return [mode for mode in ALL_MODES if mode.startswith(tuple(prefixes))]


def trials(faults: int, seed: int, each: int = 84, among: Sequence[str] = ALL_MODES) -> Iterator[Trial]:
    """Yield trials of these modes with ``faults`` faults in all, and ``each`` faults in each run but the last."""
    number = 0
    while faults > 0:
        yield trial(number, seed, min(each, faults), among)
        faults -= each
        number += 1


def trial(number: int, seed: int, faults: int, among: Sequence[str] = ALL_MODES) -> Trial:
    """The trial of that number."""
    drawn = random.Random(f"{seed}.{number}")
    mode = among[(seed + number) % len(among)]
    kinds = FAULTS_OVER_NODES if mode.startswith("nodes-") else FAULTS
    chosen = drawn.choices(kinds, [weight for _, _, weight, _ in kinds], k=faults)
    return Trial(
        number,
        mode,
        drawn.randrange(2**31),
        drawn.choice(ENDINGS),
        tuple(_fault(drawn, kind, role, variants) for kind, role, _, variants in chosen),
    )


def _fault(drawn: random.Random, kind: str, role: str, variants: tuple[str, ...]) -> Fault:
    after_s = min(drawn.expovariate(1 / 0.3), 2.0)
    lasts_s = drawn.uniform(*SHORT_S) if kind == "stop" else drawn.uniform(1.0, 2.5)
    return Fault(kind, role, drawn.random(), after_s, lasts_s, drawn.choice(variants) if variants else "")
