"""The desk's web server: serves the page, and streams the page's parts to it as runs change.

It listens on this machine only. Every request needs a secret token: the first request has it in its address, later
ones in a cookie. Requests that change a run are answered only with ``--allow-changes``, and only from the desk's own
page. Pages load nothing from other servers.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from actorlearn.files import is_regular
from actorlearn.wire.identity import Count
from launch.desk.connections import LimitedServer
from launch.desk.report import PAGE
from launch.desk.stream import FILM_WORDS, Changes, InFull, Overview, end_of_log, filmed
from launch.desk.watched import LOOK_EVERY_S, WatchedRuns
from launch.errors import FailedError, RunError
from launch.runs.client import CHANGE_S, TIMEOUT_S, ask
from launch.runs.curves import SCORE

HOST = "127.0.0.1"
HOSTS = (HOST, "localhost")
"""Host names that a request may have. The port is not checked, because it is another one through an SSH tunnel."""
FULL_EVERY_S = 2.0
"""Seconds between two requests to the supervisor of the run that a page shows in full, if no event comes."""
MEASURE_EVERY_S = 2.0
"""Least seconds between two measurements of the machine and of the processes of all living runs."""
MEASURE_SHARE = 50.0
"""Least time between two measurements, divided by the processor time of one: measuring takes at most 1/50 of a core."""
KEEP_ALIVE_S = 15.0
"""Longest time without data in a stream, in seconds; only sending reveals that the page was closed."""
MOST_METRICS = 6
"""Most metrics whose curves a page shows."""
MOST_COLUMNS = 50
"""Most metrics in the table of runs."""
MOST_BODY = 10_000
"""Most bytes in the body of a request for a change."""
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class ChangeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request to change a run; the change, such as "attach", is in the address."""

    simulators: Count = 0
    """Number of simulators to attach."""
    learners: Count = 0
    """Number of learners to attach."""
    names: list[str] = []
    """Names of the processes to detach."""


CHANGES = {"attach": CHANGE_S, "detach": CHANGE_S, "save": CHANGE_S, "stop": TIMEOUT_S}
"""Change that a page may request if changes are allowed -> seconds to wait for the supervisor's reply."""


class Guard:
    """Refuses requests without the token or for another host name; adds security headers to every answer."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        """``port``: the desk's port. It is in the cookie's name, because all ports of a host share cookies."""
        self._app, self._token = app, token
        self._cookie = f"actorlearn-desk-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with 403."""
        request = Request(scope)
        given = request.query_params.get("token")
        known = self._is_token(given) or self._is_token(request.cookies.get(self._cookie))

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if self._is_token(given):
                    headers["set-cookie"] = f"{self._cookie}={self._token}; HttpOnly; SameSite=Strict; Path=/"
            await send(message)

        if wrong := self._refusal(request, known):
            await PlainTextResponse(f"{wrong}\n", 403)(scope, receive, dressed)
        else:
            await self._app(scope, receive, dressed)

    def _refusal(self, request: Request, known: bool) -> str:
        host = request.headers.get("host", "")
        if host.partition(":")[0] not in HOSTS:  # a foreign name that was made to resolve to this address
            return f"host {host!a:.100}: the desk answers only at {HOST}"
        if not known:
            return "the token is missing or wrong; open the address that `actorlearn desk` printed"
        if request.method != "GET" and request.headers.get("origin") != f"http://{host}":
            return "a change must be requested by the desk's own page"
        return ""

    def _is_token(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self._token.encode())


