"""The machine that a visit is to: what parts need of it, and what it lacks, found out before anything starts."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from launch.machine.cores import begun_cores
from launch.machine.gpus import TORCH_AND_GPUS
from launch.spawning.answers import NoAnswerError, ask

CORES = 16
"""Cores that the plan is made for; with fewer some cases are left out."""
TESTS = Path(__file__).parents[3] / "tests"
_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Host:
    """A machine, and the device on it that is measured."""

    device: str
    cores: int
    torch: str
    """torch's version, or why it cannot be imported."""
    gpus: tuple[str, ...] = ()
    """Names of the GPUs that torch sees."""

    @classmethod
    def here(cls, device: str) -> Host:
        """Look at this machine; a child asks torch."""
        try:
            version, gpus = ask([sys.executable, "-c", TORCH_AND_GPUS], _TIMEOUT_S)
        except (NoAnswerError, OSError) as error:
            version, gpus = f"cannot be imported ({error})", ()
        except subprocess.TimeoutExpired:
            version, gpus = f"gave no answer in {_TIMEOUT_S:.0f} s", ()
        return cls(device, begun_cores(), version, tuple(gpus))

    @property
    def no_device(self) -> str:
        """Say why nothing can be measured on the device; empty where it is there."""
        if self.device == "cpu" or self.gpus:
            return ""
        return f"no CUDA device (torch {self.torch})"

    @property
    def no_tests(self) -> str:
        """Say why the tests marked gpu cannot be run; empty where they can."""
        if self.no_device:
            return self.no_device
        if not TESTS.is_dir():
            return "no tests here: this is an installed package and not a checkout"
        missing = [name for name in ("pytest", "pytest_timeout", "hypothesis") if find_spec(name) is None]
        return f"{', '.join(missing)} not installed" if missing else ""

    @property
    def few_cores(self) -> str:
        """Say that cases for more cores are left out; empty where there are enough."""
        if self.cores >= CORES:
            return ""
        return f"{self.cores} of {CORES} cores: cases for more are left out, and processes share what there is"

    def __str__(self) -> str:
        """For people, on one line."""
        gpus = f"{len(self.gpus)} GPU{'s' if len(self.gpus) > 1 else ''} ({', '.join(self.gpus)})" if self.gpus else ""
        return f"{self.cores} cores, {gpus or 'no GPU'}, torch {self.torch}, measured on {self.device}"
