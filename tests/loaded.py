"""Modules that an interpreter has loaded after it has imported something."""

from __future__ import annotations

import importlib
import subprocess
import sys

from tests.sizes import ROOT, source_files


def modules_after(statement: str) -> set[str]:
    """Modules that a fresh interpreter has loaded after one statement."""
    program = f"{statement}\nimport sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{statement!r} failed:\n{done.stderr}"
    return set(done.stdout.split())


EXTRAS = ("simpy", "starlette", "uvicorn")
"""Packages of extras, which need not be installed."""


def import_all(package: str) -> None:
    """Import every module of a package but programs, and what needs an extra."""
    for file in source_files(package):
        if file.name != "__main__.py":
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as missing:
                if missing.name not in EXTRAS:
                    raise
