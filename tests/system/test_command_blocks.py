"""Every command block of README and docs does what its page says it does."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from launch.topology.load import parse
from tests.sizes import ROOT
from tests.system.blocks import blocks, environment, follow, is_known, pages, runs_something, unprinted

PAGES = list(pages(ROOT, ROOT / "docs"))
BY_HAND = {
    "CONTRIBUTING.md": [
        "make setup     # makes .venv with the versions in constraints.txt, and installs the checkout into it"
    ],
    "README.md": ["make run     # makes .venv, trains Pong from configs/pong-fast.yaml and shows it learn"],
    "desk.md": ["pip install 'actorlearn[desk]'"],
    "nodes.md": [
        "actorlearn keys new --node a --node b --node c --node d ~/keys",
        "scp -p ~/keys/a.key ann@big1: && rm ~/keys/a.key        # likewise b to big2, c to big3, d to big4",
        "actorlearn node --join 10.0.0.1:5555 --key a.key",
    ],
    "performance.md": [
        "actorlearn bench gpu --part servers --repetitions 2 --seconds 5 -o results-gpu",
        "actorlearn bench zoo cartpole-ppo acrobot-dqn --seeds 5 -o results-zoo",
    ],
    "statistics.md": ["actorlearn import cleanrl/runs"],
    "tutorial.md": ["source .venv/bin/activate"],
}
"""First lines of the blocks that no test runs, as they need a network, an hour, or another checkout."""
PROGRAMS = {
    "actorlearn": "#!{python}\nimport sys\nfrom actorlearn.__main__ import main\nsys.exit(main())\n",
    "pip": '#!/bin/sh\nexec {own} -m pip --python {python} --quiet "$@"\n',
}
"""Programs by name; the first is the script that pip makes for the entry point, so that the script is tested too."""


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of its own in which this checkout is installed; `pip` there needs no network."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (site / "checkout.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    for name, program in PROGRAMS.items():
        (folder / "bin" / name).write_text(program.format(python=python, own=sys.executable))
        (folder / "bin" / name).chmod(0o755)
    return folder / "bin"


@pytest.mark.system
@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", [page for page in PAGES if runs_something(page)], ids=lambda page: page.name)
def test_every_command_of_a_page_works(
    page: Path, commands: Path, sockets_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")  # pip's way to say yes: setuptools is here
    for name in ("configs", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    follow(page, tmp_path, environment(commands, sockets_root, tmp_path))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_mark_before_a_block_is_known(page: Path) -> None:
    unknown = [block.mark for block in blocks(page) if not is_known(block.mark)]
    assert not unknown, f"{page.name}: {unknown}; tests/system/blocks.py lists the known marks"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_topology_of_a_page_is_valid(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block with an environment is a whole topology."""
    monkeypatch.syspath_prepend(tmp_path)
    for block in blocks(page):
        if block.kind == "python" and block.file:
            (tmp_path / block.file).write_text(block.text)
        if block.kind == "yaml" and "env:" in block.text:
            assert parse(block.text).env.id


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_only_listed_blocks_are_marked_by_hand(page: Path) -> None:
    left = [block.text.splitlines()[0] for block in blocks(page) if block.mark.startswith("by hand")]
    assert left == BY_HAND.get(page.name, [])


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("```sh\necho 5 games, 0.25\n```\n\n```\n12 games, -1.5\n```\n", ""),
        ("```sh\necho a 1 b; echo c\n```\n\n```\nc\na … b\n```\n", ""),
        ("<!-- exit 2 -->\n```sh\nexit 2\n```\n", ""),
        ("<!-- by hand: never ends -->\n```sh\nexit 1\n```\n", ""),
        ("```\nno command\n```\n\n```sh\ntrue\n```\n", ""),
        ("```sh\nno-such-command\n```\n", "ended with 127"),
        ("```sh\nfalse\ntrue\n```\n", "ended with 1"),
        ("```sh\nfalse | cat\n```\n", "ended with 1"),
        ("<!-- exit 2 -->\n```sh\ntrue\n```\n", "ended with 0"),
        ("```sh\necho 5 games\n```\n\n```\n5 rounds\n```\n", "is shown to print \\['5 rounds'\\]"),
    ],
)
def test_wrong_pages_fail_and_right_ones_pass(text: str, wrong: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    if not wrong:
        follow(page, tmp_path, dict(os.environ))
        return
    with pytest.raises(AssertionError, match=wrong):
        follow(page, tmp_path, dict(os.environ))


def test_a_shown_line_matches_a_printed_line_that_differs_only_in_numbers() -> None:
    shown = "run-20261122-140943 · Catch\n    0:04  simulator-0 ready\nscore 0.96 ± 0.28, lowest -1\n"
    printed = "run-20270101-000000 · Catch\n    12:34  simulator-1 ready\nscore 1 ± 0, lowest 0\nmore\n"
    assert not unprinted(shown, printed)
    assert unprinted("trainer ready\n", printed) == ["trainer ready"]
    assert not unprinted("143,656 steps ( 95.8%), (15,960 games)", "9 steps (100.0%), ( 3,016 games)")
