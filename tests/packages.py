"""Packages of strangers, as an installer leaves them: modules, and metadata with entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.sizes import ROOT

PARSES = """
import json, sys
from launch.topology.load import TopologyError, dump, parse

for overrides in json.loads(sys.argv[2]):
    try:
        told = dump(parse(sys.argv[1], overrides))
    except TopologyError as error:
        told = str(error)
    print(json.dumps(told))
"""


def parsed_with(folder: Path, topology: str, overrides: Sequence[Sequence[str]]) -> list[str]:
    """Return the text of a topology with each list of overrides, or its error; one process with the package parses."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}
    command = [sys.executable, "-c", PARSES, topology, json.dumps(overrides)]
    return [json.loads(line) for line in subprocess.check_output(command, env=environment, text=True).splitlines()]


def installed(folder: Path, entries: str, modules: Mapping[str, str] | None = None, name: str = "strange-rl") -> Path:
    """Make ``folder`` one in which a package is installed: entry points, and modules by name; returns the folder."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)
    for module, source in (modules or {}).items():
        (folder / f"{module}.py").write_text(source)
    return folder
