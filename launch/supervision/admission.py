"""Admission to a run: a child's Hello must have the expected values before the child may use shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from actorlearn import __version__
from actorlearn.wire.messages import PROTOCOL_VERSION, Hello
from launch.supervision.child import Child

_INSTALLATION = "start all processes of a run from one installation"
_SHAPE = "attach without changing it, or start a run of its own with it"


def refusal(hello: Hello, child: Child, run_id: str, expected_shape: Mapping[str, str]) -> str:
    """Return the first difference, with both values and how to resolve it; empty if there is none."""
    for field, said, expected, way_out in _compared(hello, child, run_id, expected_shape):
        if said != expected:
            return f"{child.name}: {field} is {said}, this run has {expected}; {way_out}"
    return ""


def _compared(
    hello: Hello, child: Child, run_id: str, expected_shape: Mapping[str, str]
) -> Iterator[tuple[str, object, object, str]]:
    yield "protocol", hello.protocol, PROTOCOL_VERSION, _INSTALLATION
    yield "version", hello.version, __version__, _INSTALLATION
    yield "run_id", hello.run_id, run_id, "it belongs to another run: start it with this run's settings"
    way_out = "every process says who it is as its settings tell it"
    yield "name", hello.id.socket_id, child.id.socket_id, way_out
    if child.role.makes_rows:
        for field in [*expected_shape, *sorted(hello.shape.keys() - expected_shape.keys())]:
            yield field, hello.shape.get(field, "not said"), expected_shape.get(field, "no such field"), _SHAPE
