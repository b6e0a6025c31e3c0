"""The child's end of a line to the supervisor, on which nobody listens."""

from __future__ import annotations

from typing import Any

from actorlearn.wire.control import Control
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Message, Report, Saved


class Told(Control):
    """A trainer's end of a line on which nobody listens: keeps what is said."""

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
        """Steps and order of the checkpoints that were said to be saved."""
        return [(message.env_steps, message.order) for message in self.said if isinstance(message, Saved)]
