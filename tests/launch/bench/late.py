"""A topology whose learning starts late."""

from __future__ import annotations

from pathlib import Path

LATE = """
env: {id: "actorlearn.envs.catch:Catch"}
algorithm: {name: dqn}
simulators: {count: 1, envs: 8}
replay: {learning_starts_steps: 1_000_000_000}
"""


def write_late(folder: Path) -> str:
    """Write a topology whose learning would start after more steps than a test makes; return the name of its file."""
    file = folder / "late.yaml"
    file.write_text(LATE)
    return str(file)
