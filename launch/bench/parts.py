"""The parts of a topology measured alone: simulation, inference, learning, each on all the cores it could have.

Together they give the additive bound: the rate of parts that take turns when nothing is lost between them. A part is
measured by ``processes/alone.py``, with the same settings and threads as the run's own processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from actorlearn.processes import settings as all_settings
from actorlearn.processes.settings import AloneSettings, SimulatorSettings, TrainerSettings
from launch.bench.errors import BenchError
from launch.description import describe
from launch.plan import plan
from launch.spawner import environment
from launch.topology import load

_START_LIMIT_S = 120.0


class Parts:
    """What can be measured of one topology; ``with`` keeps the settings its processes read."""

    def __init__(self, path: str, overrides: Sequence[str] = ()) -> None:
        """Work out the plan; nothing is started."""
        self._folder = tempfile.TemporaryDirectory(prefix="actorlearn-bench-")
        nowhere = Path(self._folder.name)
        loaded = load(path, overrides)
        self._plan = plan(loaded, nowhere, "bench", nowhere, describe(loaded))
        self.topology = self._plan.topology

    def __enter__(self) -> Parts:
        """Nothing more to do."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the settings."""
        self._folder.cleanup()

    def simulate(self, seconds: float) -> float:
        """Steps/s of as many processes as there are simulators, with random actions and nothing else to do."""
        s = self.topology.simulators
        return self._rate("simulate", s.count, 1, s.envs // s.groups, seconds)

    def infer(self, seconds: float) -> float:
        """Steps/s of the policy in batches as large as a server, or a simulator without one, meets."""
        s, i = self.topology.simulators, self.topology.inference
        if i.count == 0:
            return self._rate("infer", s.count, 1, s.envs // s.groups, seconds)
        return self._rate("infer", i.count, i.threads, -(-s.count // i.count) * s.envs // s.groups, seconds)

    def learn(self, seconds: float) -> float:
        """Steps/s of updates on batches of the topology's size."""
        s, t = self.topology.simulators, self.topology.trainer
        return self._rate("learn", 1, t.threads, s.count * s.envs, seconds)

    def _rate(self, part: str, processes: int, threads: int, environments: int, seconds: float) -> float:
        """The sum over processes that measure at the same time."""
        simulator, trainer = self._plan.settings("simulator-0", 0), self._plan.settings("trainer", 0)
        assert isinstance(simulator, SimulatorSettings) and isinstance(trainer, TrainerSettings)
        path = Path(self._folder.name) / f"{part}.json"
        alone = AloneSettings(
            part=part,
            simulator=simulator,
            trainer=trainer,
            device=self.topology.inference.device,
            threads=threads,
            environments=environments,
            seconds=seconds,
        )
        all_settings.write(alone, path)
        command = [sys.executable, "-m", "actorlearn.processes", "alone", str(path)]
        env = environment(threads)
        pipe = subprocess.PIPE
        running = [subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env) for _ in range(processes)]
        total = 0.0
        try:
            for process in running:
                out, error = process.communicate(timeout=seconds + _START_LIMIT_S)
                if process.returncode:
                    raise BenchError(f"{part} alone: {(error.strip().splitlines() or ['no output'])[-1]}")
                total += json.loads(out.strip().splitlines()[-1])["steps_per_s"]
        finally:
            for process in running:
                process.kill()
                process.wait()
        return total


def bound(rates: Sequence[float]) -> float:
    """The rate of parts that take turns, from the rate of each alone: their times a step add up."""
    return 1.0 / sum(1.0 / rate for rate in rates)
