"""Trains topologies with a fixed policy lag, one after another in a single child process.

The child process runs ``lagged_learner.py``, with the settings that the processes of a run of this topology would
have.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from actorlearn.algorithms.settings import OnPolicySettings
from actorlearn.wire.identity import ProcessId
from actorlearn.worker import settings as all_settings
from actorlearn.worker.settings import SimulatorSettings, TrainerSettings
from benchmarks.lagged_learner import LaggedRun, LaggedSettings
from launch.errors import FailedError, RunError
from launch.plan.addresses import Addresses
from launch.plan.plan import Start
from launch.plan.planning import plan
from launch.plan.probe import Description, describe
from launch.plan.roles import settings_for, trainer_of
from launch.spawning.environment import environment
from launch.spawning.guardian import PARENT
from launch.topology.load import Topology, load

ALONE = ("mode=sync", "learners.count=1", "simulators.count=1", "simulators.groups=1", "inference.count=0")
"""Keys with which one process can play and learn."""


def learn(topologies: Sequence[Topology], lags: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the result for each topology and its policy lag as soon as it has ended; raises FailedError.

    The topologies may differ only in numbers, because environment and network are described once.
    """
    if not topologies:
        return
    description = describe(topologies[0])
    runs = [settings_of(one, description, lag) for one, lag in zip(topologies, lags, strict=True)]
    with tempfile.TemporaryDirectory(prefix="actorlearn-bench-") as folder:
        path = Path(folder) / "lagged.json"
        all_settings.write(LaggedSettings(runs=runs), path)
        command = [sys.executable, "-m", "benchmarks.lagged_learner", str(path)]
        env = {**environment(1), PARENT: str(os.getpid())}  # the child ends with this process
        with (
            (Path(folder) / "stderr").open("w+") as said,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, env=env) as child,
        ):
            answers = 0
            try:
                for line in child.stdout or ():
                    with suppress(ValueError):  # an environment may print
                        answer = json.loads(line)
                        answers += 1
                        yield answer
                if child.wait() or answers < len(runs):
                    said.seek(0)
                    why = said.read().strip().splitlines() or [f"exit status {child.returncode}"]
                    raise FailedError(f"lag {lags[min(answers, len(runs) - 1)]}: {why[-1]}")
            finally:
                child.kill()


def loaded(path: str, overrides: Sequence[str]) -> Topology:
    """Load a topology with the keys ``ALONE``; raises RunError if one process cannot play and learn it."""
    topology = load(path, (*ALONE, *overrides))
    if not isinstance(topology.algorithm, OnPolicySettings):
        raise RunError(f"algorithm.name: {topology.algorithm.name!r} learns from a replay; name one that does not")
    return topology


def settings_of(topology: Topology, description: Description, lag: int) -> LaggedRun:
    """Return the settings that the simulator and the trainer of a run would have."""
    made = replace(plan(topology, description, Addresses.of_run("bench", Path(), Path())), pins=())
    simulator = settings_for(made, Start(ProcessId("simulator"), 0))
    trainer = settings_for(made, Start(trainer_of(made.topology, 0), 0))
    assert isinstance(simulator, SimulatorSettings) and isinstance(trainer, TrainerSettings)
    return LaggedRun(simulator=simulator, trainer=trainer, lag=lag)
