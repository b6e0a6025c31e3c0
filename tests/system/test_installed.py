"""The installed wheel, beside other packages that are called ``launch`` too.

ROS 2 has such a package: on PYTHONPATH if installed from Debian packages, in site-packages if installed by conda.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.sizes import ROOT

pytestmark = [pytest.mark.system, pytest.mark.nightly]

PLUGIN = "actorlearn-corridor"
STRANGER = "class LaunchDescription:\n    whose = {whose!r}\n"
ROBOT = """
import launch
from actorlearn.envs.catch import Catch

assert launch.LaunchDescription.whose == "PYTHONPATH"


class Robot(Catch):
    pass
"""


def stranger(folder: Path, whose: str) -> None:
    """Write another package of the name ``launch``."""
    (folder / "launch").mkdir(parents=True)
    (folder / "launch" / "__init__.py").write_text(STRANGER.format(whose=whose))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with our wheel, a plug-in, two other packages ``launch``, and the dependencies of the tests."""
    pytest.importorskip("setuptools")  # without a network nothing else could build the wheel
    folder = tmp_path_factory.mktemp("installed")
    for name in ("actorlearn", "launch", "configs"):
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source" / name)
    bare = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "wheel", *offline, "-w", folder, folder / "source"], env=bare, check=True)
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    site = folder / "venv" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    stranger(site, "site-packages")
    shutil.copytree(ROOT / "examples" / PLUGIN, folder / PLUGIN, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([*pip, "--python", python, "install", *offline, *folder.glob("*.whl")], env=bare, check=True)
    subprocess.run([*pip, "--python", python, "install", *offline, folder / PLUGIN], env=bare, check=True)
    assert (site / "launch" / "__init__.py").read_text() == STRANGER.format(whose="site-packages")
    stranger(folder / "ros", "PYTHONPATH")
    (folder / "ros" / "robots.py").write_text(ROBOT)
    return folder


@pytest.fixture
def actorlearn(installed: Path, sockets_root: Path, tmp_path: Path) -> Actorlearn:
    return Actorlearn(installed, sockets_root, tmp_path)


class Actorlearn:
    """The installed command, called in an empty folder."""

    def __init__(self, installed: Path, sockets_root: Path, cwd: Path) -> None:
        self.configs = installed / "venv" / "share" / "actorlearn" / "configs"
        self._command = installed / "venv" / "bin" / "actorlearn"
        self._cwd = cwd
        self._environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
            "PYTHONPATH": str(installed / "ros"),
            "XDG_RUNTIME_DIR": str(sockets_root),
            "TERM": "dumb",
        }

    def __call__(self, *arguments: object) -> str:
        done = subprocess.run(
            [self._command, *map(str, arguments)],
            cwd=self._cwd,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def test_the_wheel_has_all_files_of_both_packages_and_no_top_level_launch(installed: Path) -> None:
    (wheel,) = installed.glob("*.whl")
    carried = set(zipfile.ZipFile(wheel).namelist())
    source = installed / "source"
    ours = {
        file.relative_to(source).as_posix()
        for folder in ("actorlearn", "launch")
        for file in (source / folder).rglob("*")
        if file.is_file()
    }
    assert not {f"actorlearn/{name}" if name.startswith("launch/") else name for name in ours} - carried
    assert not [name for name in carried if name.startswith("launch/")]


def test_the_installed_program_starts_beside_other_packages_called_launch(actorlearn: Actorlearn) -> None:
    assert "Train deep-RL agents" in actorlearn("--help")
    assert json.loads(actorlearn("check", actorlearn.configs / "catch.yaml", "--json"))["processes"]


def test_an_environment_imports_the_other_package_called_launch(actorlearn: Actorlearn, tmp_path: Path) -> None:
    changes = ("env.id=robots:Robot", "total_steps=2000", "evaluator.count=1")
    actorlearn("run", actorlearn.configs / "catch.yaml", *changes, "--run-dir", "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["env_steps"] >= 2000


@pytest.mark.timeout(300)
def test_an_installed_plug_in_trains_and_passes_its_own_tests(
    actorlearn: Actorlearn, installed: Path, tmp_path: Path
) -> None:
    assert "fourier" in actorlearn("doctor") and "awr" in actorlearn("doctor")
    topology = installed / PLUGIN / "corridor.yaml"
    told = json.loads(actorlearn("check", topology, "--json", "model.frequencies=8"))
    assert told["topology"]["model"]["frequencies"] == 8
    actorlearn("run", topology, "--run-dir", "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["env_steps"] >= 60_000 and summary["episode_return_mean"] > 0.9
    newest = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1]
    assert json.loads(newest)["weight_mean"] > 0
    tested = [installed / "venv" / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    bare = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(tested, cwd=installed / PLUGIN, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
