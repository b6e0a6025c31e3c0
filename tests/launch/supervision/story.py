"""Histories for the supervisor: timed events, and the actions that it returns, without processes or sleeps."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from typing import Any, TypeVar

from actorlearn import __version__
from actorlearn.address import Shm
from actorlearn.parameters.modes import MODES
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import (
    PROTOCOL_VERSION,
    Failed,
    Finished,
    Hello,
    Member,
    Message,
    Order,
    Reply,
    Request,
)
from launch.plan.plan import PlannedProcess, Start
from launch.supervision import events as ev
from launch.supervision.supervisor import Ending, Supervisor
from launch.topology.schema import BUDGET
from tests.identities import process, trainer

RESTARTS, WINDOW_S, UNSAVED_RESTARTS = BUDGET.restarts, BUDGET.restarts_within_s, BUDGET.unsaved_restarts

TERM, KILL = signal.SIGTERM, signal.SIGKILL

SHAPE = {"env.id": "CartPole-v1", "observation": "float32[4]", "algorithm.horizon": "16"}

ROLES = {
    "trainer": "trainer",
    "inference-0": "inference",
    "evaluator-0": "evaluator",
    "simulator-0": "simulator",
    "simulator-1": "simulator",
}

OTHERS = [name for name in ROLES if name != "trainer"]
NO_EVALUATOR = {name: role for name, role in ROLES.items() if role != "evaluator"}
REST = [name for name in NO_EVALUATOR if name != "trainer"]
TWO = {"trainer-0": "trainer", "trainer-1": "trainer", "simulator-0": "simulator", "simulator-1": "simulator"}
BOTH = [trainer("trainer-0"), trainer("trainer-1")]
Action = TypeVar(
    "Action", Start, ev.Kill, ev.Send, ev.DropMembers, ev.Answer, ev.Note, ev.MetricsRow, ev.Done, ev.Enlarge
)


class Story:
    """A supervisor with all actions that it has returned, and with those of the last call."""

    def __init__(
        self,
        roles: dict[str, str] | None = None,
        resume: bool = False,
        mode: str = "sync",
        stop_at_score: float | None = None,
        stop_at_training_score: float | None = None,
        quorum: int = 0,
    ) -> None:
        first = planned(roles or ROLES)
        how: dict[str, Any] = {"mode": MODES.spec(mode), "resume": resume, "jitter": lambda *_: 1.0}
        ending = Ending(900.0, stop_at_score, stop_at_training_score, quorum)
        self.supervisor = Supervisor(first, SHAPE, "run-1", ending=ending, **how)
        self.now_s = 0.0
        self.last: list[ev.Action] = []
        self.all: list[ev.Action] = []

    def at(self, now_s: float, *events: ev.Event) -> Story:
        assert now_s >= self.now_s, "time runs forwards"
        self.now_s, self.last = now_s, []
        for event in events:
            self.last += self.supervisor.handle(event, now_s)
        self.all += self.last
        return self

    def then(self, *events: ev.Event) -> Story:
        return self.at(self.now_s, *events)

    def did(self, kind: type[Action]) -> list[Action]:
        return [action for action in self.last if isinstance(action, kind)]

    def ever(self, kind: type[Action]) -> list[Action]:
        return [action for action in self.all if isinstance(action, kind)]

    @property
    def started(self) -> list[tuple[str, int, bool]]:
        """Starts of the last call: name, incarnation, and whether from a checkpoint."""
        return [(start.name, start.incarnation, start.resume) for start in self.did(Start)]

    @property
    def done(self) -> ev.Done | None:
        return next(iter(self.ever(ev.Done)), None)

    @property
    def notes(self) -> list[tuple[str, str, int, str]]:
        return [(note.kind, note.process, note.incarnation, note.cause) for note in self.did(ev.Note)]

    @property
    def reply(self) -> Reply:
        (answer,) = self.did(ev.Answer)
        return answer.reply

    @property
    def orders(self) -> dict[str, Order]:
        sent = {f"{send.name}.{send.incarnation}": send.message for send in self.did(ev.Send)}
        return {peer: message for peer, message in sent.items() if isinstance(message, Order)}

    def state(self, name: str) -> str | None:
        return next((p["state"] for p in self.supervisor.processes() if p["name"] == name), None)


def planned(roles: dict[str, str]) -> list[PlannedProcess]:
    """The processes of these names, dealt to the learners in turn."""
    learners = list(roles.values()).count("trainer")
    return [PlannedProcess(process(name, 0, process(name).number % learners), row) for row, name in enumerate(roles)]


def member(name: str, incarnation: int = 0) -> Member:
    return Member(id=process(name, incarnation), segment=Shm(f"/dev/shm/run-1/{name}.{incarnation}"))


def spawned(name: str, incarnation: int = 0) -> ev.Spawned:
    return ev.Spawned(name, incarnation, 100, member(name, incarnation) if name.startswith("simulator") else None)


def received(name: str, message: Message, incarnation: int = 0) -> ev.Received:
    return ev.Received(name, incarnation, message)


def hello(name: str, incarnation: int = 0, /, **other: Any) -> ev.Received:
    said: dict[str, Any] = {
        "id": process(name, incarnation),
        "pid": 100,
        "run_id": "run-1",
        "protocol": PROTOCOL_VERSION,
        "version": __version__,
        "shape": SHAPE if name.startswith("simulator") else {},
    }
    return received(name, Hello(**{**said, **other}), incarnation)


def up(*names: str, incarnation: int = 0) -> list[ev.Event]:
    return [event for name in names for event in (spawned(name, incarnation), hello(name, incarnation))]


def finished(name: str, reason: str, incarnation: int = 0, **summary: Any) -> ev.Received:
    said = Finished(reason=reason, summary=summary)
    return received(name, said, incarnation)


def failed(name: str, error: str, incarnation: int = 0) -> ev.Received:
    return received(name, Failed(error=error), incarnation)


def asked(command: str, client: str = "cli-1", **more: Any) -> ev.ClientRequest:
    return ev.ClientRequest(client, Request(protocol=PROTOCOL_VERSION, version=__version__, command=command, **more))


def exits(names: Iterable[str], returncode: int = -15) -> list[ev.Event]:
    return [ev.Exited(name, 0, returncode) for name in names]


def running(roles: dict[str, str] | None = None, **ending: float) -> Story:
    """A run one second old in which all processes run."""
    return Story(roles, **ending).at(0, ev.Begin()).at(1, *up(*(roles or ROLES)))


def two(mode: str = "sync", resume: bool = False, quorum: int = 0) -> Story:
    """A run of two learners in which all processes run."""
    return Story(TWO, resume, mode, quorum=quorum).at(0, ev.Begin(), *up(*TWO))


def attaching(simulators: int = 1) -> Story:
    """A run to which simulators are being attached; the plan has room for them."""
    story = running().at(2, asked("attach", simulators=simulators, overrides=["env.id=X"]))
    assert story.last == [ev.Enlarge("cli-1", simulators, ("env.id=X",))]
    new = tuple(PlannedProcess(ProcessId("simulator", 2 + i), 5 + i) for i in range(simulators))
    return story.then(ev.Enlarged("cli-1", new))


def lose(story: Story, name: str) -> Story:
    """Let a simulator die until it is given up."""
    for i in range(RESTARTS + 1):
        story.at(story.now_s + 4, ev.Exited(name, i, 1)).at(story.now_s + 4, ev.Tick())
    assert story.state(name) == "fatal"
    return story
