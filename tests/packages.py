"""Packages of strangers, as an installer leaves them: modules, and metadata with entry points."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def installed(folder: Path, entries: str, modules: Mapping[str, str] | None = None, name: str = "strange-rl") -> Path:
    """Make ``folder`` one in which a package is installed: entry points, and modules by name; returns the folder."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)
    for module, source in (modules or {}).items():
        (folder / f"{module}.py").write_text(source)
    return folder
