"""Sends a request, such as to save or to stop, to the supervisor of a living run, and returns its reply.

The messages ``Request`` and ``Reply`` (``actorlearn/wire/messages.py``) are sent over the control socket of the run,
which only the user who started the run can open.
"""

from __future__ import annotations

import secrets
import time
from typing import Any

from actorlearn import __version__
from actorlearn.wire.channel import ChannelError, Dealer
from actorlearn.wire.messages import PROTOCOL_VERSION, MessageError, Reply, Request, decode, encode
from launch.errors import FailedError
from launch.runs.find import RunFolder

TIMEOUT_S = 5.0
"""Seconds to wait for the reply to status, stop or kill. A supervisor replies within a second, unless it is stuck."""
CHANGE_S = 75.0
"""Seconds to wait for the reply to attach, detach and save. The supervisor itself gives up on them after 60 s."""


def ask(run: RunFolder, command: str, timeout_s: float = TIMEOUT_S, **fields: Any) -> Reply:
    """Send one request and return the reply; raises FailedError if no reply comes or the supervisor refuses.

    ``command``: for example "save" or "attach". ``fields``: its arguments, which are fields of `Request`.
    """
    request = Request(protocol=PROTOCOL_VERSION, version=__version__, command=command, **fields)
    try:
        dealer = Dealer(run.control, f"cli-{secrets.token_hex(8)}")
    except ChannelError as error:
        raise FailedError(f"{run.name}: {error}") from None
    try:
        reply = _exchange(dealer, request, run, timeout_s)
    finally:
        dealer.close()
    if not reply.ok:
        raise FailedError(f"{run.name}: {reply.text}")
    return reply


def _exchange(dealer: Dealer, request: Request, run: RunFolder, timeout_s: float) -> Reply:
    deadline_s = time.monotonic() + timeout_s
    dealer.send(encode(request))
    while (left_s := deadline_s - time.monotonic()) > 0:
        data = dealer.recv(int(min(left_s, 0.2) * 1000) + 1)
        if data is None:
            if not run.alive:
                raise FailedError(f"{run.name} ended before it answered; `actorlearn logs {run.name}` shows why")
            continue
        try:
            message = decode(data, "command line")
        except MessageError as error:
            raise FailedError(f"{run.name}: {error}; use the version of actorlearn that started the run") from None
        if isinstance(message, Reply):
            return message
    pid = run.meta.get("supervisor_pid")
    raise FailedError(
        f"{run.name}: supervisor {pid} did not answer {request.command!r} within {timeout_s:g} s; "
        f"look at `actorlearn logs {run.name}`, or end it with `actorlearn stop {run.name} --now`"
    )
