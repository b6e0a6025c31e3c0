"""Finds the address at which other machines reach this one: by the route to one of them, or by a named interface.

The machine's own name is not used, because it often resolves to 127.0.1.1 or to an address of another network.
Reads the kernel's tables; sends nothing.
"""

from __future__ import annotations

import ipaddress
import socket

import psutil

from launch.errors import RunError

_ANY_PORT = 9


def interfaces() -> dict[str, list[str]]:
    """Return the addresses of each interface that is up, except those valid on one link only (fe80::)."""
    up = {name for name, stats in psutil.net_if_stats().items() if stats.isup}
    families = (socket.AF_INET, socket.AF_INET6)
    found = {
        name: [each.address for each in addresses if each.family in families and "%" not in each.address]
        for name, addresses in psutil.net_if_addrs().items()
        if name in up
    }
    return {name: addresses for name, addresses in found.items() if addresses}


def address_towards(host: str) -> str:
    """Return the address of this machine on the route to ``host``, a name or an IP address.

    Nothing is sent. Raises RunError if there is no route.
    """
    try:
        family, kind, _, _, there = socket.getaddrinfo(host, _ANY_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as asked:
            asked.connect(there)
            return str(asked.getsockname()[0])
    except OSError as error:
        raise RunError(
            f"{host!a:.100}: this machine has no route to it: {error.strerror}; check it, or set nodes.interface"
        ) from None


def address_of(wanted: str) -> str:
    """Return an address of the interface ``wanted``, IPv4 if it has one; an address of this machine is returned as is.

    Raises RunError if this machine has no such interface or address.
    """
    there = interfaces()
    if wanted in there:
        return sorted(there[wanted], key=lambda address: ":" in address)[0]
    if any(_same(wanted, address) for addresses in there.values() for address in addresses):
        return wanted
    known = ", ".join(f"{name} ({' '.join(addresses)})" for name, addresses in sorted(there.items()))
    raise RunError(f"{wanted!a:.100}: this machine has no such interface or address; it has {known}")


def _same(one: str, other: str) -> bool:
    try:
        return ipaddress.ip_address(one) == ipaddress.ip_address(other)
    except ValueError:
        return False
