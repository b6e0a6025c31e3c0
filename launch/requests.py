"""Requests of command lines that take a while: what they wait for, and the reply when it has come, or cannot come.

Reads the children; changes nothing. Refusing at once, and doing, is the supervisor's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from actorlearn import __version__
from actorlearn.wire.messages import PROTOCOL_VERSION, Reply, Request
from launch.child import Child, State

LIMIT_S = 60.0
"""Longest that attach, detach and save may take."""

COMMANDS = ("status", "attach", "detach", "save", "stop")

Children = Mapping[str, Child]


@dataclass
class Joining:
    """Attach: all of the new simulators must come to run."""

    client: str
    names: tuple[str, ...]
    since_s: float
    failures: list[str] = field(default_factory=list)

    def reply(self, children: Children, now_s: float) -> Reply | None:
        """Yes when all run; no as soon as one cannot."""
        there = [name for name in self.names if name in children and children[name].greeted]
        seconds = round(now_s - self.since_s, 3)
        data = {"names": list(self.names), "running": there, "seconds": seconds}
        if self.failures:
            rest = [name for name in self.names if name in children]
            going_on = f"; {', '.join(rest)} not affected" if rest else ""
            return Reply(ok=False, text="; ".join(self.failures) + going_on, data=data)
        if len(there) == len(self.names):
            return Reply(ok=True, text=f"{', '.join(self.names)} running after {seconds:.1f} s", data=data)
        if now_s - self.since_s < LIMIT_S:
            return None
        late = [name for name in self.names if name not in there]
        text = f"{', '.join(late)} did not come to run within {LIMIT_S:g} s and will be ended; see their logs"
        return Reply(ok=False, text=text, data=data)

    def late(self, children: Children) -> list[str]:
        """Names to be given up when the time is over."""
        return [name for name in self.names if name in children and not children[name].greeted]


@dataclass
class Leaving:
    """Detach: all of the named simulators must be gone."""

    client: str
    names: tuple[str, ...]
    since_s: float
    failures: list[str] = field(default_factory=list)

    def reply(self, children: Children, now_s: float) -> Reply | None:
        """Yes when none is left."""
        left = [name for name in self.names if name in children]
        seconds = round(now_s - self.since_s, 3)
        data = {"names": list(self.names), "seconds": seconds}
        if not left:
            text = f"{', '.join(self.names)} detached after {seconds:.1f} s"
            return Reply(ok=True, text="; ".join([text, *self.failures]), data=data)
        if now_s - self.since_s < LIMIT_S:
            return None
        text = f"{', '.join(left)} did not drain within {LIMIT_S:g} s and will be killed; unfinished rows are dropped"
        return Reply(ok=False, text=text, data=data)

    def late(self, children: Children) -> list[str]:
        """Names to be given up when the time is over."""
        return [name for name in self.names if name in children]


@dataclass
class Saving:
    """Save: a checkpoint with this order number, or a later one, must be on disk."""

    client: str
    number: int
    since_s: float
    failures: list[str] = field(default_factory=list)
    path: str = ""
    env_steps: int = 0

    def reply(self, _children: Children, now_s: float) -> Reply | None:
        """Yes when it is written."""
        if self.path:
            data = {"path": self.path, "env_steps": self.env_steps, "seconds": round(now_s - self.since_s, 3)}
            return Reply(ok=True, text=f"checkpoint at {self.env_steps:,} steps: {self.path}", data=data)
        if now_s - self.since_s < LIMIT_S:
            return None
        return Reply(ok=False, text=f"no checkpoint within {LIMIT_S:g} s; the trainer's log says more")

    def late(self, _children: Children) -> list[str]:
        """Nobody is given up for a checkpoint that does not come."""
        return []


Pending = Joining | Leaving | Saving


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


def cannot_attach(request: Request) -> str:
    """Why these simulators cannot be added; empty when nothing is known against it yet."""
    if request.simulators < 1:
        return f"attach {request.simulators} simulators: at least 1; write --simulators 1"
    return ""


def cannot_detach(names: Sequence[str], children: Children) -> str:
    """Why these simulators cannot leave; empty when they can."""
    simulators = [child for child in children.values() if child.role == "simulator"]
    known = [child.name for child in simulators]
    if not names:
        return f"detach needs names: one or more of {', '.join(known)}"
    for name in names:
        if name not in known:
            return f"{name!r} is no simulator of this run; {_nearest(name, known)}"
        if children[name].leaving:
            return f"{name} is already leaving; wait for it to be gone"
    staying = [c for c in simulators if c.name not in names and not c.leaving and not c.guest]
    if not any(child.state is not State.FATAL for child in staying):
        return f"detach {', '.join(names)}: a run needs at least one simulator; attach others first, or stop the run"
    return ""


def _nearest(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word, known, n=1, cutoff=0.4)
    return f"did you mean {close[0]}?" if close else f"choose from {', '.join(known)}"
