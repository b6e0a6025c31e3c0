"""Admission on TCP: whose key may connect, as whom it may speak, and who was refused. Pure; opens no socket.

Both ends of a connection have a pair of Curve25519 keys (CurveZMQ, https://rfc.zeromq.org/spec/26). The dialling end
knows the listener's public key beforehand; the listening end has a list of public keys, each with a name. libzmq asks
for each new connection, after the key exchange, whether its key may enter (ZAP, https://rfc.zeromq.org/spec/27), and
then gives the key with every message: the name of a sender is the name of its key, whatever it says of itself.

A message from the dialling end has three frames: its id, its session and the body. The id is the name of its key, or
that name, ``/`` and a word of its choice: the processes of a node. The session is random, and shows whether a second
connection with an id is the first one's peer, which has dialled again, or another peer with the same key. An id belongs
to the peer that has it for as long as that one is connected; another one is refused and told why.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Names of keys. A slash cannot be in one: what follows it in an id is a process of that node."""
KEY_BYTES = 32
SESSION_BYTES = 16
MOST_PEERS = 256
"""Ids of one key that are kept; of more the oldest is forgotten until it speaks again."""
_ID_BYTES = 255
_FRAMES = 3
"""Frames of a message from the dialling end: id, session, body."""
_ZAP_FRAMES = 7
"""Frames of a ZAP request for CURVE: version, request, domain, address, identity, mechanism, key."""
_ZAP_VERSION = b"1.0"
_MOST_TOLD = 32
"""Different refusals that are told within a minute; further ones are counted together."""
_TELL_AGAIN_S = 60.0
_FORMER_ROUTES = 8


@dataclass(frozen=True)
class Pair:
    """A public key and its secret key, of 32 bytes each."""

    public: bytes
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class ServerKeys:
    """The keys of an end that listens."""

    pair: Pair
    allowed: Callable[[bytes], str | None] = field(repr=False)
    """Name that a public key may enter under, as of now; None: it may not."""
    list_named: str = "`actorlearn keys list` shows the list"
    """Words that say where the list of keys is found."""


@dataclass(frozen=True)
class ClientKeys:
    """The keys of an end that dials."""

    pair: Pair
    server: bytes
    """Public key of the listener: no other one can answer."""


class RefusedError(Exception):
    """A message that is not let in; the text is for both ends."""


@dataclass
class _Peer:
    key: bytes
    session: bytes
    route: bytes
    """libzmq's id of the connection on which the peer spoke last."""
    former: deque[bytes] = field(default_factory=lambda: deque(maxlen=_FORMER_ROUTES))
    """Its earlier connections, whose late messages are taken and not answered."""


class Refusals:
    """Refusals that were not read yet, each kind once a minute with its count, however many there are."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with none; ``clock`` returns seconds."""
        self._clock = clock
        self._counts: dict[str, int] = {}
        self._stand: dict[str, Callable[[], bool]] = {}
        """Whether a refusal that was not read yet is still to be told, by its text."""
        self._told: dict[str, float] = {}
        """Clock at which a text was last read."""

    def note(self, text: str, stands: Callable[[], bool] = lambda: True) -> None:
        """Count a refusal; one that does not stand any more when it is read is forgotten."""
        known = self._counts.keys() | self._told.keys()
        if text not in known and len(known) >= _MOST_TOLD:
            text, stands = "others were refused", lambda: True
        self._stand[text] = stands
        self._counts[text] = self._counts.get(text, 0) + 1

    def read(self) -> list[str]:
        """Return the refusals since the last call, a line each; one that was told within the last minute waits."""
        now_s = self._clock()
        self._counts = {text: count for text, count in self._counts.items() if self._stand[text]()}
        self._stand = {text: self._stand[text] for text in self._counts}
        self._told = {text: told_s for text, told_s in self._told.items() if now_s - told_s < _TELL_AGAIN_S}
        new = [text for text in self._counts if text not in self._told]
        self._told |= dict.fromkeys(new, now_s)
        counts = [(text, self._counts.pop(text)) for text in new]
        return [f"{text} ({count} times)" if count > 1 else text for text, count in counts]


class Door:
    """Decides for one listening socket who is let in, and remembers on which connection each peer is reached."""

    def __init__(self, keys: ServerKeys, limit_bytes: int) -> None:
        """Let in the keys that are allowed, at each moment, by ``keys``, with messages of at most so many bytes."""
        self._keys, self._limit_bytes = keys, limit_bytes
        self._peers: dict[str, dict[str, _Peer]] = {}
        """Peers by their ids, by the names of their keys."""
        self.refusals = Refusals()

    def answer(self, request: list[bytes]) -> list[bytes]:
        """Answer one ZAP request of libzmq: 200 and the key as the user id, or 400."""
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
        """Return the name of the key of a message; raises RefusedError for one that is not allowed, or too large."""
        key = bytes.fromhex(user_id)
        name = self._keys.allowed(key)
        if name is None:
            raise RefusedError(f"the key {key[:4].hex()}… has been revoked; what it still sends is dropped")
        size = sum(map(len, frames))
        if size > self._limit_bytes:
            raise RefusedError(f"{name} sent a message of {size} bytes; at most {self._limit_bytes} are taken")
        return name

    def enter(
        self, route: bytes, user_id: str, frames: list[bytes], connected: Callable[[bytes], bool]
    ) -> tuple[str, bytes]:
        """Return a message as (peer's id, body); raises RefusedError for one that is not let in.

        ``route``: libzmq's id of its connection; ``user_id``: of the ZAP answer; ``connected`` says whether the
        connection of a route is still there.
        """
        name = self.sender(user_id, frames[-1:])
        if len(frames) != _FRAMES or len(frames[1]) != SESSION_BYTES or len(frames[0]) > _ID_BYTES:
            raise RefusedError(f"{name} sent what is no message: frames of {[len(part) for part in frames[:4]]} bytes")
        said, session, body = frames
        peer = said.decode("utf-8", "replace")
        if peer != name and not (peer.startswith(f"{name}/") and peer.isprintable()):
            raise RefusedError(f"{name} spoke as {_shown(said)}; with its key it can speak as itself alone")
        peers = self._peers.setdefault(name, {})
        known = peers.get(peer)
        if known is None or known.session != session:
            if known is not None and self._keys.allowed(known.key) == name and connected(known.route):
                raise RefusedError(f"a second peer spoke as {peer}, which is connected already; it needs its own key")
            peers.pop(peer, None)
            if len(peers) >= MOST_PEERS:
                peers.pop(next(iter(peers)))
            peers[peer] = _Peer(bytes.fromhex(user_id), session, route)
        elif known.route != route and route not in known.former:
            known.former.append(known.route)
            known.route = route
        return peer, body

    def route(self, peer: str) -> bytes | None:
        """Return libzmq's id of the connection on which a peer is reached; None for one that is not let in."""
        name = peer.partition("/")[0]
        known = self._peers.get(name, {}).get(peer)
        return known.route if known is not None and self._keys.allowed(known.key) == name else None


def new_session() -> bytes:
    """Return the session of one dialling end."""
    return secrets.token_bytes(SESSION_BYTES)


def _shown(said: bytes) -> str:
    """Return what a stranger sent so that it can stand in a log."""
    return f"{said.decode('utf-8', 'replace')!a:.80}"
