"""Keeps results of single runs as lines of ``SUITE.jsonl`` in the report's folder, so that a suite can be continued."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from benchmarks.request import BenchmarkRequest
from launch.runs.jsonl import Lines
from launch.runtime.metadata import commit

Result = TypeVar("Result")
_ROOT = Path(__file__).parents[1]


def read_results(request: BenchmarkRequest, suite: str, kind: type[Result]) -> list[Result]:
    """Return the results, of the dataclass ``kind``, that earlier calls with this topology and overrides have kept."""
    if (file := _file(request, suite)) is None:
        return []
    asked, found = _asked(request), list[Result]()
    for line in Lines(file).new():
        if asked == {name: line.get(name) for name in asked}:
            with suppress(msgspec.ValidationError):  # of a version whose results said something else
                found.append(msgspec.convert(line, kind))
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
