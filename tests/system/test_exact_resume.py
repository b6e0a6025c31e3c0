"""Runs that are interrupted at any moment end with the weights of a run that was not."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress

import pytest

from actorlearn.parameters.checkpoint_folders import directory_of
from tests.algorithms import stateful
from tests.newest import newest_checkpoint
from tests.system.conftest import CONFIGS, PACED, Command, Start
from tests.system.launched import Launched, finished, processes_of
from tests.waiting import within

pytestmark = [pytest.mark.system]

COMMON = [PACED, "checkpoint.every_steps=150", "checkpoint.exact=true", "total_steps=2400"]
DQN = [
    *("algorithm.name=dqn", "replay.save=true", "replay.learning_starts_steps=100", "replay.capacity_steps=1000"),
    *("algorithm.target_every_steps=96", "algorithm.epsilon_steps=1500"),
]
SAC = [
    *("env.id=Pendulum-v1", "algorithm.name=sac", "algorithm.random_steps=200", "model.hidden_sizes=[16, 16]"),
    *("replay.save=true", "replay.learning_starts_steps=100", "replay.capacity_steps=1000"),
    *("replay.batch_size=16", "replay.ratio=8"),
]
SEQUENCES = [
    *("algorithm.name=r2d1", "replay.save=true", "replay.learning_starts_steps=400", "replay.capacity_steps=1000"),
    *("algorithm.target_every_steps=96", "algorithm.epsilon_steps=1500", "model.recurrent_size=16"),
    *("replay.sequence_steps=6", "replay.burn_in_steps=6", "replay.sequence_every=3", "replay.batch_size=8"),
]
TWO = ["learners.count=2", "simulators.count=1", "inference.count=1"]
SERVED = ["inference.count=1"]
ROLLOUTS = ["simulators.blocks=2", "simulators.weights=rollout", "simulators.groups=2"]
STATE = ["algorithm.name=tests.algorithms.stateful:Declares"]
RAINBOW = [
    *(*DQN, "algorithm.name=c51", "algorithm.value_min=-1.5", "algorithm.value_max=1.5", "algorithm.n_step=3"),
    *("replay.prioritised=true", "algorithm.double=true", "model.noisy=0.5", "algorithm.dueling=true"),
]

# Keys of the runs of the slow tests, by mode and name.
ALONE = {
    "a2c": [],
    "served": [*SERVED, "simulators.groups=2"],
    "two servers": ["inference.count=2", "simulators.decorrelation_steps=20"],
    "ppo": ["algorithm.name=ppo", "algorithm.horizon=16", "algorithm.minibatches=4", *SERVED],
    "pqn": ["algorithm.name=pqn", "algorithm.horizon=16", "algorithm.minibatches=4", "algorithm.epsilon_steps=1500"],
    "recurrent": ["model.recurrence=lstm", *SERVED, "simulators.reset=wait"],
    "lag": ["algorithm.name=ppo", "algorithm.horizon=8", *ROLLOUTS, *SERVED],
    "normalised": ["model.normalize_observation=true", "algorithm.normalize_reward=true", "simulators.groups=4"],
    "recurrent lag": ["model.recurrence=gru", *ROLLOUTS],
    "cartpole": ["env.id=CartPole-v1", "algorithm.horizon=5"],
    "state": STATE,
    "impala": ["algorithm.name=impala", *ROLLOUTS, *SERVED, "simulators.reset=wait"],
}
SYNC = {
    "a2c": TWO,
    "ppo": [*TWO, "algorithm.name=ppo", "algorithm.horizon=16", "algorithm.minibatches=2"],
    "diloco": [*TWO, "algorithm.name=ppo", "algorithm.horizon=16", "learners.local_steps=3", "learners.outer=nesterov"],
    "several simulators": [*TWO, "simulators.count=2", "simulators.envs=2"],
    "state": [*TWO, *STATE],
    "state of local steps": [
        *(*TWO, *STATE, "algorithm.horizon=16", "algorithm.minibatches=4", "learners.local_steps=3"),
        "learners.outer=nesterov",
    ],
    "dqn": [*TWO, *DQN],
    "numbers": [*TWO, *SAC],
    "dqn of local steps": [*TWO, *DQN, "replay.prioritised=true", "replay.ratio=16", "learners.local_steps=5"],
    "numbers of local steps": [*TWO, *SAC, "learners.local_steps=5", "learners.outer=nesterov"],
    "sequences": [*TWO, *SEQUENCES],
    "normalised": [*TWO, "model.normalize_observation=true", "algorithm.normalize_reward=true"],
}
REPLAY = {
    "dqn": DQN,
    "served": [*DQN, *SERVED],
    "fast": [*DQN, "algorithm.horizon=6", *ROLLOUTS, "algorithm.target_every_steps=96", *SERVED],
    "rainbow": [*RAINBOW, *SERVED],
    "secondary": [*DQN, "replay.secondary_batch_size=64"],
    "numbers": SAC,
    "sequences": [*SEQUENCES, *SERVED, "simulators.reset=wait"],
}
CASES = {"alone": ALONE, "sync": SYNC, "replay": REPLAY}
QUICK = {"alone": ("stop", "kill"), "sync": ("kill",), "replay": ("stop",)}
"""Interruptions of the quick tests, by mode: a run takes seconds to start."""


class Interrupted:
    """One run that is stopped or killed again and again."""

    def __init__(self, launched: Start, keys: list[str], draw: random.Random) -> None:
        """Start the run, and wait for its first checkpoint."""
        self._launched, self._draw = launched, draw
        self.run = launched("catch", *COMMON, *keys)
        self.run.wait_for(lambda: self.run.events("saved")[: 2 if "learners.count=2" in keys else 1], "checkpoint")
        self.points: list[str] = []

    def interrupt(self, how: str) -> None:
        """Stop or kill the run at a random moment, and resume it; do nothing if it has come to its end."""
        run = self.run
        began = len(run.rows())
        run.wait_for(lambda: len(run.rows()) > began or run.process.poll() is not None, "a row")
        time.sleep(self._draw.uniform(0.0, 1.2))
        if run.process.poll() is not None:
            return
        kill_all(run) if how == "kill" else run.ctrl_c()
        ended = run.end()
        assert ended in ((-signal.SIGKILL, 0) if how == "kill" else (130, 0)), run.screen()
        if ended == 0:
            return
        self.points.append(f"{how} at {run.checkpoint().state['env_steps']}")
        self.run = self._launched("resume", run_dir=run.run_dir)

    def finish(self) -> str:
        """Let the run come to its end; return the hash of its weights."""
        self.run.paced.unlink(missing_ok=True)
        assert self.run.end() == 0, self.run.screen()
        assert self.run.leftovers() == []
        resumed = [event["cause"] for event in self.run.events("resumed")]
        assert [cause for cause in resumed if not cause.endswith("the run continues exactly")] == []
        assert self.run.events("died") == []
        return str(self.run.summary()["weights_sha256"])


def kill_all(run: Launched) -> None:
    """SIGKILL to every process of a run at once, as when a machine is lost."""
    for pid in (run.process.pid, *processes_of(run.run_dir)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    run.process.wait()
    assert within(20.0, lambda: not processes_of(run.run_dir))


def uninterrupted(launched: Start, keys: list[str]) -> str:
    run = launched("catch", *COMMON, *keys)
    run.paced.unlink(missing_ok=True)
    weights = str(finished(run)["weights_sha256"])
    run.paced.touch()
    return weights


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("mode", "name"),
    [
        pytest.param("alone", "a2c", marks=pytest.mark.smoke),
        pytest.param("alone", "pqn", marks=pytest.mark.nightly),
        ("alone", "state"),
        ("sync", "a2c"),
        ("sync", "state"),
        pytest.param("sync", "state of local steps", marks=pytest.mark.nightly),
        pytest.param("sync", "diloco", marks=pytest.mark.nightly),
        pytest.param("sync", "dqn of local steps", marks=pytest.mark.nightly),
        pytest.param("sync", "numbers of local steps", marks=pytest.mark.nightly),
        ("replay", "dqn"),
        ("replay", "sequences"),
    ],
)
def test_an_interrupted_run_ends_with_the_weights_of_an_uninterrupted_one(
    launched: Start, mode: str, name: str
) -> None:
    keys = CASES[mode][name]
    expected = uninterrupted(launched, keys)
    interrupted = Interrupted(launched, keys, random.Random(mode))
    for how in QUICK[mode]:
        interrupted.interrupt(how)
    assert interrupted.finish() == expected, interrupted.points
    if name == "state":
        found = {str(saved_states(interrupted.run, learner)) for learner in range(2 if mode == "sync" else 1)}
        assert len(found) == 1  # equal in all learners in lock-step


def saved_states(run: Launched, learner: int) -> dict[str, list[float]]:
    """Return the state of the algorithm in a learner's newest checkpoint; it must have changed."""
    saved = newest_checkpoint(directory_of(run.run_dir / "checkpoints", learner)).section("algorithm")
    assert float(saved["baseline"]) != 0.0 and (saved["updates"] > 10.0).all()
    return {name: tensor.tolist() for name, tensor in saved.items()}


