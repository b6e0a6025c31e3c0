"""Admission of TCP connections: which keys may connect, and which ids each key may use. Opens no socket.

Both ends of a connection have a pair of Curve25519 keys (CurveZMQ, https://rfc.zeromq.org/spec/26). The connecting end
knows the listener's public key beforehand. The listening end has a list of public keys, each with a name. When a new
connection has exchanged keys, libzmq asks this module whether its key is admitted (ZAP,
https://rfc.zeromq.org/spec/27). Later libzmq gives the key with every message. The name of a sender is the name of its
key; a message cannot claim another.

A message from the connecting end has three frames: an id, a session and the body. The id is the name of the sender's
key, or this name, ``/`` and a word, which names a process of a node. The session is a random number that the sender
draws when it starts. If two connections use the same id, the sessions show whether one sender has connected again, or
whether there are two senders with the same key. While the first is connected, the second is refused and receives the
reason.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Names of keys. A name has no slash: in an id a slash separates the key's name from a process of the node."""
KEY_BYTES = 32
SESSION_BYTES = 16
MOST_PEERS = 256
"""Limit on the number of ids that are remembered for one key. A further id replaces the oldest one, whose sender is
remembered again at its next message."""
_ID_BYTES = 255
_FRAMES = 3
"""Frames of a message from the connecting end: id, session, body."""
_ZAP_FRAMES = 7
"""Frames of a ZAP request for CURVE: version, request, domain, address, identity, mechanism, key."""
_ZAP_VERSION = b"1.0"
_MOST_TOLD = 32
"""Limit on the number of different refusals that are reported within a minute; further ones are counted together."""
_TELL_AGAIN_S = 60.0
_FORMER_ROUTES = 8
"""Number of earlier connections of a peer from which late messages are still accepted."""


@dataclass(frozen=True)
class Pair:
    """A public and a secret Curve25519 key, of 32 bytes each."""

    public: bytes
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class ServerKeys:
    """The keys with which a listening socket encrypts, and by which it decides who may connect."""

    pair: Pair
    allowed: Callable[[bytes], str | None] = field(repr=False)
    """Returns the name of a public key, or None if the key may not connect at the time of the call."""
    list_named: str = "`actorlearn keys list` shows the list"
    """End of an error message about an unknown key: where to find the list of keys."""


@dataclass(frozen=True)
class ClientKeys:
    """The keys with which a connecting socket encrypts, and by which it knows the listener."""

    pair: Pair
    server: bytes
    """Public key of the listener. A connection to a listener with another key fails."""


class RefusedError(Exception):
    """A received message is not admitted; the text is the reason, for the log of this end and for the sender."""


@dataclass
class _Peer:
    key: bytes
    session: bytes
    route: bytes
    """libzmq's id of the connection of the peer's last message."""
    former: deque[bytes] = field(default_factory=lambda: deque(maxlen=_FORMER_ROUTES))
    """The peer's earlier connections. Late messages from them are accepted; answers go to the newest connection."""


