"""Which browser the tests of pages use, and what they do where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import browser


@pytest.fixture(autouse=True)
def only_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the test's folder the only one in which programs are found."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(browser.PROGRAM_VARIABLE, raising=False)
    monkeypatch.delenv(browser.REQUIRED_VARIABLE, raising=False)
    monkeypatch.setattr(browser, "find_spec", lambda _: "playwright is installed")


def install(folder: Path, name: str) -> Path:
    program = folder / name
    program.touch(0o700)
    return program


@pytest.mark.parametrize("name", browser.PROGRAMS)
def test_a_browser_of_any_usual_name_is_found(tmp_path: Path, name: str) -> None:
    installed = install(tmp_path, name)
    assert browser.program() == str(installed)


def test_the_variable_names_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "chromium")
    mine = install(tmp_path, "my-browser")
    monkeypatch.setenv(browser.PROGRAM_VARIABLE, str(mine))
    assert browser.program() == str(mine)
    monkeypatch.setenv(browser.PROGRAM_VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(pytest.skip.Exception, match=f"there is no {tmp_path}/gone"):
        browser.program()


def test_without_a_browser_tests_are_skipped_and_the_reason_says_how_to_get_one() -> None:
    with pytest.raises(pytest.skip.Exception, match="there is no chromium, .*: apt-get install chromium"):
        browser.program()


def test_without_playwright_tests_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "chromium")
    monkeypatch.setattr(browser, "find_spec", lambda _: None)
    with pytest.raises(pytest.skip.Exception, match="playwright is not installed"):
        browser.program()


def test_without_a_browser_tests_fail_where_one_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(browser.REQUIRED_VARIABLE, "1")
    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium.*ACTORLEARN_REQUIRE_BROWSER is set"):
        browser.program()
