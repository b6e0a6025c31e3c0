"""The system's browser for tests of pages, steered by playwright. No test downloads a browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

PROGRAM_VARIABLE = "CHROMIUM"
"""The browser to use instead of the first of ``PROGRAMS``."""
REQUIRED_VARIABLE = "ACTORLEARN_REQUIRE_BROWSER"
"""If it is set, tests fail without a browser; otherwise they are skipped."""
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# The sandbox does not start as root, as in a container; the others stop a browser from asking its maker for anything.
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-first-run"]


def program() -> str:
    """Return the path of the browser; skip the test that asks, or fail it if a browser is required."""
    named = os.environ.get(PROGRAM_VARIABLE)
    found = next(filter(None, map(shutil.which, [named] if named else PROGRAMS)), None)
    if found is None:
        _give_up(f"there is no {named or ', '.join(PROGRAMS)}: apt-get install chromium, or set {PROGRAM_VARIABLE}")
    elif find_spec("playwright") is None:
        _give_up("playwright is not installed: make setup")
    return str(found)


def _give_up(reason: str) -> None:
    if os.environ.get(REQUIRED_VARIABLE):
        pytest.fail(f"{reason}; {REQUIRED_VARIABLE} is set", pytrace=False)
    pytest.skip(reason)


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """Yield a browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()
