"""Benchmarks: each suite measures this machine and says what it measured, with which versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from launch.bench.peers import a2c

SUITES: dict[str, Callable[[bool], dict[str, Any]]] = {"a2c": a2c}
"""Name on the command line -> suite; its argument is quick (a shorter, rougher measurement)."""
