"""Carries out and answers the requests of command lines, such as ``actorlearn attach``.

The requests status, stop and kill are answered at once. The requests attach (add processes), detach (remove processes)
and save take seconds, and are answered when they are done (``pending.py``). Save only raises the count
`Requests.saves`; the supervisor sends this count to the trainers, which then save.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from actorlearn import __version__
from actorlearn.nearest import ROUGHLY, nearest
from actorlearn.parameters.modes import MODES, ModeSpec
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import PROTOCOL_VERSION, Reply, Request, Saved, brief
from actorlearn.worker.roles import ROLES
from launch.plan.plan import PlannedProcess
from launch.supervision import events as ev
from launch.supervision.child import Child, ChildState
from launch.supervision.children import Children
from launch.supervision.pending import PendingAttach, PendingDetach, PendingSave

COMMANDS = ("status", "attach", "detach", "save", "stop", "kill")
OPEN = ("starting", "running")
"""Phases in which a run that has begun accepts attach, detach and save."""


class Requests:
    """Carries out requests of command lines; each is answered exactly once."""

    def __init__(
        self, children: Children, mode: ModeSpec, do: Callable[[ev.Action], None], stop: Callable[[bool], str]
    ) -> None:
        """``do``: carries out an action. ``stop``: stops the run, True: at once; returns the text of the reply."""
        self.saves = 0
        """Number of requests for a checkpoint so far."""
        self.begun = False
        """Whether processes were started; before, a run on several machines waits for its nodes."""
        self._children = children
        self._mode = mode
        self._do = do
        self._stop = stop
        self._pending: list[PendingAttach | PendingDetach | PendingSave] = []

    def asked(self, client: str, request: Request, phase: str, order: int) -> None:
        """Answer a request, or begin to carry it out.

        ``client``: identifies the command line; ``phase``: that of the run; ``order``: version of the newest `Order`.
        """
        wrong = mismatch(request)
        if not wrong and request.command not in ("status", "stop", "kill"):
            if phase not in OPEN:
                wrong = f"{request.command}: the run is {phase}; when it has ended, resume it and try again"
            elif not self.begun:
                wrong = f"{request.command}: the run waits for its nodes; try again when they have joined"
        if wrong:
            self.answer(client, False, wrong)
        elif request.command == "attach":
            self._attach(client, request)
        elif request.command == "detach":
            self._detach(client, request)
        elif request.command == "save":
            self.saves += 1
            self._pending.append(PendingSave(client, self._children.now_s, self.saves, self._mode.in_step))
        elif request.command in ("stop", "kill"):
            self.answer(client, True, self._stop(request.command == "kill"))
        else:
            self._status(client, phase, order)

    def _status(self, client: str, phase: str, order: int) -> None:
        listed = self._children.list_processes()
        running = sum(process["state"] == ChildState.RUNNING for process in listed)
        data = {"processes": listed, "order": order, "phase": phase}
        self.answer(client, True, f"{phase}, {running} of {len(listed)} processes running", data)

    def _attach(self, client: str, request: Request) -> None:
        trainers = self._children.trainers()
        ending = [trainer.learner for trainer in trainers if not _stays(trainer, ())]
        without = tuple(ending) if request.simulators else ()
        if wrong := cannot_attach(request.simulators, request.learners, self._mode):
            self.answer(client, False, wrong)
        elif len(without) == len(trainers):
            wrong = "each learner is being attached or detached, or has failed; try again when one is ready"
            self.answer(client, False, f"attach {request.simulators} simulators: {wrong}")
        else:
            self._do(ev.Enlarge(client, request.simulators, tuple(request.overrides), request.learners, without))

    def enlarged(self, client: str, processes: Sequence[PlannedProcess], phase: str) -> None:
        """Start the simulators or learners that were planned for an attach request."""
        if phase not in OPEN:
            self.answer(client, False, f"attach: the run is {phase}; when it has ended, resume it and try again")
            return
        units = group_units(process.id for process in processes)
        self._pending.append(PendingAttach(client, self._children.now_s, units))
        trainers = {name: head for head, others in units.items() for name in others}
        for process in processes:
            self._children.attach(process, trainers.get(process.name, ""))

    def _detach(self, client: str, request: Request) -> None:
        names = tuple(dict.fromkeys(request.names))
        if wrong := cannot_detach(names, self._children.named, self._mode):
            self.answer(client, False, wrong)
            return
        named = [self._children.named[name] for name in names]
        learners = [child.learner for child in named if child.role.learns]
        workers = [worker for learner in learners for worker in self._children.workers(learner)]
        units = group_units(child.id for child in (*named, *workers))
        self._pending.append(PendingDetach(client, self._children.now_s, units))
        for head in units:
            self._children.detach(self._children.named[head])

    def saved(self, trainer: str, saved: Saved) -> None:
        """Record a trainer's checkpoint for the save requests that were made before it."""
        for pending in self._pending:
            if isinstance(pending, PendingSave) and saved.order >= pending.number:
                pending.saved.setdefault(trainer, saved)  # keep the first, which is common to learners in mode sync

    def settle(self) -> None:
        """Answer the pending requests that are done, have failed or have reached their time limit."""
        for pending in list(self._pending):
            reply = pending.reply(self._children)
            if reply is None:
                continue
            self._pending.remove(pending)
            self.answer(pending.client, reply.ok, reply.text, reply.data)
            if not reply.ok:
                pending.give_up(self._children)

    def close(self) -> None:
        """Answer all pending requests, because the run ends: with an error if they are not done."""
        self.settle()
        for pending in self._pending:
            self.answer(pending.client, False, "the run ended before the request was completed")
        self._pending = []

    def answer(self, client: str, ok: bool, text: str, data: Mapping[str, Any] | None = None) -> None:
        """Send a reply to a command line."""
        self._do(ev.Answer(client, Reply(ok=ok, text=brief(text), data=dict(data or {}))))


