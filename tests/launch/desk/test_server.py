"""The web server of the desk, without a browser: access, answers, and streams of changes."""

from __future__ import annotations

import http.client
import json
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from launch.desk.watched import WatchedRuns, id_of
from launch.errors import RunError
from launch.runs import view
from tests.launch.desk.folders import append, row, write_run
from tests.launch.runs.folders import me

pytest.importorskip("uvicorn", reason="needs the extra desk: pip install 'actorlearn[desk]'")
from launch.desk import connections, server

TOKEN = "a-token"


class Asked:
    """A desk whose server runs in a thread, with a client."""

    def __init__(self, folder: Path, changes: bool) -> None:
        self.listening = server.listen(0)
        self.port = self.listening.getsockname()[1]
        app = server.DeskServer(WatchedRuns(folder), changes).app(TOKEN, self.port)
        self.uvicorn = connections.LimitedServer(app)
        self.thread = threading.Thread(target=self.uvicorn.run, kwargs={"sockets": [self.listening]})
        self.thread.start()
        self.connections: list[http.client.HTTPConnection] = []

    def ask(self, path: str, method: str = "GET", body: str = "", **headers: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        self.connections.append(connection)
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        return connection.getresponse()

    def status(self, *given: Any, **headers: str) -> int:
        return int(self.ask(*given, **headers).status)

    def end(self) -> None:
        for connection in self.connections:
            connection.close()
        self.uvicorn.should_exit = self.uvicorn.force_exit = True
        self.thread.join()
        self.listening.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    started: list[Asked] = []

    def begin(changes: bool = False) -> Asked:
        started.append(Asked(tmp_path, changes))
        return started[-1]

    yield begin
    for asked in started:
        asked.end()


def test_a_request_without_the_token_or_for_another_host_is_refused(start: Any) -> None:
    desk = start()
    for path in ("/", "/stream", "/page/desk.js", "/films/x/1/best.mp4", "/?token=wrong", "/nowhere"):
        assert desk.status(path) == 403
    assert desk.status(f"/?token={TOKEN}", Host=f"evil.example:{desk.port}") == 403
    assert desk.status("/", Cookie=f"actorlearn-desk-{desk.port}=wrong") == 403
    let_in = desk.ask(f"/?token={TOKEN}")
    assert let_in.status == 200
    cookie = let_in.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert "script-src 'self'" in let_in.headers["content-security-policy"]
    assert "unsafe" not in let_in.headers["content-security-policy"]
    known = {"Cookie": cookie.partition(";")[0]}
    assert desk.status("/page/desk.js", **known) == 200
    assert desk.status("/page/..%2fserver.py", **known) == 404
    assert desk.status("/films/x/1/best.mp4", **known) == 404


def test_a_run_is_changed_only_if_changes_are_allowed_and_only_by_the_page(start: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [row(1)])
    reading, changing = start(), start(changes=True)
    path = f"/runs/{id_of(run)}/stop?token={TOKEN}"
    assert reading.status(path, "POST", "{}", Origin=f"http://127.0.0.1:{reading.port}") in (404, 405)
    assert changing.status(path, "POST", "{}") == 403
    assert changing.status(path, "POST", "{}", Origin="http://evil.example") == 403
    own = f"http://127.0.0.1:{changing.port}"
    for number in ('"many"', "1" + 20 * "0"):
        wrong = changing.ask(path, "POST", f'{{"simulators": {number}}}', Origin=own)
        assert wrong.status == 400 and "simulators" in json.loads(wrong.read())["text"]
    refused = json.loads(changing.ask(path, "POST", "{}", Origin=own).read())
    assert refused["ok"] is False and "run" in refused["text"], "the run is not alive, so no supervisor answers"
    assert changing.status(f"/runs/{id_of(run)}/kill?token={TOKEN}", "POST", "{}", Origin=own) == 404
    long = changing.ask(path, "POST", json.dumps({"names": ["x" * server.MOST_BODY]}), Origin=own)
    assert long.status == 413 and "10,000 bytes" in json.loads(long.read())["text"]


def test_a_stream_begins_with_all_parts_and_goes_on_with_changes(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "ANSWER_S", 0.01)  # no supervisor answers
    run = write_run(tmp_path / "run", [row(n) for n in range(3)], **me())
    desk = start()
    stream = desk.ask(f"/stream?run={id_of(run)}&token={TOKEN}")
    assert stream.headers["content-type"].startswith("text/event-stream")

    def next_with(name: str) -> Any:
        while True:
            line = stream.readline()
            if line.startswith(b"data: ") and name in (parts := json.loads(line.removeprefix(b"data: "))):
                return parts[name]

    assert next_with(f"curve/{id_of(run)}")["metrics"]["episode_return_mean"]["by_steps"][0] == [0, 100, 200]
    append(run, "metrics.jsonl", row(3))
    assert next_with(f"curve/{id_of(run)}")["metrics"]["episode_return_mean"]["by_steps"][0][-1] == 300
    while next_with(f"run/{id_of(run)}/head")["progress"] != "300 of 100,000 steps":
        pass  # an earlier state may still be on its way


def test_a_port_that_is_taken_is_refused_with_the_way_out() -> None:
    taken = server.listen(0)
    try:
        with pytest.raises(RunError, match="0 for any free port"):
            server.listen(taken.getsockname()[1])
    finally:
        taken.close()


def test_the_server_sends_the_end_of_a_log_and_no_other_file(start: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [row(1)])
    (run.path / "logs").mkdir()
    lines = [f"line {number}\n" for number in range(20_000)]
    (run.path / "logs" / "trainer.log").write_text("".join(lines))
    desk = start()

    def answer(run_id: str, process: str) -> Any:
        return desk.ask(f"/processes/{run_id}/{process}?token={TOKEN}")

    told = json.loads(answer(id_of(run), "trainer").read())
    shown = told["log"].splitlines(keepends=True)
    assert shown == lines[-len(shown) :] and 1000 < len(shown) < len(lines)
    assert told["load"] == {"seconds": [], "cores": [], "bytes": []}
    for process in ("nobody", "..%2fmeta.json", "%2e%2e%2ftopology", "*"):
        assert answer(id_of(run), process).status == 404
    assert answer("unknown", "trainer").status == 404


SERVED = """if True:
    import resource, sys
    from pathlib import Path
    from launch.desk import connections, server
    from launch.desk.watched import WatchedRuns
    connections.HEADER_S = 1.0
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]),) * 2)
    with server.listen(0) as listening:
        print(listening.getsockname()[1], flush=True)
        server.serve(WatchedRuns(Path(sys.argv[1])), listening, "a-token", False)
"""


@pytest.mark.parametrize(("descriptors", "halves"), [(1024, 400), (64, 100)])
def test_half_requests_without_a_token_do_not_block_the_page(descriptors: int, halves: int, tmp_path: Path) -> None:
    """With 64 file descriptors, these run out before the limit of connections is reached."""
    errors = tmp_path / "stderr"
    with errors.open("wb") as err, ExitStack() as opened:
        served = [sys.executable, "-c", SERVED, str(tmp_path), str(descriptors)]
        desk = opened.enter_context(subprocess.Popen(served, stdout=subprocess.PIPE, stderr=err))
        opened.callback(desk.kill)
        assert desk.stdout is not None
        port = int(desk.stdout.readline())
        half = [opened.enter_context(socket.socket()) for _ in range(halves)]
        for one in half:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        select.select([], half[:1], [], 10)
        for one in half:
            with suppress(OSError):
                one.send(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        page = http.client.HTTPConnection("127.0.0.1", port, timeout=40)
        page.request("GET", f"/?token={TOKEN}")
        assert page.getresponse().status == 200
        page.close()
        half[-1].settimeout(40)
        with suppress(ConnectionResetError):
            assert half[-1].recv(1) == b"", "a half request ends by the time-out"
    assert errors.stat().st_size < 1_000, errors.read_text()[:1_000]


def test_a_stream_outlives_the_time_out_of_a_request(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 0.3)
    desk = start()
    stream = desk.ask(f"/stream?token={TOKEN}")
    assert stream.readline().startswith(b"data: ")
    time.sleep(1)
    assert desk.status(f"/?token={TOKEN}") == 200
    assert stream.read1(1) == b"\n", "the stream is still open"
