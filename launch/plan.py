"""The plan: which processes, sockets and segments a topology means on this machine. Data that can be printed.

Pure but for the segments it makes when told to. What it must know of environment and network is in its Description.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from actorlearn.envs.interface import EnvSettings
from actorlearn.memory.progress import ROWS, progress_fields
from actorlearn.memory.rollout import BlockShape, block_fields, make_segment, rounds_fields
from actorlearn.memory.shared import SHM_ROOT, Segment, segment_bytes
from actorlearn.metrics.timings import SECTIONS
from actorlearn.parameters.published import weights_fields
from actorlearn.processes.settings import (
    EvaluatorSettings,
    InferenceSettings,
    PolicySettings,
    ProcessSettings,
    SimulatorSettings,
    TrainerSettings,
)
from actorlearn.wire.messages import Seat
from launch.choices import Choice, choose, cpu_flags
from launch.cores import in_turn
from launch.description import Description, env_settings
from launch.planned import PlannedProcess, PlannedSegment, first_processes
from launch.topology import Topology, TopologyError


@dataclass
class Plan:
    """Everything about a run that follows from topology, description and machine."""

    topology: Topology
    description: Description
    run_id: str
    run_dir: Path
    shm: Path
    sockets_dir: Path
    cores: int
    choices: list[Choice] = field(default_factory=list)
    """What ``auto`` became in the topology."""
    resumed_at: int = 0
    """Environment steps of the checkpoint the run goes on from; 0 for a new run."""
    began_s: float = 0.0
    """Where CLOCK_MONOTONIC stood at the run's time zero: before now by what a resumed run had already taken."""
    processes: list[PlannedProcess] = field(default_factory=list)
    _next_number: int = 0
    _segments: dict[str, Segment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """List the processes; raises TopologyError when they are too many."""
        self.processes = first_processes(self.topology)
        self._next_number = self.topology.simulators.count

    # What is shown ---------------------------------------------------------------------------------------------

    @property
    def block_shape(self) -> BlockShape:
        """The numbers of every simulator's segment."""
        t, d = self.topology, self.description
        return BlockShape(
            groups=t.simulators.groups,
            blocks=t.simulators.blocks,
            horizon=t.algorithm.horizon,
            envs_per_group=t.simulators.envs // t.simulators.groups,
            observation_shape=d.observation_shape,
            observation_dtype=d.observation_dtype,
            columns=d.columns,
        )

    @property
    def segments(self) -> list[PlannedSegment]:
        """Segments at the start of the run, with their sizes."""
        weights = segment_bytes(weights_fields(self.description.weights))
        s = self.topology.simulators
        rows = f"{s.groups} group(s) x {s.blocks} block(s) x {self.topology.algorithm.horizon + 1} rows x "
        what = rows + f"{s.envs // s.groups} environments"
        blocks = [
            PlannedSegment(p.name, segment_bytes(block_fields(self.block_shape)), what)
            for p in self.processes
            if p.role == "simulator"
        ]
        return [
            PlannedSegment("weights", weights, f"3 slots x {self.description.weights:,} float32 weights"),
            PlannedSegment("rounds", segment_bytes(rounds_fields()), "which rounds may be begun"),
            PlannedSegment(
                "progress", segment_bytes(progress_fields(len(SECTIONS))), f"heartbeats of {ROWS} processes"
            ),
            *blocks,
        ]

    @property
    def bytes_total(self) -> int:
        """Shared memory the run needs at its start."""
        return sum(segment.bytes for segment in self.segments)

    @property
    def sockets(self) -> list[str]:
        """Endpoints that will be listened on; all are ipc, owner-only."""
        return [self.endpoint("control")]

    @property
    def expected_shape(self) -> dict[str, str]:
        """What a simulator must say of itself to take part (see ``processes/simulator.describe``)."""
        d, t = self.description, self.topology
        return {
            "env.id": t.env.id,
            "observation": f"{d.observation_dtype}{list(d.observation_shape)}",
            "actions": str(d.actions),
            "frames_per_step": str(d.frames_per_step),
            "algorithm.horizon": str(t.algorithm.horizon),
            "simulators.blocks": str(t.simulators.blocks),
            "simulators.groups": str(t.simulators.groups),
        }

    def endpoint(self, name: str) -> str:
        """The ipc endpoint of a listener."""
        return f"ipc://{self.sockets_dir / name}.sock"

    def bell(self, name: str) -> str:
        """The bell of a process, the same for all its incarnations."""
        return f"{self.sockets_dir / name}.bell"

    # What is made ----------------------------------------------------------------------------------------------

    def create_segments(self) -> None:
        """Make the run's own segments; raises SharedMemoryFull. Simulators' segments are made with their seats."""
        self._segments["weights"] = Segment.create(self.shm / "weights", weights_fields(self.description.weights))
        self._segments["rounds"] = Segment.create(self.shm / "rounds", rounds_fields())
        self._segments["progress"] = Segment.create(self.shm / "progress", progress_fields(len(SECTIONS)))

    @property
    def progress(self) -> Segment:
        """The progress segment, for the supervisor to read."""
        return self._segments["progress"]

    def seat(self, name: str, incarnation: int) -> Seat:
        """Where one incarnation of a simulator sits."""
        path = self.shm / f"{name}.{incarnation}"
        server = self._server_of(self.process(name))
        return Seat(name=name, incarnation=incarnation, segment=str(path), bell=self.bell(name), server=server)

    def create_seat(self, name: str, incarnation: int) -> Seat:
        """Make one incarnation's segment. A dead incarnation may go on writing to its own, to no effect."""
        seat = self.seat(name, incarnation)
        make_segment(Path(seat.segment), self.block_shape).close()
        return seat

    def drop_seat(self, seat: Seat) -> None:
        """Remove a dead incarnation's segment; the trainer still has it mapped for the blocks that are complete."""
        Path(seat.segment).unlink(missing_ok=True)

    def add_simulators(self, count: int) -> list[PlannedProcess]:
        """Plan more simulators for a running run; raises TopologyError when the progress segment is full."""
        used = {process.index for process in self.processes}
        free = [index for index in range(ROWS) if index not in used]
        if count > len(free):
            raise TopologyError(
                f"attach {count} simulators: a run has at most {ROWS} processes, and this one has {len(used)}; "
                f"attach at most {len(free)}, or detach others first"
            )
        new = [PlannedProcess(f"simulator-{self._next_number + i}", "simulator", free[i]) for i in range(count)]
        self._next_number += count
        self.processes += new
        return new

    def remove(self, name: str) -> None:
        """Forget a process that is gone for good: its row is free, its name is never given again."""
        self.processes.remove(self.process(name))

    def process(self, name: str) -> PlannedProcess:
        """The planned process of that name."""
        return next(process for process in self.processes if process.name == name)

    def _server_of(self, simulator: PlannedProcess) -> int:
        return simulator.number % max(self.topology.inference.count, 1)

    # What each process is told ---------------------------------------------------------------------------------

    def settings(
        self, name: str, incarnation: int, resume: bool = False, env: dict[str, Any] | None = None
    ) -> ProcessSettings:
        """Settings of one incarnation of a process; ``env`` overrides keys of a simulator's environment."""
        process, t = self.process(name), self.topology
        threads = {"trainer": t.trainer.threads, "inference": t.inference.threads}.get(process.role, 1) or 1
        base: dict[str, Any] = {
            "name": name,
            "incarnation": incarnation,
            "run_id": self.run_id,
            "control": self.endpoint("control"),
            "progress": str(self.shm / "progress"),
            "index": process.index,
            "seed": t.seed,
            "threads": threads,
        }
        if process.role == "simulator":
            return self._simulator(process, incarnation, base, env or {})
        if process.role == "inference":
            return InferenceSettings(
                **base,
                bell=self.bell(name),
                server=process.number,
                policy=self.policy,
                weights=str(self.shm / "weights"),
                device=t.inference.device,
            )
        if process.role == "trainer":
            return self._trainer(base, resume)
        return EvaluatorSettings(
            **base,
            env=msgspec.structs.replace(env_settings(t), noop_max=t.evaluator.noop_max),
            policy=self.policy,
            weights=str(self.shm / "weights"),
            every_steps=t.evaluator.every_steps,
            episodes=t.evaluator.episodes,
            greedy=t.evaluator.greedy,
        )

    @property
    def policy(self) -> PolicySettings:
        """What is needed to build the network and the algorithm."""
        return PolicySettings(
            observation_shape=self.description.observation_shape,
            observation_dtype=self.description.observation_dtype,
            actions=self.description.actions,
            model=self.topology.model.model_dump(),
            algorithm=self.topology.algorithm.model_dump(),
            precision=self.topology.inference.precision,
        )

    def _simulator(
        self, process: PlannedProcess, incarnation: int, base: dict[str, Any], env: dict[str, Any]
    ) -> SimulatorSettings:
        t = self.topology
        # Every incarnation, and every resumption, meets new games; a run from the start meets the same ones each time.
        moment = [t.seed, process.number, incarnation, self.resumed_at]
        seeds = np.random.SeedSequence(moment).generate_state(t.simulators.envs)
        local = t.inference.count == 0
        cores = in_turn() if t.simulators.pin else []
        return SimulatorSettings(
            **base,
            env=msgspec.convert({**t.env.model_dump(), **env}, EnvSettings),
            segment=str(self.shm / f"{process.name}.{incarnation}"),
            rounds=str(self.shm / "rounds"),
            bell=self.bell(process.name),
            inference_bell="" if local else self.bell(f"inference-{self._server_of(process)}"),
            trainer_bell=self.bell("trainer"),
            env_seeds=[int(seed >> 1) for seed in seeds],  # 31 bits: what every simulator's generator takes
            weights=str(self.shm / "weights"),
            policy=self.policy,
            core=cores[process.number % len(cores)] if t.simulators.pin else None,
        )

    def _trainer(self, base: dict[str, Any], resume: bool) -> TrainerSettings:
        t = self.topology
        return TrainerSettings(
            **base,
            bell=self.bell("trainer"),
            policy=self.policy,
            optimizer=t.optimizer.model_dump(),
            weights=str(self.shm / "weights"),
            rounds=str(self.shm / "rounds"),
            device=t.trainer.device,
            precision=t.trainer.precision,
            layout=t.trainer.layout,
            compile=t.trainer.compile is True,
            total_steps=t.total_steps,
            blocks=t.simulators.blocks,
            frames_per_step=self.description.frames_per_step,
            run_dir=str(self.run_dir),
            report_every_s=t.report.every_s,
            checkpoint_every_steps=t.checkpoint.every_steps,
            checkpoint_keep=t.checkpoint.keep,
            began_s=self.began_s,
            resume=resume,
        )


def plan(topology: Topology, run_dir: Path, run_id: str, sockets_dir: Path, description: Description) -> Plan:
    """Work out the run; changes nothing. Raises TopologyError when it has too many processes."""
    shm = SHM_ROOT / f"actorlearn-{os.getuid()}-{run_id}"
    cores = len(os.sched_getaffinity(0))
    chosen, choices = choose(topology, cpu_flags())
    return Plan(chosen, description, run_id, run_dir.absolute(), shm, sockets_dir, cores, choices)
