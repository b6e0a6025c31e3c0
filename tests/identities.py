"""Who is meant by a name in a test, and where: ``process("simulator-1", 2, learner=1)``, ``peer("trainer.0")``."""

from __future__ import annotations

from actorlearn.address import Ipc
from actorlearn.wire.channel import Router
from actorlearn.wire.identity import ProcessId


def process(name: str, incarnation: int = 0, learner: int = 0) -> ProcessId:
    """A process by its name; one without a number is the only one of its role."""
    role, dash, number = name.rpartition("-")
    return ProcessId(role if dash else name, int(number or 0) if dash else 0, learner, incarnation, sole=not dash)


def trainer(name: str, incarnation: int = 0) -> ProcessId:
    """A trainer, whose learner has its number."""
    found = process(name, incarnation)
    return ProcessId("trainer", found.number, found.number, incarnation, found.sole)


def peer(text: str) -> ProcessId:
    """A process by its id on sockets."""
    name, _, incarnation = text.rpartition(".")
    return trainer(name, int(incarnation)) if name.startswith("trainer") else process(name, int(incarnation))


def address_of(router: Router) -> Ipc:
    """The address of a socket that is listened on."""
    assert isinstance(router.address, Ipc)
    return router.address
