"""Writers of metrics: their interface, specs and registry.

A writer writes the reports of a run, which are metrics by name, to a file or a service.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, Self

from actorlearn import imports
from actorlearn.registry import Registry, Settings, Spec, settings_of, tag_settings


class WriterSettings(Settings, frozen=True, kw_only=True):
    """Settings of a writer; there are no keys so far."""


class Writer(Protocol):
    """Writes the reports of one run."""

    def __init__(self, run_dir: Path) -> None:
        """Begin to write, for the run with this folder; append to existing files, because the run may be resumed."""

    def row(self, values: Mapping[str, Any]) -> None:
        """Write one report: metrics by name, whose values are numbers, texts, and lists and mappings of these.

        ``values`` always has an integer ``env_steps``. Raises OSError with the name of a file that cannot be written;
        the run then continues, and calls ``row`` again with the next report.
        """

    def close(self) -> None:
        """Close all files; a second call does nothing. Raises OSError if not all reports are written."""


@dataclass(frozen=True, kw_only=True)
class WriterSpec(Spec):
    """Description of a writer that does not import it; ``made_by`` names its class."""

    methods = ("row", "close")
    described_in = "actorlearn/metrics/specs.py"
    settings: type[WriterSettings] = WriterSettings
    needs: tuple[str, ...] = ()
    """Packages that the writer needs and that may not be installed; its class can be imported without them."""

    def load(self) -> Any:
        """Import the class; raises ValueError if that fails, or if a package in ``needs`` is not installed."""
        for package in self.needs:
            if not imports.is_installed(package):
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
"""Default of ``report.writers``. `JSONL` is always used too, because other programs of actorlearn read its file."""

WRITERS = Registry("writer", "actorlearn.writers", WriterSpec)
