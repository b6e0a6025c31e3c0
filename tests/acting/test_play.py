"""The exported player answers a missing environment in one line, with a stand-in for onnxruntime."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sizes import ROOT

RUNTIME = """
import json
from types import SimpleNamespace

ABOUT = {"made_by": [["own_pole:Own", {}]], "not_made": "", "state_size": 0}


class InferenceSession:
    def __init__(self, file):
        pass

    def get_modelmeta(self):
        return SimpleNamespace(custom_metadata_map={"actorlearn": json.dumps(ABOUT)})
"""


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (
            None,
            "the environment's module own_pole cannot be imported; start this program in the folder that has it, add "
            "that folder to PYTHONPATH, or install it",
        ),
        (
            "import no_such_lights",
            "the environment's module own_pole cannot be imported; it needs no_such_lights, which is not installed: "
            "install it",
        ),
        (
            "raise ModuleNotFoundError('jax requires jaxlib to be installed')",
            "the environment's module own_pole cannot be imported; jax requires jaxlib to be installed",
        ),
        (
            "",
            "the environment's module own_pole has no Own; use the version of own_pole that the policy was trained "
            "with",
        ),
    ],
)
def test_an_environment_that_cannot_be_imported_is_one_line(tmp_path: Path, module: str | None, says: str) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "onnxruntime.py").write_text(RUNTIME)
    shutil.copy(ROOT / "actorlearn" / "acting" / "play.py", tmp_path / "play.py")
    (tmp_path / "games").mkdir()
    if module is not None:
        (tmp_path / "games" / "own_pole.py").write_text(module)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "play.py"), "3"],
        capture_output=True,
        text=True,
        cwd=tmp_path / "games",
        env={**os.environ, "PYTHONPATH": str(tmp_path / "runtime")},
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, f"{says}\n")
