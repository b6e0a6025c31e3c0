"""Whatever messages a supervisor receives, the run continues, answers, ends when asked, and its files can be read."""

from __future__ import annotations

import io
import itertools
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console as Terminal

from actorlearn.wire.channel import Dealer, Router
from actorlearn.wire.control import Control
from actorlearn.wire.messages import Applied, Evaluated, Finished, Message, Reply, Report, Warned, encode
from launch.display.console import LiveConsole, PlainConsole
from launch.errors import FailedError
from launch.runs import client
from launch.runs.find import RunFolder, read
from launch.runs.view import RunView
from launch.runtime.loop import Runner
from launch.supervision import events as ev
from launch.topology.load import parse
from tests import identities, odd_messages
from tests.launch.opened import ready
from tests.launch.runtime.no_processes import NoProcesses

VIEW = RunView("run", "CartPole-v1", 1_000)

CHILDREN = ("trainer.0", "evaluator-0.0", "simulator-0.0", "simulator-1.0")
STRANGERS = ("cli-1", "trainer.7", "simulator-0.3", "nobody.0", "x.y", ".0", "\x1b[31m.0", "trainer.9" + "9" * 200)


def hello(run: RunFolder, supervisor: Runner) -> list[Dealer]:
    """Say Hello for every child, wait until all are admitted, and return their sockets."""
    dealers = []
    for peer in CHILDREN:
        addresses = supervisor.workspace.addresses
        control = Control(addresses.control, identities.peer(peer), addresses.run_id)
        control.hello(1, supervisor.plan.expected_shape if peer.startswith("simulator") else {})
        assert control.dealer
        dealers.append(control.dealer)
    while "4 of 4" not in client.ask(run, "status", timeout_s=30.0).text:
        time.sleep(0.01)  # pytest's time limit ends this loop
    return dealers


class Screens:
    """A console in a terminal and one in a log, which get the same calls and are drawn at each."""

    def __init__(self) -> None:
        terminal = Terminal(file=io.StringIO(), force_terminal=True, width=120, height=40)
        self.out = io.StringIO()
        self.both = (
            LiveConsole(VIEW, terminal, itertools.count().__next__),
            PlainConsole(VIEW, self.out, itertools.count(step=11).__next__),
        )

    def event(self, note: ev.Note) -> None:
        for console in self.both:
            console.event(note)

    def row(self, row: Mapping[str, Any]) -> None:
        for console in self.both:
            console.row(row)

    def processes(self, processes: Sequence[Mapping[str, Any]]) -> None:
        for console in self.both:
            console.processes(processes)

    def close(self) -> None:
        for console in self.both:
            console.close()


def run_beside(
    tmp_path: Path,
    tell: Callable[[RunFolder, list[Dealer]], None],
    shown: ev.Console | None = None,
) -> int:
    """Run a supervisor without processes; a thread calls ``tell`` to send messages, and then asks for the end."""
    topology = parse("env: {id: CartPole-v1}", ["simulators.count=2", "evaluator.count=1"])
    found: list[BaseException] = []
    with ready(tmp_path / "run", topology, shown, spawner=NoProcesses()) as supervisor:

        def peers() -> None:
            run = read(supervisor.workspace.run_dir)
            assert run is not None
            dealers = []
            try:
                dealers = [
                    *hello(run, supervisor),
                    *(Dealer(supervisor.workspace.addresses.control, peer) for peer in STRANGERS),
                ]
                tell(run, dealers)
            except BaseException as error:
                found.append(error)
            for dealer in dealers:
                dealer.close()
            with suppress(FailedError):  # it has ended already
                client.ask(run, "kill", timeout_s=30.0)

        thread = threading.Thread(target=peers)
        thread.start()
        try:
            status = supervisor.run()
        finally:
            thread.join()
    if found:
        raise found[0]
    return status


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("messages", "seed"),
    [(1_500, 2), pytest.param(5_000, 0, marks=pytest.mark.nightly), pytest.param(5_000, 1, marks=pytest.mark.nightly)],
)
def test_thousands_of_odd_messages_do_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: int, seed: int
) -> None:
    replies: list[Reply] = []
    heard = itertools.count(1)
    all_heard = threading.Event()

    def recv(router: Router, timeout_ms: int = 0, recv: Callable[..., Any] = Router.recv) -> Any:
        received = recv(router, timeout_ms)
        if received and received[0] in (*CHILDREN, *STRANGERS) and next(heard) >= messages:
            all_heard.set()
        return received

    monkeypatch.setattr(Router, "recv", recv)

    def tell(run: RunFolder, dealers: list[Dealer]) -> None:
        odd_messages.send(dealers, messages, seed)
        assert all_heard.wait(30.0)
        replies.append(client.ask(run, "status", timeout_s=50.0))

    screens = Screens()
    assert run_beside(tmp_path, tell, screens) == 0
    screens.close()
    assert replies[0].data["phase"] == "running"
    assert all("busy" in process for process in replies[0].data["processes"]), (
        "`top` and the desk show how busy each process is"
    )
    events = rows(tmp_path / "run" / "events.jsonl")
    complaints = [event for event in events if "was not understood" in str(event["cause"])]
    assert not [event for event in events if "nothing is shown" in str(event["cause"])]
    assert "\x1b[2J" not in screens.out.getvalue()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["status"] == "stopped"
    assert summary["complaints"] > messages // 5
    assert 10 <= len(complaints) < 20
    rows(tmp_path / "run" / "metrics.jsonl")


