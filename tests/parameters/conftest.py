"""What tests of several learners share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parameters.networked import Listing


@pytest.fixture(params=["on other machines", "on this machine"])
def listing(request: pytest.FixtureRequest, tmp_path: Path) -> Listing:
    return Listing(folder=tmp_path if request.param == "on this machine" else None)