def group_units(members: Iterable[ProcessId]) -> dict[str, tuple[str, ...]]:
    """Group processes that are attached or detached together: a trainer with its learner's, or a simulator alone.

    Returns name of the trainer or simulator -> names of the other processes of its group.
    """
    ids = list(dict.fromkeys(members))
    trainers = {process.learner: process.name for process in ids if ROLES.spec(process.role).learns}
    units: dict[str, tuple[str, ...]] = {}
    for process in ids:
        name, head = process.name, trainers.get(process.learner, process.name)
        units[head] = (*units.get(head, ()), *([name] if name != head else []))
    return units


def mismatch(request: Request) -> str:
    """Return why a request is not understood (other version, unknown command); empty if it is understood."""
    if request.protocol != PROTOCOL_VERSION or request.version != __version__:
        return (
            f"the command uses protocol {request.protocol} of version {request.version}, and the run uses protocol "
            f"{PROTOCOL_VERSION} of version {__version__}; use the actorlearn that started the run"
        )
    if request.command not in COMMANDS:
        return f"{request.command!r} is not a request; {_nearest_or_all(request.command, COMMANDS)}"
    return ""


def cannot_attach(simulators: int, learners: int, mode: ModeSpec) -> str:
    """Return why these numbers of simulators and learners cannot be attached; empty if they can."""
    if simulators < 0 or learners < 0 or simulators + learners == 0:
        return (
            f"attach {simulators} simulators, {learners} learners: attach at least one; write --simulators 1, or "
            "--learners 1"
        )
    if learners and simulators:
        return (
            f"attach {learners} learners and {simulators} simulators: a request attaches either learners, which have "
            "simulators of their own, or simulators; send two requests"
        )
    if learners and not mode.elastic:
        return (
            f"attach {learners} learners: a run in mode {mode.asked_as} cannot add learners; "
            f"attach simulators, or start a run in mode {' or '.join(MODES.elastic())}"
        )
    return ""


def cannot_detach(names: Sequence[str], children: Mapping[str, Child], mode: ModeSpec) -> str:
    """Return why these simulators and trainers cannot be detached; empty if they can."""
    trainers = [child for child in children.values() if child.role.learns]
    simulators = [child for child in children.values() if child.role.makes_rows]
    known = [child.name for child in (*simulators, *(trainers if mode.elastic else ()))]
    leaving = {trainer.learner for trainer in trainers if trainer.name in names}
    of_learners = [child for child in children.values() if child.role.scope == "learner"]
    with_trainer = [child.name for child in of_learners if child.learner in leaving]
    if not names:
        return f"detach: no process is named; choose from {', '.join(known)}"
    for name in names:
        if name in [trainer.name for trainer in trainers] and not mode.elastic:
            if len(trainers) == 1:
                return f"detach {name}: the run needs its only learner; detach simulators, or stop the run"
            return (
                f"detach {name}: a run in mode {mode.asked_as} cannot remove learners; detach simulators, "
                "or stop the run"
            )
        if name not in (*known, *with_trainer):
            what = "simulator or trainer" if mode.elastic else "simulator"
            return f"{name!r} is not a {what} of this run; {_nearest_or_all(name, known)}"
        if children[name].leaving:
            return f"{name} is already being detached; wait until it has ended"
    staying = [trainer for trainer in trainers if _stays(trainer, names)]
    if not staying and any(trainer.name in names for trainer in trainers):
        return f"detach {', '.join(names)}: a run needs at least one learner; attach another first, or stop the run"
    for trainer in staying:
        own = [child for child in simulators if child.learner == trainer.learner]
        taken = [child.name for child in own if child.name in names]
        if taken and not any(_stays(child, names) for child in own):
            said = f"detach {', '.join(taken)}: {trainer.name} needs at least one simulator"
            return f"{said}; attach others first, or stop the run"
    return ""


def _stays(child: Child, leaving: Sequence[str]) -> bool:
    """Whether a process still works for the run after the processes in ``leaving`` have ended."""
    return (
        child.name not in leaving and not child.leaving and not child.attaching and child.state is not ChildState.FATAL
    )


def _nearest_or_all(word: str, known: Sequence[str]) -> str:
    close = nearest(word, known, ROUGHLY)
    if (word.rpartition("-")[0] or word) in ROLES.names():  # no misspelling: its process has ended, or never was
        close = ""
    return f"did you mean {close}?" if close else f"choose from {', '.join(known)}"