class Refusals:
    """Log lines about refused connections and messages: equal ones are counted, and returned at most once a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[str, int] = {}
        """Text of each unread refusal -> how often it occurred."""
        self._stand: dict[str, Callable[[], bool]] = {}
        """Text of each unread refusal -> function that returns whether the refusal still holds."""
        self._told: dict[str, float] = {}
        """Text -> clock in seconds when it was last read."""

    def note(self, text: str, stands: Callable[[], bool] = lambda: True) -> None:
        """Count a refusal for the log. It is left out if ``stands`` returns False when the log lines are read.

        So nothing is logged if, for example, the key has been added to the list meanwhile.
        """
        known = self._counts.keys() | self._told.keys()
        if text not in known and len(known) >= _MOST_TOLD:
            text, stands = "further connections or messages were refused", lambda: True
        self._stand[text] = stands
        self._counts[text] = self._counts.get(text, 0) + 1

    def read(self) -> list[str]:
        """Return a log line for each new refusal, except for texts that were returned within the last minute."""
        now_s = self._clock()
        self._counts = {text: count for text, count in self._counts.items() if self._stand[text]()}
        self._stand = {text: self._stand[text] for text in self._counts}
        self._told = {text: told_s for text, told_s in self._told.items() if now_s - told_s < _TELL_AGAIN_S}
        new = [text for text in self._counts if text not in self._told]
        self._told |= dict.fromkeys(new, now_s)
        counts = [(text, self._counts.pop(text)) for text in new]
        return [f"{text} ({count} times)" if count > 1 else text for text, count in counts]


class Door:
    """Decides for one listening socket which keys may connect and which messages are accepted."""

    def __init__(self, keys: ServerKeys, limit_bytes: int) -> None:
        """Accept messages of at most ``limit_bytes`` from senders whose public key is on the list, ``keys.allowed``.

        The list may change at any time, and is read again for each message.
        """
        self._keys, self._limit_bytes = keys, limit_bytes
        self._peers: dict[str, dict[str, _Peer]] = {}
        """Name of a key -> id -> peer."""
        self.refusals = Refusals()

    def answer(self, request: list[bytes]) -> list[bytes]:
        """Answer a ZAP request of libzmq: status 200 with the key as the user id, or 400 to refuse the connection."""
        request_id = request[1] if len(request) > 1 else b""
        refusal = [_ZAP_VERSION, request_id, b"400", b"not allowed", b"", b""]
        if len(request) != _ZAP_FRAMES or request[0] != _ZAP_VERSION or request[5] != b"CURVE":
            self.refusals.note("a connection without CURVE keys was refused")
            return refusal
        address, key = request[3], request[6]
        if len(key) != KEY_BYTES or self._keys.allowed(key) is None:
            said = f"a connection from {_shown(address)} was refused: its key {key[:4].hex()}… is not on the list"
            self.refusals.note(f"{said}; {self._keys.list_named}", lambda: self._keys.allowed(key) is None)
            return refusal
        return [_ZAP_VERSION, request_id, b"200", b"OK", key.hex().encode(), b""]

    def sender(self, user_id: str, frames: list[bytes]) -> str:
        """Return the name of the key that sent a message; ``user_id``, from libzmq, is this key in hexadecimal digits.

        Raises RefusedError if the key was revoked or the message is too large.
        """
        key = bytes.fromhex(user_id)
        name = self._keys.allowed(key)
        if name is None:
            raise RefusedError(f"the key {key[:4].hex()}… was revoked; its messages are dropped")
        size = sum(map(len, frames))
        if size > self._limit_bytes:
            raise RefusedError(f"{name} sent a message of {size} bytes; the limit is {self._limit_bytes} bytes")
        return name

    def enter(
        self, route: bytes, user_id: str, frames: list[bytes], connected: Callable[[bytes], bool]
    ) -> tuple[str, bytes]:
        """Return the sender's id and the body of a message; raises RefusedError if the message is not accepted.

        ``route`` is libzmq's id of the connection, and ``user_id`` the sender's key in hexadecimal digits.
        ``connected`` returns whether the connection with a route is still open.
        """
        name = self.sender(user_id, frames[-1:])
        if len(frames) != _FRAMES or len(frames[1]) != SESSION_BYTES or len(frames[0]) > _ID_BYTES:
            sizes = [len(part) for part in frames[:4]]
            raise RefusedError(
                f"{name} sent a message of another protocol: parts of {sizes} bytes instead of an id of at most "
                f"{_ID_BYTES}, a session of {SESSION_BYTES} and the body"
            )
        said, session, body = frames
        peer = said.decode("utf-8", "replace")
        if peer != name and not (peer.startswith(f"{name}/") and peer.isprintable()):
            raise RefusedError(f"{name} connected as {_shown(said)}; its key allows only its own name")
        peers = self._peers.setdefault(name, {})
        known = peers.get(peer)
        if known is None or known.session != session:
            if known is not None and self._keys.allowed(known.key) == name and connected(known.route):
                raise RefusedError(
                    f"a second peer connected as {peer}, which is connected already; each needs its own key"
                )
            peers.pop(peer, None)
            if len(peers) >= MOST_PEERS:
                peers.pop(next(iter(peers)))
            peers[peer] = _Peer(bytes.fromhex(user_id), session, route)
        elif known.route != route and route not in known.former:
            known.former.append(known.route)
            known.route = route
        return peer, body

    def route(self, peer: str) -> bytes | None:
        """Return libzmq's id of a peer's newest connection; None for a peer that is unknown or no longer allowed."""
        name = peer.partition("/")[0]
        known = self._peers.get(name, {}).get(peer)
        return known.route if known is not None and self._keys.allowed(known.key) == name else None


def new_session() -> bytes:
    """Return random bytes by which the listener tells this connecting socket from another one with the same id."""
    return secrets.token_bytes(SESSION_BYTES)


def _shown(said: bytes) -> str:
    """Return received bytes as short, escaped text for a log."""
    return f"{said.decode('utf-8', 'replace')!a:.80}"
