"""Makes the kit: a folder with wheels and a script that installs this checkout without a network on a GPU machine.

Run as ``python -m benchmarks gpu-kit`` (``make gpu-kit``) in a checkout. pip resolves what the project and the tests
marked gpu need, in the versions of constraints.txt, for the Python of that machine. torch and numpy, which it has, are
left out, and so are the packages that ``--there`` names.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from launch.errors import FailedError
from launch.reports.format import as_bytes
from launch.runtime.metadata import commit, now

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".gpu-kit"
PYTHON = "3.12"
MOST_BYTES = 60_000_000
"""Largest size of the kit: with the working tree it must fit into uploads of 64 MiB."""
THERE = ("torch", "numpy")
"""Packages that the machine has already; a wheel of torch would bring all of CUDA."""
FOR_TESTS = ("hypothesis", "pytest", "pytest-timeout")
"""Packages of the extra dev that the tests marked gpu need."""
INSTALL = Path(__file__).with_name("install.sh")
_GLIBC = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_26", "manylinux2014", "manylinux_2_17", "manylinux1")


def requirements(pyproject: Path, there: Collection[str] = THERE) -> list[str]:
    """Return the requirements to download: those of the build, the project and the tests, without ``there``."""
    told = tomllib.loads(pyproject.read_text())
    project = told["project"]
    tests = [each for each in project["optional-dependencies"]["dev"] if name_of(each) in FOR_TESTS]
    wanted = [*told["build-system"]["requires"], *project["dependencies"], *tests]
    return [each for each in wanted if name_of(each) not in there]


def name_of(requirement: str) -> str:
    """Return the package of a requirement or a wheel, as pip compares names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[ <>=!~;\[]", requirement)[0]).lower()


def download(wanted: Sequence[str], folder: Path) -> None:
    """Let pip download wheels for the Python of that machine, with their dependencies; raises FailedError."""
    tag = f"cp{PYTHON.replace('.', '')}"
    platforms = [f"{platform}_x86_64" for platform in _GLIBC]
    target = ["--python-version", PYTHON, "--implementation", "cp"]
    for word, values in (("--abi", [tag, "abi3", "none"]), ("--platform", [*platforms, "any"])):
        target += [part for value in values for part in (word, value)]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    constraints = ["-c", str(ROOT / "constraints.txt")]
    command = [*pip, "--only-binary=:all:", *target, *constraints, "-d", str(folder), *wanted]
    if subprocess.run(command, check=False).returncode:
        raise FailedError("pip could not download the wheels: its error is printed above")


def leave_out(wheels: Path, names: Collection[str] = THERE) -> None:
    """Remove the wheels of these packages, which pip downloads as dependencies of others."""
    for wheel in wheels.glob("*.whl"):
        if name_of(wheel.name.partition("-")[0]) in names:
            wheel.unlink()


def weigh(folder: Path, most: int = MOST_BYTES) -> int:
    """Return the bytes of all files; raises FailedError, which names the largest files, if they exceed MOST_BYTES."""
    sizes = {path.name: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    total = sum(sizes.values())
    if total > most:
        largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
        raise FailedError(
            f"the kit has {as_bytes(total)}; at most {as_bytes(most)} are allowed; the largest files are "
            f"{', '.join(f'{name} ({as_bytes(sizes[name])})' for name in largest)}"
        )
    return total


def make(folder: Path, there: Collection[str] = THERE) -> int:
    """Make the kit without the packages ``there``; return its size in bytes."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "wheels").mkdir(parents=True)
    download(requirements(ROOT / "pyproject.toml", there), folder / "wheels")
    leave_out(folder / "wheels", there)
    shutil.copy(INSTALL, folder)
    about = {**commit(ROOT), "python": PYTHON, "made": now()}
    (folder / "kit.json").write_text(f"{json.dumps(about, indent=2)}\n")
    return weigh(folder)


def main(also_there: Iterable[str] = ()) -> int:
    """Make the kit, also without the packages ``also_there``, and print its size; return the exit status."""
    try:
        total = make(FOLDER, {*THERE, *map(name_of, also_there)})
    except FailedError as error:
        print(f"gpu-kit: {error}", file=sys.stderr)
        return 1
    count = len(list((FOLDER / "wheels").iterdir()))
    print(f"{FOLDER}: {count} wheels for Python {PYTHON}, {as_bytes(total)}; what to do with it: benchmarks/README.md")
    return 0
