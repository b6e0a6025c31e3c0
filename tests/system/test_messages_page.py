"""A program that knows ZeroMQ, MessagePack and docs/messages.md asks a living run, and stops it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sizes import ROOT
from tests.system.blocks import blocks
from tests.system.conftest import PACED, Start

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def test_the_program_of_the_messages_page_asks_a_run_and_stops_it(launched: Start, tmp_path: Path) -> None:
    pytest.importorskip("msgpack")
    (program,) = (block.text for block in blocks(ROOT / "docs" / "messages.md") if block.kind == "python")
    assert "actorlearn" not in program
    run = launched("catch", PACED)
    run.wait_for(run.rows, "row")
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def told(code: str) -> list[str]:
        command = [sys.executable, "-c", code, run.run_dir]
        done = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    status, processes = told(program)
    assert status.startswith("True running, 3 of 3 processes running")
    assert {*processes.split()} == {*run.pids()}
    (stopped,) = told(program.replace('"status"', '"stop"').rpartition("print(")[0])
    assert stopped.startswith("True ")
    run.full_speed()
    assert run.end() == 0, run.screen()
    assert run.summary()["status"] == "stopped"
    assert run.leftovers() == []
