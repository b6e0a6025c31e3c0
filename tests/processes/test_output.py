"""What a process of a run prints goes into its log, and is dropped without an error if the disk is full."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """if True:
    import sys, traceback, warnings
    from actorlearn.processes.__main__ import drop_output_on_full_disk
    drop_output_on_full_disk()
    print("said on stdout, é" + chr(0xDC80))
    sys.stderr.write("said on stderr\\n" * 3)
    warnings.warn("warned")
    try:
        raise ArithmeticError("the paddle fell off")
    except ArithmeticError:
        traceback.print_exc()
    sys.exit(7)
"""


@pytest.mark.parametrize("log", ["/dev/full", "log"])
def test_printing_into_a_full_disk_is_no_error(log: str, tmp_path: Path) -> None:
    with (tmp_path / log).open("ab") as out:
        assert subprocess.run([sys.executable, "-c", PROGRAM], stdout=out, stderr=out, check=False).returncode == 7
    if log == "log":
        said = (tmp_path / "log").read_text()
        assert said.startswith("said on stdout, é\\udc80\n" + "said on stderr\n" * 3)
        assert "warned" in said and said.endswith("ArithmeticError: the paddle fell off\n")