@pytest.mark.parametrize("wanted", [{"command": "detach", "names": ["x" * 100_000]}, {"command": "x" * 100_000}])
def test_a_request_that_is_too_long_is_answered(tmp_path: Path, wanted: dict[str, Any]) -> None:
    def tell(run: RunFolder, _dealers: list[Dealer]) -> None:
        with pytest.raises(FailedError, match="was not understood: MessageError: .*of length <= 255"):
            client.ask(run, **wanted)

    assert run_beside(tmp_path, tell) == 0


def test_each_message_that_cannot_be_acted_on_is_reported(tmp_path: Path) -> None:
    odd: dict[str, Message] = {
        "env_steps is None": Report(row={}),
        "episodes is {'a': 1.0}; it must be a number": Report(row={"env_steps": 5, "episodes": {"a": 1.0}}),
        "frames is -3; a counter cannot be negative": Report(row={"env_steps": 5, "frames": -3}),
        "time_s is 'late'; it must be a number": Finished(reason="drained", summary={"time_s": "late"}),
        "a score is nan; it must be finite": Evaluated(policy_version=1, env_steps=2, returns=[float("nan")]),
        "order 9 was reported as applied, but the newest order is": Applied(order=9),
    }

    def tell(run: RunFolder, dealers: list[Dealer]) -> None:
        trainer = dealers[0]
        for message in odd.values():
            assert trainer.send(encode(message))
        trainer.socket.send_multipart([b"one", b"two"])
        while "Input data was truncated" not in (run.path / "events.jsonl").read_text():
            time.sleep(0.01)  # pytest's time limit ends this loop

    assert run_beside(tmp_path, tell) == 0
    complaints = [str(event["cause"]) for event in rows(tmp_path / "run" / "events.jsonl") if event["kind"] == "warned"]
    for said, complaint in zip([*odd, "Input data was truncated"], complaints, strict=True):
        assert "'trainer.0' was not understood: " in complaint
        assert said in complaint


def test_the_summary_counts_the_warnings_of_processes(tmp_path: Path) -> None:
    def tell(run: RunFolder, dealers: list[Dealer]) -> None:
        for update in range(12):
            assert dealers[0].send(encode(Warned(text=f"update {update} skipped")))
        assert dealers[0].send(encode(Report(row={})))
        while "was not understood" not in (run.path / "events.jsonl").read_text():
            time.sleep(0.01)  # pytest's time limit ends this loop

    assert run_beside(tmp_path, tell) == 0
    warned = [event for event in rows(tmp_path / "run" / "events.jsonl") if event["kind"] == "warned"]
    assert len(warned) == 13
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["complaints"] == 13
