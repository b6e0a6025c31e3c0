"""Processes on the network of a run, made for tests, and what the supervisor says of them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from actorlearn.wire.endpoints import Endpoints
from actorlearn.wire.identity import ProcessId, trainer_id
from actorlearn.wire.messages import Endpoint, Listens, Order

RUN = "a-run"


class Listing:
    """The newest order, as all processes of a run get it at once."""

    def __init__(self, run_id: str = RUN, folder: Path | None = None) -> None:
        """List nobody; ``folder``: for local sockets, if processes have any."""
        self.run_id, self._folder = run_id, folder
        self.order = Order(version=1)

    def admit(self, own: ProcessId) -> Endpoints:
        """Make a process's endpoints; it takes the place of an earlier incarnation."""

        def tell(said: Listens) -> None:
            others = [each for each in self.order.endpoints if (each.id.role, each.id.number) != (own.role, own.number)]
            self.announce([*others, Endpoint(id=own, **msgspec.structs.asdict(said))])

        return Endpoints(own, self.run_id, lambda: self.order, tell, self._folder)

    def trainer(self, learner: int, incarnation: int = 0) -> Endpoints:
        """Make a trainer's."""
        return self.admit(trainer_id(learner).again(incarnation))

    def lose(self, own: ProcessId) -> None:
        """List a process no longer."""
        self.announce([each for each in self.order.endpoints if each.id != own])

    def announce(self, endpoints: list[Endpoint]) -> None:
        """List these from now on."""
        self.order = Order(version=self.order.version + 1, endpoints=endpoints)
