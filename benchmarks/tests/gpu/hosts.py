"""Machines and requests for tests of a visit."""

from __future__ import annotations

from pathlib import Path

from benchmarks.request import BenchmarkRequest
from launch.bench.gpu import GpuHost

BARE = GpuHost("cuda", 2, "2.13.0+cpu")
RICH = GpuHost("cuda", 16, "2.13.0+cu130", ("GPU A",))


def asked(
    folder: Path | None, parts: tuple[str, ...] = ("all",), device: str = "cuda", minutes: float | None = None
) -> BenchmarkRequest:
    """A request for parts; no topology of its own."""
    return BenchmarkRequest("pong.yaml", (), 2, 1.0, output=folder, parts=parts, device=device, minutes=minutes)
