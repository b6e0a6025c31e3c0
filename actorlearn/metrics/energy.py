"""The metric ``frames_per_kj``: frames per kilojoule (Assran et al. 2019, figure 3), from energy counters.

Linux provides energy counters of Intel's and AMD's processors (RAPL) under /sys/class/powercap: for each processor
package, and for its memory if counted separately. Energy of GPUs is read by NVML if the package ``nvidia-ml-py`` is
installed. nvidia-smi is not used, because it gives momentary power and not energy. The counters include all other
programs on the machine.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POWERCAP = Path("/sys/class/powercap")
_J_PER_UJ, _J_PER_MJ = 1e-6, 1e-3


@dataclass
class Counter:
    """Energy counter of one part of the machine, which may overflow and begin at 0 again."""

    name: str
    read: Callable[[], int]
    joules: float
    """Joules per unit of the counter."""
    span: int = 0
    """Number of units after which the counter begins at 0 again; 0: it never does."""
    last: int = 0
    """Value at the last call of `used_j`."""

    def used_j(self) -> float:
        """Return the joules used since the last call; raises OSError if the counter cannot be read.

        It must be called every few minutes: if the counter overflows twice between two calls, the result is wrong.
        """
        now, before = self.read(), self.last
        self.last = now
        if now < before and not self.span:
            return 0.0  # the counter was reset: its driver was loaded again
        return (now - before + (self.span if now < before else 0)) * self.joules


class Energy:
    """All energy counters that can be read on this machine."""

    def __init__(self, powercap: Path = POWERCAP) -> None:
        processors, self.why = _rapl(powercap)
        self.counters = [*processors, *_gpus()]
        self._frames: int | None = None
        self._used_j = 0.0

    @property
    def readable(self) -> bool:
        """Whether any counter can be read."""
        return bool(self.counters)

    def said(self) -> str:
        """Return the names of the counters, or the reason why there are none, as a text for people."""
        names = ", ".join(counter.name for counter in self.counters)
        return f"{names}; {self.why}" if names and self.why else names or f"not readable: {self.why}"

    def row(self, frames: int | None) -> dict[str, float]:
        """Return the metric ``frames_per_kj`` since the last report, or {} if it is not known.

        ``frames``: number of frames of the run so far. If it has become smaller, a trainer was restored from a
        checkpoint, and the metric is left out once.
        """
        try:
            self._used_j += sum(counter.used_j() for counter in self.counters)
        except OSError as error:
            self.counters, self.why = [], str(error)
        if frames is None or not self.counters:
            return {}
        before, self._frames = self._frames, frames
        used_j, self._used_j = self._used_j, 0.0
        if before is None or frames < before or used_j <= 0.0:
            return {}
        return {"frames_per_kj": (frames - before) / (used_j / 1000.0)}


def _rapl(powercap: Path) -> tuple[list[Counter], str]:
    """Return RAPL's counters of processor packages and memory, and the reason if there are none.

    Counters of cores and graphics are left out, because those of packages include them. The counter psys is left out,
    because it includes the packages.
    """
    if not powercap.is_dir():
        return [], f"{powercap} (RAPL) does not exist, as in most virtual machines"
    found = []
    for domain in sorted(powercap.glob("intel-rapl:*")):
        try:
            name = (domain / "name").read_text().strip()
            if not name.startswith(("package", "dram")):
                continue
            span = int((domain / "max_energy_range_uj").read_text())
            counter = Counter(f"{name} ({domain.name})", _reader(domain / "energy_uj"), _J_PER_UJ, span)
            counter.used_j()
        except PermissionError:
            return (
                [],
                f"only root can read {domain}/energy_uj; run as root: chmod a+r {powercap}/intel-rapl:*/energy_uj",
            )
        except (OSError, ValueError) as error:
            return [], f"{domain}: {error}"
        found.append(counter)
    return found, "" if found else f"{powercap} lists no processor (intel-rapl:*)"


def _reader(path: Path) -> Callable[[], int]:
    return lambda: int(path.read_text())


def _gpus() -> list[Counter]:
    """Return the counters of NVIDIA GPUs, which exist from Volta on; [] without the package or a driver."""
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        found = [Counter(f"gpu {index}", _gpu_reader(nvml, handle), _J_PER_MJ) for index, handle in enumerate(handles)]
        for counter in found:
            counter.used_j()
    except Exception:  # the package's classes of errors cannot be named without the package
        return []
    return found


def _gpu_reader(nvml: Any, handle: Any) -> Callable[[], int]:
    def read() -> int:
        try:
            return int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        except nvml.NVMLError as error:
            raise OSError(f"NVML: {error}") from None

    return read
