"""Keeps results of single runs as lines of ``SUITE.jsonl`` in the report's folder, so that a suite can be continued."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from benchmarks.request import BenchmarkRequest
from launch.bench.report import machine_line
from launch.runs.jsonl import Lines
from launch.runtime.metadata import commit

Result = TypeVar("Result")
_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Making:
    """How a run of training was made, by which a suite decides whether its result counts again."""

    content: str
    """Digest of the values in the topology's file."""
    keys: tuple[str, ...]
    """Overrides of its case; those of the request are kept with every result."""
    seconds: float
    """The seconds after which it was ended, if it did not end before."""
    where: str
    """Machine and commit, which are reported if they differ."""

    @classmethod
    def of(cls, request: BenchmarkRequest, keys: Sequence[str]) -> Making:
        """Return how a run with the overrides ``keys`` is made now and here."""
        return cls(request.content, tuple(keys), request.seconds, machine_line())

    def serves(self, wanted: Making, ended: bool) -> bool:
        """Return whether its result is one of a run made as ``wanted``; ``ended``: whether it ended by itself."""
        same = (self.content, self.keys) == (wanted.content, wanted.keys)
        return same and (ended or self.seconds >= wanted.seconds)


def mixed(makings: Iterable[Making | None]) -> tuple[str, ...]:
    """Return a note for a report whose runs were made on several machines or commits; () for one of each."""
    found = sorted({making.where for making in makings if making})
    return (f"runs of several machines or commits: {'; '.join(found)}",) if len(found) > 1 else ()


def read_results(request: BenchmarkRequest, suite: str, kind: type[Result]) -> list[Result]:
    """Return the results, of the dataclass ``kind``, that earlier calls with this topology and overrides have kept."""
    if (file := _file(request, suite)) is None:
        return []
    asked, found = _asked(request), list[Result]()
    for line in Lines(file).new():
        if asked == {name: line.get(name) for name in asked}:
            with suppress(msgspec.ValidationError):  # written by a version with other fields
                found.append(msgspec.convert(line, kind, str_keys=True))
    return found


def keep_result(request: BenchmarkRequest, suite: str, result: Any) -> None:
    """Add a result to the file, with the request and the commit; do nothing if the request has no folder."""
    if (file := _file(request, suite)) is not None:
        with file.open("a") as lines:
            lines.write(msgspec.json.encode({**asdict(result), **_asked(request), **commit(_ROOT)}).decode() + "\n")


def _file(request: BenchmarkRequest, suite: str) -> Path | None:
    return request.output / f"{suite}.jsonl" if request.output is not None else None


def _asked(request: BenchmarkRequest) -> dict[str, Any]:
    """Return the parts of the request that must be equal for results to belong to one table."""
    return {"topology": request.file, "overrides": list(request.overrides)}