@pytest.mark.timeout(120)
def test_a_run_whose_algorithm_hides_state_says_that_it_does_not_resume_exactly(
    launched: Start, command: Command
) -> None:
    keys = [PACED, f"algorithm.name={stateful.__name__}:Hides"]
    why = f"algorithm.name: {stateful.__name__}:Hides: {stateful.HIDDEN[stateful.Hides]}"
    checked = command("check", CONFIGS / "catch.yaml", *keys)
    assert checked.returncode == 0, checked.stderr
    assert f"chosen checkpoint.exact: false, because {why}" in " ".join(checked.stdout.split())
    refused = command("run", CONFIGS / "catch.yaml", *keys, "checkpoint.exact=true")
    assert refused.returncode == 2
    assert "this run has no exact checkpoints: algorithm.name" in " ".join(refused.stderr.split())
    run = launched("catch", *keys, "total_steps=400")
    run.paced.unlink(missing_ok=True)
    finished(run)
    meta = run.meta()
    assert meta["exact"] is False and meta["inexact"].startswith(why)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("mode", "name"), [(mode, name) for mode, cases in CASES.items() for name in cases])
def test_a_run_interrupted_at_random_moments_ends_with_the_same_weights(launched: Start, mode: str, name: str) -> None:
    """About fifty interruptions in each mode, at most five of them in one run."""
    keys = CASES[mode][name]
    expected = uninterrupted(launched, keys)
    draw = random.Random(f"{mode} {name}")
    wanted, points = 50 // len(CASES[mode]), []
    while len(points) < wanted:
        interrupted = Interrupted(launched, keys, draw)
        for _ in range(min(5, wanted - len(points))):
            interrupted.interrupt(draw.choice(["stop", "kill"]))
        points += interrupted.points
        assert interrupted.finish() == expected, interrupted.points
        interrupted.run.paced.touch()
    print(f"{mode} {name}: {len(points)} interruptions: {points}")
