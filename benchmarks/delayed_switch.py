"""A switch between network namespaces, in user space, that forwards each frame after a delay.

It simulates links with a long latency where the kernel has no netem. Each machine has a TAP device, whose frames this
process reads and writes; TCP sees them as on a real link, with its slow start. Needs root and ``/dev/net/tun``.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import threading
import time
from collections import deque
from contextlib import suppress

_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000  # linux/if_tun.h
_MOST_BYTES = 1 << 16
_MAC_BYTES = 6


class DelayedSwitch:
    """A switch with its ports; a frame arrives ``delay_s`` seconds after it was sent, and frames keep their order."""

    def __init__(self, delay_s: float) -> None:
        """Begin without ports."""
        self._delay_s = delay_s
        self._ports: list[int] = []
        self._port_of: dict[bytes, int] = {}
        """MAC address of a machine that has sent a frame -> its port."""
        self._travelling: deque[tuple[float, int, bytes]] = deque()
        """Time at which each frame arrives, the port that it came from, and its bytes."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="switch", daemon=True)

    def add_port(self, name: str) -> None:
        """Make a TAP device with this name in the namespace of this process; the caller may move it to another."""
        port = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._ports.append(port)
        fcntl.ioctl(port, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))

    def start(self) -> None:
        """Begin to forward frames."""
        self._thread.start()

    def _run(self) -> None:
        poll = select.poll()
        for port in self._ports:
            poll.register(port, select.POLLIN)
        while not self._over.is_set():
            wait_s = self._travelling[0][0] - time.monotonic() if self._travelling else 0.1
            for port, _ in poll.poll(max(0.0, min(wait_s, 0.1)) * 1000):
                self._receive(port)
            while self._travelling and self._travelling[0][0] <= time.monotonic():
                self._deliver(*self._travelling.popleft()[1:])

    def _receive(self, port: int) -> None:
        with suppress(OSError):  # nothing left to read, or the device is not up yet
            while frame := os.read(port, _MOST_BYTES):
                self._port_of[frame[_MAC_BYTES : 2 * _MAC_BYTES]] = port
                self._travelling.append((time.monotonic() + self._delay_s, port, frame))

    def _deliver(self, came_from: int, frame: bytes) -> None:
        known = self._port_of.get(frame[:_MAC_BYTES])
        for port in self._ports if known is None else [known]:
            if port != came_from:
                with suppress(OSError):  # as a link drops frames that it has no room for
                    os.write(port, frame)

    def close(self) -> None:
        """Stop forwarding, and remove all ports."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        for port in self._ports:
            os.close(port)
