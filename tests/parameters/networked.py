"""Endpoints of processes on the network of a run, and the orders in which a supervisor lists them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from actorlearn.wire.endpoints import Endpoints
from actorlearn.wire.identity import ProcessId, trainer_id
from actorlearn.wire.messages import Endpoint, Listens, Order

RUN = "a-run"


class Listing:
    """The supervisor's newest order; all processes of a run see it at once."""

    def __init__(self, run_id: str = RUN, folder: Path | None = None) -> None:
        """Begin with no process listed; ``folder``: for local sockets, if processes have any."""
        self.run_id, self._folder = run_id, folder
        self.order = Order(version=1)

    def admit(self, own: ProcessId) -> Endpoints:
        """Make a process's endpoints; it takes the place of an earlier incarnation."""

        def tell(said: Listens) -> None:
            others = [each for each in self.order.endpoints if (each.id.role, each.id.number) != (own.role, own.number)]
            self.announce([*others, Endpoint(id=own, **msgspec.structs.asdict(said))])

        return Endpoints(own, self.run_id, lambda: self.order, tell, self._folder)

    def trainer(self, learner: int, incarnation: int = 0) -> Endpoints:
        """Make a trainer's endpoints."""
        return self.admit(trainer_id(learner).again(incarnation))

    def lose(self, own: ProcessId) -> None:
        """Remove a process from the list."""
        self.announce([each for each in self.order.endpoints if each.id != own])

    def announce(self, endpoints: list[Endpoint]) -> None:
        """Replace the list."""
        self.order = Order(version=self.order.version + 1, endpoints=endpoints)
