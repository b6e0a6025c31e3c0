"""Network namespaces for tests, which are skipped where namespaces cannot be made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from benchmarks import namespaces as machines
from benchmarks.namespaces import Namespaces
from launch.errors import FailedError

RATE = "200mbit"


@contextmanager
def namespaces(*nodes: str, rate: str = RATE, delay_s: float | None = None) -> Iterator[Namespaces]:
    """Make namespaces for the block; skip the test where they cannot be made."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(machines.namespaces(nodes, rate, delay_s=delay_s))
        except FailedError as error:
            pytest.skip(str(error))
        yield made
