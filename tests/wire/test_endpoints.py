"""Processes of one machine connect through local sockets, and those of different machines through TCP."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
import pytest

from actorlearn.address import PATH_BYTES, Ipc, Tcp
from actorlearn.wire.channel import Routers
from actorlearn.wire.endpoints import Endpoints
from actorlearn.wire.messages import Endpoint
from tests.parameters.networked import Listing

HOST = "127.0.0.1"
LIMIT_BYTES = 1000
NOBODY = 65534


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def answers(stack: ExitStack, router: Routers, asking: Endpoints, to: Endpoint) -> type[Ipc | Tcp]:
    """Let a process ask, and answer it; returns the kind of address that it used."""
    dealer = stack.enter_context(closing(asking.dealer(to, LIMIT_BYTES)))
    received = None
    for _ in range(200):
        dealer.send(b"question")
        if (received := router.recv(50)) is not None:
            break
    assert received == (asking.own.socket_id, b"question")
    assert router.send(asking.own.socket_id, b"answer")
    assert dealer.recv(10_000) == b"answer"
    return type(dealer.address)


def test_one_listener_serves_its_machine_and_others(stack: ExitStack, tmp_path: Path) -> None:
    listing = Listing(folder=tmp_path)
    server = listing.trainer(0)
    router = stack.enter_context(closing(server.router(HOST, LIMIT_BYTES)))
    to = server.find("trainer")[0]
    assert to.local is not None
    assert answers(stack, router, listing.trainer(1), to) is Ipc
    elsewhere = msgspec.structs.replace(to, local=msgspec.structs.replace(to.local, machine="another"))
    assert answers(stack, router, listing.trainer(2), elsewhere) is Tcp
    assert answers(stack, router, listing.trainer(3), to) is Ipc


def test_a_process_of_another_machine_is_heard_while_those_of_this_one_send(stack: ExitStack, tmp_path: Path) -> None:
    """A server of both would never have heard the other machine while it had requests from its own."""
    listing = Listing(folder=tmp_path)
    server = listing.trainer(0)
    router = stack.enter_context(closing(server.router(HOST, LIMIT_BYTES)))
    to = server.find("trainer")[0]
    assert to.local is not None
    elsewhere = msgspec.structs.replace(to, local=None)
    local, remote = (
        stack.enter_context(closing(listing.trainer(rank).dealer(where, LIMIT_BYTES)))
        for rank, where in ((1, to), (2, elsewhere))
    )
    while not remote.send(b"connected"):
        router.recv(20)
    while router.recv(1000) is None:
        pass
    for _ in range(3):
        assert local.send(b"request")
    assert remote.send(b"request")
    for source in router.sources[:2]:
        assert source.poll(10_000)
    assert {received[0] for _ in range(2) if (received := router.recv(0))} == {"trainer-1.0", "trainer-2.0"}


def test_a_message_is_pushed_to_the_local_socket(stack: ExitStack, tmp_path: Path) -> None:
    listing = Listing(folder=tmp_path)
    pull = stack.enter_context(closing(listing.trainer(0).pull(HOST, LIMIT_BYTES)))
    other = listing.trainer(1)
    push = stack.enter_context(closing(other.push(other.find("trainer")[0])))
    assert push.send(b"weights")
    assert pull.recv(10_000) == ("", [b"weights"])


def test_without_the_file_of_the_local_socket_tcp_is_used(stack: ExitStack, tmp_path: Path) -> None:
    listing = Listing(folder=tmp_path)
    server = listing.trainer(0)
    router = stack.enter_context(closing(server.router(HOST, LIMIT_BYTES)))
    to = server.find("trainer")[0]
    assert to.local is not None
    to.local.address.file.unlink()
    assert answers(stack, router, listing.trainer(1), to) is Tcp


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_local_socket_of_another_user_is_not_used(stack: ExitStack, tmp_path: Path) -> None:
    """A path that may not be looked at raised PermissionError in the process that connects."""
    listing = Listing(folder=tmp_path)
    server = listing.trainer(0)
    router = stack.enter_context(closing(server.router(HOST, LIMIT_BYTES)))
    to, asking = server.find("trainer")[0], listing.trainer(1)
    tmp_path.chmod(0o700)
    os.seteuid(NOBODY)
    try:
        assert answers(stack, router, asking, to) is Tcp
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("folder", [None, Path("/tmp") / (PATH_BYTES * "x")], ids=["none", "too long"])
def test_without_a_folder_for_it_there_is_no_local_socket(stack: ExitStack, folder: Path | None) -> None:
    server = Listing(folder=folder).trainer(0)
    stack.enter_context(closing(server.router(HOST, LIMIT_BYTES)))
    assert server.find("trainer")[0].local is None


def test_the_file_of_a_local_socket_is_for_its_user_alone_and_removed_at_the_end(tmp_path: Path) -> None:
    server = Listing(folder=tmp_path).trainer(0)
    router = server.router(HOST, LIMIT_BYTES)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    router.close()
    assert not any(tmp_path.iterdir())