class DeskServer:
    """Answers requests for the page, its stream of data, films, logs of processes, and changes of runs."""

    def __init__(self, runs: WatchedRuns, changes: bool) -> None:
        """``changes``: whether pages may attach, detach, save and stop."""
        self._runs, self._changes = runs, changes
        self._index = (PAGE / "index.html").read_text()  # in memory, because file descriptors may run out

    def app(self, token: str, port: int) -> ASGIApp:
        """Return the web application, which answers only requests with the token."""
        routes = [
            Route("/", self._page, methods=["GET"]),
            Route("/stream", self._stream, methods=["GET"]),
            Route("/films/{run}/{steps:int}/{word}.mp4", self._film, methods=["GET"]),
            Route("/processes/{run}/{process}", self._process, methods=["GET"]),
            Mount("/page", StaticFiles(directory=PAGE)),
        ]
        if self._changes:
            routes.append(Route("/runs/{run}/{change}", self._change, methods=["POST"]))
        return Guard(Starlette(routes=routes), token, port)

    async def _page(self, _: Request) -> Response:
        return HTMLResponse(self._index)

    async def _film(self, request: Request) -> Response:
        watched, word = self._runs.get(request.path_params["run"]), request.path_params["word"]
        known = filmed(watched.run.path) if watched and word in FILM_WORDS else {}
        folder = known.get(request.path_params["steps"])
        if folder is None or not is_regular(folder / f"{word}.mp4"):
            return PlainTextResponse("this film does not exist\n", 404)
        return FileResponse(folder / f"{word}.mp4")

    async def _process(self, request: Request) -> Response:
        """Answer with the end of a process's log, and samples of its processor time and memory."""
        watched, name = self._runs.get(request.path_params["run"]), request.path_params["process"]
        log = None if watched is None else await run_in_threadpool(end_of_log, watched.run.path, name)
        if watched is None or log is None:
            return PlainTextResponse("this process does not exist\n", 404)
        return JSONResponse({"log": log, "load": watched.load.of(name)})

    async def _change(self, request: Request) -> Response:
        watched, command = self._runs.get(request.path_params["run"]), request.path_params["change"]
        if watched is None or command not in CHANGES:
            return JSONResponse({"ok": False, "text": "there is no such run, or no such command for a run"}, 404)
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_BODY:
                return JSONResponse({"ok": False, "text": f"{command}: more than {MOST_BODY:,} bytes"}, 413)
        try:
            wanted = msgspec.json.decode(body, type=ChangeRequest)
        except msgspec.MsgspecError as error:
            return JSONResponse({"ok": False, "text": f"{command}: {error}"}, 400)
        fields = msgspec.structs.asdict(wanted)
        try:
            reply = await run_in_threadpool(ask, watched.run, command, timeout_s=CHANGES[command], **fields)
        except FailedError as error:
            return JSONResponse({"ok": False, "text": str(error)})
        return JSONResponse({"ok": True, "text": f"{watched.run.name}: {reply.text}"})

    async def _stream(self, request: Request) -> Response:
        run_id = request.query_params.get("run", "")
        metrics, columns = (list(dict.fromkeys(request.query_params.getlist(name))) for name in ("metric", "column"))
        overview = Overview(
            self._runs,
            metrics[:MOST_METRICS] or [SCORE],
            columns[:MOST_COLUMNS],
            in_full=[run_id],
            changes=self._changes,
            live=True,
            most_metrics=MOST_METRICS,
        )
        messages = self._messages(overview, run_id)
        return StreamingResponse(messages, media_type="text/event-stream")

    async def _messages(self, overview: Overview, run_id: str) -> AsyncIterator[bytes]:
        """Yield server-sent events with the data that have changed, until the page is closed.

        ``run_id``: id of the run that the page shows in full; empty: the page shows the list of runs.
        """
        changes, clock = Changes(), asyncio.get_running_loop().time
        full: InFull | None = None
        asked: asyncio.Task[dict[str, Any]] | None = None
        asked_s, said_s = 0.0, clock()
        while True:
            found = await asyncio.to_thread(overview.changed) if overview.may_have_changed else {}
            new = changes.of(found)
            if f"curve/{run_id}" in found and (watched := self._runs.get(run_id)):
                if full is None or full.run != watched.run:
                    full = InFull(watched.run, watched.load, self._runs.machine)
                asked_s = 0.0
            if full and asked is None and clock() >= asked_s and not (full.has_ended and asked_s):
                asked_s, asked = clock() + FULL_EVERY_S, asyncio.create_task(run_in_threadpool(full.changed))
            if asked and asked.done():
                new |= changes.of(asked.result(), f"run/{run_id}/")
                asked = None
            if new or clock() - said_s >= KEEP_ALIVE_S:
                yield b"data: " + msgspec.json.encode(new) + b"\n\n" if new else b":\n\n"
                said_s = clock()
            if asked:
                await asyncio.wait([asked], timeout=LOOK_EVERY_S)
            else:
                await asyncio.sleep(LOOK_EVERY_S)


def listen(port: int) -> socket.socket:
    """Return a socket that listens on this machine only; raises RunError if the port is taken.

    ``port``: 0 takes any free port.
    """
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise RunError(f"--port {port}: {error.strerror}; name another port, or 0 for any free port") from None
    return listening


def serve(runs: WatchedRuns, listening: socket.socket, token: str, changes: bool) -> None:
    """Measure the load and serve pages, until Ctrl-C or SIGTERM; ``changes``: whether pages may change runs."""
    port: int = listening.getsockname()[1]
    over = threading.Event()
    measuring = threading.Thread(target=_measure, args=(runs, over), daemon=True)
    measuring.start()
    with suppress(KeyboardInterrupt):
        LimitedServer(DeskServer(runs, changes).app(token, port)).run(sockets=[listening])
    over.set()
    measuring.join()


def _measure(runs: WatchedRuns, over: threading.Event) -> None:
    """Measure the machine and the processes of living runs every few seconds, also while no page is open."""
    pause_s = 0.0
    while not over.wait(pause_s):
        pause_s = MEASURE_EVERY_S
        with suppress(OSError):  # no file descriptor is left now
            runs.look()
            began_s = time.thread_time()  # wall time is longer on a busy machine
            runs.measure()
            pause_s = max(pause_s, MEASURE_SHARE * (time.thread_time() - began_s))
