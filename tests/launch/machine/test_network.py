"""Addresses of this machine: the host name is never used, and unknown interfaces are refused with the known ones."""

from __future__ import annotations

import socket

import pytest

from launch.errors import RunError
from launch.machine.network import address_of, address_towards, interfaces


@pytest.fixture(autouse=True)
def _nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> str:
        raise AssertionError("a machine's name says nothing of its address")

    monkeypatch.setattr(socket, "gethostname", asked)
    monkeypatch.setattr(socket, "getfqdn", asked)


def test_the_route_to_this_machine_is_its_loopback() -> None:
    assert address_towards("127.0.0.1") == "127.0.0.1"
    assert address_towards("localhost") in ("127.0.0.1", "::1")


def test_an_interface_has_an_address_and_an_address_stays_as_it_is() -> None:
    assert address_of("lo") == "127.0.0.1"
    assert "127.0.0.1" in interfaces()["lo"]
    assert address_of("127.0.0.1") == "127.0.0.1"


def test_an_unknown_interface_or_address_is_refused_with_a_list_of_known_ones() -> None:
    with pytest.raises(
        RunError, match=r"'eth77': this machine has no such interface or address; it has .*lo \(127\.0\.0\.1"
    ):
        address_of("eth77")
    with pytest.raises(RunError, match="192.0.2.7.*it has"):
        address_of("192.0.2.7")
    with pytest.raises(RunError, match="or set nodes.interface"):
        address_towards("no-such-machine.invalid")
