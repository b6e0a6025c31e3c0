"""A folder that looks like where a package is installed, for entry points of strangers."""

from __future__ import annotations

from pathlib import Path


def installed(folder: Path, entries: str) -> None:
    """Make the folder look like where a package is installed that brings these entry points."""
    info = folder / "strange_rl-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-rl\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)
