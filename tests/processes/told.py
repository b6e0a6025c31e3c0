"""A trainer's line to a supervisor that does not exist."""

from __future__ import annotations

from typing import Any

from actorlearn.wire.control import Control
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Message, Report, Saved


class Told(Control):
    """A trainer's line to the supervisor that keeps the messages instead of sending them."""

    def __init__(self) -> None:
        super().__init__(None, ProcessId("trainer"), "run-1")
        self.said: list[Message] = []

    def send(self, message: Message) -> None:
        self.said.append(message)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows of the reports."""
        return [message.row for message in self.said if isinstance(message, Report)]

    @property
    def saved(self) -> list[tuple[int, int]]:
        """Steps and order of the checkpoints that were reported as saved."""
        return [(message.env_steps, message.order) for message in self.said if isinstance(message, Saved)]
