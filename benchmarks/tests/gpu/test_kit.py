"""The kit has what a machine with torch lacks, is small enough, and refuses a Python that its wheels are not for."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu.kit import INSTALL, ROOT, leave_out, name_of, requirements, weigh
from launch.errors import FailedError


def test_it_has_what_the_project_needs_but_what_the_machine_has() -> None:
    names = {name_of(each) for each in requirements(ROOT / "pyproject.toml")}
    assert {"ale-py", "msgspec", "pyzmq", "setuptools", "pytest", "pytest-timeout", "hypothesis"} <= names
    assert not {"torch", "numpy", "mypy"} & names
    fewer = {name_of(each) for each in requirements(ROOT / "pyproject.toml", {"torch", "numpy", "matplotlib"})}
    assert names - fewer == {"matplotlib"}


@pytest.mark.parametrize(
    ("written", "name"),
    [("ale-py>=0.12", "ale-py"), ("PyYAML", "pyyaml"), ("Box2D==2.3", "box2d"), ("ale_py", "ale-py"), ("a[x]>1", "a")],
)
def test_names_are_compared_as_pip_does(written: str, name: str) -> None:
    assert name_of(written) == name


def test_wheels_of_what_the_machine_has_are_left_out(tmp_path: Path) -> None:
    for name in ("numpy-2.4.6-cp312-cp312-linux.whl", "numpyro-1.0-py3-none-any.whl", "ale_py-0.12-cp312.whl"):
        (tmp_path / name).touch()
    leave_out(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ale_py-0.12-cp312.whl", "numpyro-1.0-py3-none-any.whl"]


def test_one_that_is_too_large_is_refused_with_the_largest(tmp_path: Path) -> None:
    for name, size in (("a.whl", 10), ("b.whl", 2000), ("c.whl", 500)):
        (tmp_path / name).write_bytes(b"x" * size)
    assert weigh(tmp_path, most=2510) == 2510
    with pytest.raises(FailedError, match=r"largest files are b\.whl .*, c\.whl .*, a\.whl"):
        weigh(tmp_path, most=2509)


def install(kit: Path, environment: Path) -> subprocess.CompletedProcess[str]:
    shutil.copy(INSTALL, kit)
    return subprocess.run(
        ["bash", str(kit / INSTALL.name), str(environment)],
        **{"capture_output": True, "text": True, "env": {"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"}},
    )


def test_another_python_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "kit.json").write_text(json.dumps({"python": "9.9"}))
    done = install(tmp_path, tmp_path / "env")
    assert done.returncode == 1
    assert "its wheels are for Python 9.9" in done.stderr
    assert not (tmp_path / "env").exists()
