"""A simulator that is killed within a rollout, and its successor, which continues from its snapshot.

The process is a real one, started by hand without a supervisor; trainer and inference server are played by the test.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actorlearn.address import Pipe, Shm
from actorlearn.memory.progress import progress_fields
from actorlearn.memory.rollout import Blocks, Rollouts, make_segment, rollouts_fields
from actorlearn.memory.shared import Segment
from actorlearn.metrics.timings import SECTIONS
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.settings import PolicySettings, SimulatorSettings, write
from tests import named
from tests.blocks import block_shape

HORIZON, ENVS = 4, 2
SHAPE = block_shape(horizon=HORIZON, envs_per_group=ENVS, observation_shape=(32,), observation_dtype="uint8", actions=4)
DEADLINE_S = 30.0
Digest = list[bytes]


class Run:
    """Stand-ins for a trainer and an inference server."""

    def __init__(self, folder: Path, resumes: str = "") -> None:
        folder.mkdir()
        self.rollouts = Rollouts(Segment.create(folder / "rollouts", rollouts_fields()))
        Segment.create(folder / "progress", progress_fields(len(SECTIONS)))
        self.blocks = Blocks(make_segment(folder / "member", SHAPE))
        policy = PolicySettings(
            observation_shape=(32,),
            observation_dtype="uint8",
            actions=4,
            model=named.model(),
            algorithm=named.algorithm(),
        )
        settings = SimulatorSettings(
            id=ProcessId("simulator"),
            run_id="by-hand",
            control=None,
            progress=Shm(str(folder / "progress")),
            index=0,
            seed=1,
            env=named.env(id="tests.ledger.env:Ledger"),
            segment=Shm(str(folder / "member")),
            rollouts=Shm(str(folder / "rollouts")),
            wakeup=Pipe(str(folder / "wakeup")),
            inference_wakeup=Pipe(str(folder / "inference-wakeup")),
            trainer_wakeup=Pipe(str(folder / "trainer-wakeup")),
            env_seeds=[3, 4],
            weights=Shm(""),
            policy=policy,
            decorrelation_steps=5,
            states=str(folder),
            resumes=resumes,
        )
        self.settings = folder / "settings.json"
        write(settings, self.settings)

    @contextmanager
    def process(self) -> Iterator[subprocess.Popen[bytes]]:
        child = subprocess.Popen([sys.executable, "-m", "actorlearn.processes", "simulator", str(self.settings)])
        try:
            yield child
        finally:
            child.kill()
            child.wait()

    def answer(self, until_timestep: int) -> None:
        """Answer all rows below a timestep."""
        for timestep in range(self.blocks.acted(0), until_timestep):
            wait_for(lambda timestep=timestep: self.blocks.observed(0) > timestep)  # type: ignore[misc]
            self.blocks.row("action", 0, timestep)[:] = [timestep % 4, timestep // 4 % 4]
            self.blocks.mark_acted(0, timestep, 7)

    def learned(self, rollout: int) -> bytes:
        """Wait for a complete rollout; return its bytes without the actions."""
        wait_for(lambda: self.blocks.completed(0) > rollout)
        return b"".join(
            self.blocks.block(name, 0, rollout).tobytes() for name in self.blocks.columns if name != "action"
        )

    def play(self, first: int, last: int) -> Digest:
        played = []
        for rollout in range(first, last + 1):
            self.rollouts.raise_to(rollout + 1)
            self.answer((rollout + 1) * HORIZON)
            played.append(self.learned(rollout))
        return played

    def admit(self, rollout: int) -> None:
        wait_for(lambda: self.blocks.ready)
        self.blocks.admit(rollout)


def wait_for(condition: object) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline_s, "the simulator does nothing"
        time.sleep(0.001)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Digest:
    run = Run(tmp_path_factory.mktemp("whole") / "run")
    with run.process() as child:
        run.admit(0)
        played = run.play(0, 3)
        run.blocks.leave(4)
        assert child.wait(DEADLINE_S) == 0
    return played


@pytest.mark.parametrize(
    "timestep",
    [
        pytest.param(HORIZON, marks=pytest.mark.nightly),
        HORIZON + 2,
        pytest.param(2 * HORIZON, marks=pytest.mark.nightly),
    ],
)
def test_a_killed_simulators_successor_continues_from_its_snapshot(
    tmp_path: Path, whole: Digest, timestep: int
) -> None:
    """Before the first row of a rollout, in its middle, and after its last."""
    run = Run(tmp_path / "before")
    with run.process():
        run.admit(0)
        played = run.play(0, 0)
        if timestep > HORIZON:
            run.rollouts.raise_to(2)
            run.answer(timestep)
            place = run.blocks.observed if timestep < 2 * HORIZON else run.blocks.completed
            wait_for(lambda: place(0) > (timestep if timestep < 2 * HORIZON else 1))
        assert run.rollouts.ask(1) == 1
        wait_for(lambda: run.blocks.held)
        assert run.blocks.held == 1
    on = Run(tmp_path / "after", resumes=str(tmp_path / "before" / "simulator-0.npz"))
    with on.process():
        on.admit(1)
        assert played + on.play(1, 3) == whole


def test_a_simulator_with_a_damaged_snapshot_starts_from_its_seeds(tmp_path: Path, whole: Digest) -> None:
    (tmp_path / "damaged.npz").write_bytes(b"PK")
    run = Run(tmp_path / "run", resumes=str(tmp_path / "damaged.npz"))
    with run.process():
        run.admit(0)
        assert run.play(0, 3) == whole
