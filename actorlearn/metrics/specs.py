"""Writers of metrics, which write the rows of a run to files or services: interface, settings and registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, Self

from actorlearn import imports
from actorlearn.registry import Registry, Settings, Spec, settings_of, tag_settings


class WriterSettings(Settings, frozen=True, kw_only=True):
    """Settings of every writer: none so far."""


class Writer(Protocol):
    """Writes the rows of one run; its class is called with the run's folder."""

    def __init__(self, run_dir: Path) -> None:
        """Open for appending, because the run may have been resumed."""

    def row(self, values: Mapping[str, Any]) -> None:
        """Write one report: numbers, texts, lists and mappings of these, with an integer ``env_steps``.

        Raises OSError naming the file that could not be written; ``row`` is then called again with the next report.
        """

    def close(self) -> None:
        """Close all files; a second call does nothing."""


@dataclass(frozen=True, kw_only=True)
class WriterSpec(Spec):
    """Description of a writer before it is made."""

    methods = ("row", "close")
    described_in = "actorlearn/metrics/specs.py"
    settings: type[WriterSettings] = WriterSettings
    needs: tuple[str, ...] = ()
    """Packages that it needs and that may not be installed; its class can be imported without them."""

    def load(self) -> Any:
        """Import the class; raises ValueError, also if a package that it needs is not installed."""
        for package in self.needs:
            if find_spec(package) is None:
                install = imports.own_extra(package)
                raise ValueError(f"{self.name!r} needs {package!r}, which is not installed: {install}")
        return super().load()

    @classmethod
    def of(cls, name: str, found: Any, module: ModuleType) -> Self:
        """Make a spec for a class that has none."""
        return cls(name=name, settings=tag_settings(settings_of(found, module, WriterSettings), name), made_by=name)


JSONL = WriterSpec(name="jsonl", made_by="actorlearn.metrics.writer:JsonLines")
TENSORBOARD = WriterSpec(name="tensorboard", made_by="actorlearn.metrics.writer:TensorBoard")
WANDB = WriterSpec(name="wandb", made_by="actorlearn.metrics.trackers:WandB", needs=("wandb",))
TRACKIO = WriterSpec(name="trackio", made_by="actorlearn.metrics.trackers:Trackio", needs=("trackio",))

DEFAULT_WRITERS = (TENSORBOARD.name,)
"""Default writers besides `JSONL`, which every run has because other code reads its rows."""

WRITERS = Registry("writer", "actorlearn.writers", WriterSpec)
