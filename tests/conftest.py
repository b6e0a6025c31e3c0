"""Fixtures that tests of several folders use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import browser as browsers


@pytest.fixture
def browser() -> Iterator[Any]:
    """The system's browser, as playwright's ``Browser``."""
    with browsers.opened(browsers.program()) as opened:
        yield opened
