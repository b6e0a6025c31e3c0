"""Measures each kind of work of a run alone: simulation, inference, learning, and the optimizer.

The work that is measured may use all cores. The rates together give the rate of a run in which they take turns without
any loss (``bound``). The measuring processes have the settings of the run (``actorlearn/tasks/measure.py``).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from actorlearn.wire.identity import ProcessId
from actorlearn.worker import settings as all_settings
from actorlearn.worker.settings import MeasureSettings, SimulatorSettings, TrainerSettings
from launch.errors import FailedError
from launch.plan.addresses import Addresses
from launch.plan.auto import rows_answered
from launch.plan.plan import Start
from launch.plan.planning import plan
from launch.plan.probe import describe
from launch.plan.roles import settings_for, trainer_of
from launch.spawning.answers import NoAnswerError, answer
from launch.spawning.environment import environment
from launch.spawning.guardian import PARENT
from launch.topology.load import load

_LIMIT_S = 60.0
"""Seconds in which a measuring process must be ready, and in which it must answer after the measurement."""


class Parts:
    """Measures simulation, inference, learning and optimizer of a topology, each alone, in a ``with`` block."""

    def __init__(self, path: str, overrides: Sequence[str] = ()) -> None:
        """Plan the run of a topology; starts nothing."""
        self._folder = tempfile.TemporaryDirectory(prefix="actorlearn-bench-")
        loaded = load(path, overrides)
        folder = Path(self._folder.name)
        made = plan(loaded, describe(loaded), Addresses.of_run("bench", folder, folder))
        self._plan = replace(made, pins=())  # nothing is pinned, as all processes of a part read the same settings
        self.topology = self._plan.topology

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def simulate(self, seconds: float) -> float:
        """Measure the environment steps/s of the topology's simulators with random actions."""
        s = self.topology.simulators
        return self._rate("simulate", s.count, 1, s.envs // s.groups, seconds)

    def infer(self, seconds: float) -> float:
        """Measure for how many environment steps/s the policy chooses actions: in inference servers, or simulators."""
        i, rows = self.topology.inference, rows_answered(self.topology)
        if i.count == 0:
            return self._rate("infer", self.topology.simulators.count, 1, rows, seconds)
        return self._rate("infer", i.count, i.threads, rows, seconds)

    def learn(self, seconds: float) -> float:
        """Measure from how many environment steps/s the trainer can learn, in batches of the topology's size."""
        threads, environments = self.topology.trainer.threads, self.topology.simulators.environments
        return self._rate("learn", 1, threads, environments, seconds)

    def optimize(self, seconds: float) -> float:
        """Measure the optimizer steps/s, without the computation of gradients."""
        return self._rate("optimize", 1, self.topology.trainer.threads, 1, seconds)

    def _rate(self, part: str, processes: int, threads: int, environments: int, seconds: float) -> float:
        """Measure ``part`` in ``processes`` processes for each learner at once; return the sum of their steps/s.

        ``environments``: number of environments in a batch. ``threads``: threads of each process.
        """
        path = self._write(part, threads, environments, seconds)
        command = [sys.executable, "-m", "actorlearn.processes", "measure", str(path)]
        env = {**environment(threads), PARENT: str(os.getpid())}  # each process ends when this one ends
        pipe = subprocess.PIPE
        running: list[subprocess.Popen[str]] = []
        try:
            for _ in range(processes * self.topology.learners.count):
                running.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env))
            _begin_together(running)
            answers = [self._answer(part, process, seconds) for process in running]
        finally:
            for process in running:
                process.kill()
                process.wait()
        return sum(answers)

    def _write(self, part: str, threads: int, environments: int, seconds: float) -> Path:
        """Write the settings of all measuring processes of ``part`` to a file; return its path."""
        simulator = settings_for(self._plan, Start(ProcessId("simulator"), 0))
        trainer = settings_for(self._plan, Start(trainer_of(self.topology, 0), 0))
        assert isinstance(simulator, SimulatorSettings) and isinstance(trainer, TrainerSettings)
        path = Path(self._folder.name) / f"{part}.json"
        alone = MeasureSettings(
            part=part,
            simulator=simulator,
            trainer=trainer,
            device=self.topology.inference.device if self.topology.inference.count else "cpu",
            threads=threads,
            environments=environments,
            seconds=seconds,
        )
        all_settings.write(alone, path)
        return path

    def _answer(self, part: str, process: subprocess.Popen[str], seconds: float) -> float:
        try:
            out, error = process.communicate(timeout=seconds + _LIMIT_S)
        except subprocess.TimeoutExpired:
            raise FailedError(f"measuring {part} alone gave no result within {seconds + _LIMIT_S:.0f} s") from None
        if process.returncode == -signal.SIGKILL:
            raise FailedError(
                f"measuring {part} alone: a process was killed, or was not ready within {_LIMIT_S:.0f} s; free memory "
                "and cores, and try again"
            )
        try:
            return float(answer(out, error, process.returncode)["steps_per_s"])
        except NoAnswerError as none:
            raise FailedError(f"measuring {part} alone: {none}") from None


def _begin_together(running: Sequence[subprocess.Popen[str]]) -> None:
    """Start the measurement when all processes are ready; kill all if one is not ready within ``_LIMIT_S``."""

    def give_up() -> None:
        for process in running:
            process.kill()

    limit = threading.Timer(_LIMIT_S, give_up)
    limit.start()
    try:
        for process in running:
            assert process.stdout is not None
            process.stdout.readline()
    finally:
        limit.cancel()
    for process in running:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write("begin\n")
            process.stdin.flush()


def bound(rates: Sequence[float]) -> float:
    """Return the steps/s of a run in which kinds of work take turns, from the rate of each: times per step add up."""
    return 1.0 / sum(1.0 / rate for rate in rates)
