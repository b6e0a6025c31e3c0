"""The generated files, and the function that makes the text of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from docs.pages import commands, health, messages, metrics, names, schemas, sweep_file, topology

GENERATED: Mapping[str, Callable[[], str]] = {
    "docs/commands.md": commands.page,
    "docs/topology.md": topology.page,
    "docs/sweep-file.md": sweep_file.page,
    "docs/metrics.md": metrics.page,
    "docs/health.md": health.page,
    "docs/messages.md": messages.page,
    "docs/from-stable-baselines3.md": names.stable_baselines3_page,
    "docs/from-cleanrl.md": names.cleanrl_page,
    schemas.TOPOLOGY_FILE: schemas.topology_schema_text,
    schemas.SWEEP_FILE: schemas.sweep_schema_text,
}
"""Path in the repository -> its text."""
