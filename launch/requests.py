"""The desk at which command lines ask: answers at once what it can, and keeps what takes a while until it is done.

Reads and steers the children; the wanted state of the run stays the supervisor's, which learns from here only how many
checkpoints have been asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from actorlearn import __version__
from actorlearn.wire.messages import PROTOCOL_VERSION, Reply, Request, Saved
from launch import events as ev
from launch.child import Child, State
from launch.children import Children

LIMIT_S = 60.0
"""Longest that attach, detach and save may take."""

COMMANDS = ("status", "attach", "detach", "save", "stop", "kill")
OPEN = ("starting", "running")
"""Phases of a run in which it can be changed."""


@dataclass
class Joining:
    """Attach: all of the new simulators must come to run."""

    client: str
    since_s: float
    names: tuple[str, ...]

    def reply(self, children: Children, now_s: float) -> Reply | None:
        """Yes when all run; no as soon as one cannot."""
        there = [name for name in self.names if name in children.named and children.named[name].greeted]
        seconds = round(now_s - self.since_s, 3)
        data = {"names": list(self.names), "running": there, "seconds": seconds}
        lost = [name for name in self.names if name not in children.named]
        if lost:
            others = [name for name in self.names if name not in lost]
            rest = f" ({', '.join(others)} can go on)" if others else ""
            why = "; ".join(children.failures.get(name, f"{name} was detached") for name in lost)
            return Reply(ok=False, text=why + rest, data=data)
        if len(there) == len(self.names):
            return Reply(ok=True, text=f"{', '.join(self.names)} running after {seconds:.1f} s", data=data)
        if now_s - self.since_s < LIMIT_S:
            return None
        late = ", ".join(self.overdue(children))
        text = f"{late} did not come to run within {LIMIT_S:g} s and will be ended; its log says more"
        return Reply(ok=False, text=text, data=data)

    def overdue(self, children: Children) -> list[str]:
        """Who is to be given up when the time is over."""
        return [name for name in self.names if name in children.named and not children.named[name].greeted]


@dataclass
class Leaving:
    """Detach: all of the named simulators must be gone."""

    client: str
    since_s: float
    names: tuple[str, ...]

    def reply(self, children: Children, now_s: float) -> Reply | None:
        """Yes when none is left."""
        left = self.overdue(children)
        seconds = round(now_s - self.since_s, 3)
        data = {"names": list(self.names), "seconds": seconds}
        if not left:
            text = f"{', '.join(self.names)} detached after {seconds:.1f} s"
            bad_ends = [children.failures[name] for name in self.names if name in children.failures]
            return Reply(ok=True, text="; ".join([text, *bad_ends]), data=data)
        if now_s - self.since_s < LIMIT_S:
            return None
        text = f"{', '.join(left)} did not drain within {LIMIT_S:g} s and will be killed; unfinished rows are lost"
        return Reply(ok=False, text=text, data=data)

    def overdue(self, children: Children) -> list[str]:
        """Who is to be given up when the time is over."""
        return [name for name in self.names if name in children.named]


@dataclass
class Saving:
    """Save: a checkpoint with this order number, or a later one, must be on disk."""

    client: str
    since_s: float
    number: int
    saved: Saved | None = None

    def reply(self, _children: Children, now_s: float) -> Reply | None:
        """Yes when it is written."""
        if self.saved is not None:
            steps, path = self.saved.env_steps, self.saved.path
            data = {"path": path, "env_steps": steps, "seconds": round(now_s - self.since_s, 3)}
            return Reply(ok=True, text=f"checkpoint at {steps:,} steps: {path}", data=data)
        if now_s - self.since_s < LIMIT_S:
            return None
        return Reply(ok=False, text=f"no checkpoint within {LIMIT_S:g} s; the trainer's log says more")

    def overdue(self, _children: Children) -> list[str]:
        """Nobody is given up for a checkpoint that does not come."""
        return []


class Desk:
    """Takes requests and answers each exactly once."""

    def __init__(self, children: Children, do: Callable[[ev.Action], None], stop: Callable[[bool], str]) -> None:
        """``stop`` begins to stop the run, or with True ends it at once, and says what will be done."""
        self.saves = 0
        """Checkpoints asked for so far."""
        self._children = children
        self._do = do
        self._stop = stop
        self._pending: list[Joining | Leaving | Saving] = []

    def asked(self, client: str, request: Request, phase: str, order: int) -> None:
        """A request has come."""
        wrong = mismatch(request)
        if not wrong and request.command not in ("status", "stop", "kill") and phase not in OPEN:
            wrong = f"{request.command}: the run is {phase}; resume it when it has ended"
        if wrong:
            self.answer(client, False, wrong)
        elif request.command == "attach":
            self._attach(client, request)
        elif request.command == "detach":
            self._detach(client, request)
        elif request.command == "save":
            self.saves += 1
            self._pending.append(Saving(client, self._children.now_s, self.saves))
        elif request.command in ("stop", "kill"):
            self.answer(client, True, self._stop(request.command == "kill"))
        else:
            self._status(client, phase, order)

    def _status(self, client: str, phase: str, order: int) -> None:
        listed = self._children.listed()
        running = sum(process["state"] == State.RUNNING for process in listed)
        data = {"processes": listed, "order": order, "phase": phase}
        self.answer(client, True, f"{phase}, {running} of {len(listed)} processes running", data)

    def _attach(self, client: str, request: Request) -> None:
        if request.simulators < 1:
            self.answer(client, False, f"attach {request.simulators} simulators: at least 1; write --simulators 1")
        else:
            self._do(ev.Enlarge(client, request.simulators, tuple(request.overrides)))

    def enlarged(self, client: str, names: tuple[str, ...], phase: str) -> None:
        """The plan has the simulators that were asked for."""
        if phase not in OPEN:
            self.answer(client, False, f"attach: the run is {phase}; resume it when it has ended")
            return
        self._pending.append(Joining(client, self._children.now_s, names))
        for name in names:
            self._children.invite(name)

    def _detach(self, client: str, request: Request) -> None:
        names = tuple(dict.fromkeys(request.names))
        if wrong := cannot_detach(names, self._children.named):
            self.answer(client, False, wrong)
            return
        self._pending.append(Leaving(client, self._children.now_s, names))
        for name in names:
            self._children.see_off(self._children.named[name])

    def saved(self, saved: Saved) -> None:
        """A checkpoint is on disk."""
        for pending in self._pending:
            if isinstance(pending, Saving) and saved.order >= pending.number:
                pending.saved = saved

    def settle(self) -> None:
        """Answer what is done, or has taken too long."""
        for pending in list(self._pending):
            reply = pending.reply(self._children, self._children.now_s)
            if reply is None:
                continue
            self._pending.remove(pending)
            self._do(ev.Answer(pending.client, reply))
            for name in [] if reply.ok else pending.overdue(self._children):
                if self._children.now_s - pending.since_s >= LIMIT_S:
                    self._children.evict(self._children.named[name], "too late")

    def close(self) -> None:
        """Nothing more will be done."""
        for pending in self._pending:
            self.answer(pending.client, False, "the run ended before this was done")
        self._pending = []

    def answer(self, client: str, ok: bool, text: str, data: Mapping[str, Any] | None = None) -> None:
        """Reply now."""
        self._do(ev.Answer(client, Reply(ok=ok, text=text, data=dict(data or {}))))


def mismatch(request: Request) -> str:
    """Why a request cannot be understood; empty when it can."""
    if request.protocol != PROTOCOL_VERSION or request.version != __version__:
        return (
            f"protocol {request.protocol} of version {request.version} asks, the run speaks protocol "
            f"{PROTOCOL_VERSION} of version {__version__}; use the actorlearn that started the run"
        )
    if request.command not in COMMANDS:
        return f"{request.command!r} is no request; {_nearest(request.command, COMMANDS)}"
    return ""


def cannot_detach(names: Sequence[str], children: Mapping[str, Child]) -> str:
    """Why these simulators cannot leave; empty when they can."""
    simulators = [child for child in children.values() if child.role == "simulator"]
    known = [child.name for child in simulators]
    if not names:
        return f"detach needs names; choose from {', '.join(known)}"
    for name in names:
        if name not in known:
            return f"{name!r} is no simulator of this run; {_nearest(name, known)}"
        if children[name].leaving:
            return f"{name} is already leaving; wait until it is gone"
    staying = [c for c in simulators if c.name not in names and not c.leaving and not c.guest]
    if not any(child.state is not State.FATAL for child in staying):
        return f"detach {', '.join(names)}: a run needs at least one simulator; attach others first, or stop the run"
    return ""


def _nearest(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word, known, n=1, cutoff=0.4)
    return f"did you mean {close[0]}?" if close else f"choose from {', '.join(known)}"
