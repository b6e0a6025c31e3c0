"""What tests of the guardian share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from launch.spawning.guardian import Guardian


@pytest.fixture
def guarded() -> Iterator[Guardian]:
    with closing(Guardian("test")) as guardian:
        yield guardian
