"""Runs of recurrent networks: they learn to remember, repeat themselves, and survive a killed inference server."""

from __future__ import annotations

import os
import signal

import pytest

from tests.system.conftest import PACED, Start
from tests.system.launched import finished, learned

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

SEQUENCES = [
    *("algorithm.name=r2d1", "replay.learning_starts_steps=400", "replay.sequence_steps=6", "replay.burn_in_steps=6"),
    *("replay.sequence_every=3", "replay.batch_size=8", "replay.prioritised=true"),
]
RECALL = ["recall", "simulators.envs=16", "checkpoint.every_steps=1_000_000"]


# of two seeds each, all came to 0.9 within 49 000 steps with A2C and 16 000 with PPO.
@pytest.mark.parametrize(
    "way",
    [
        pytest.param(["model.recurrence=gru"], id="gru, local inference"),
        pytest.param(
            ["model.recurrence=lstm", "inference.count=1", "simulators.groups=2", "simulators.blocks=2"],
            id="lstm, two blocks and two groups",
        ),
        pytest.param(["model.recurrence=lstm", "algorithm.name=ppo"], id="lstm, ppo"),
    ],
)
def test_a_recurrent_policy_remembers_a_cue(launched: Start, way: list[str]) -> None:
    run = launched(*RECALL, *way, "total_steps=400_000")
    learned(run, 0.9)


def test_memory_is_learned_from_replayed_sequences(launched: Start) -> None:
    learned(launched("recall-r2d1"), 0.9)


@pytest.mark.parametrize("mode", ["sync", "async", "gossip"])
def test_two_learners_learn_memory_from_replayed_sequences(launched: Start, mode: str) -> None:
    two = ["learners.count=2", "simulators.count=1", f"mode={mode}", "total_steps=240_000"]
    learned(launched("recall-r2d1", *two), 0.8)


def test_a_secondary_learner_learns_from_replayed_sequences(launched: Start) -> None:
    run = launched("recall-r2d1", "replay.secondary_batch_size=64", "total_steps=4000")
    finished(run)
    assert run.rows()[-1]["secondary_loss"] > 0.0


def test_a_policy_without_memory_scores_no_better_than_chance(launched: Start) -> None:
    run = launched(*RECALL, "model.recurrence=none")
    assert finished(run)["episodes"] > 5000
    scores = [row["episode_return_mean"] for row in run.rows() if row["episodes"] >= 100]
    assert max(abs(score) for score in scores) <= 0.5, scores  # five standard deviations of a hundred games


def test_a_run_of_a_recurrent_policy_repeats_itself(launched: Start) -> None:
    way = ["simulators.groups=2", "inference.count=1", "total_steps=3000", "model.recurrence=lstm"]
    one, again = (finished(launched("recall", *way)) for _ in range(2))
    assert one["weights_sha256"] == again["weights_sha256"]


@pytest.mark.parametrize("learner", [[], SEQUENCES], ids=["rollouts", "replayed sequences"])
def test_recurrent_states_survive_the_death_of_their_inference_server(launched: Start, learner: list[str]) -> None:
    """With one simulator every batch is composed alike, so the weights at the end say whether anything was lost."""
    way = ["simulators.count=1", "simulators.groups=2", "inference.count=1", "total_steps=3000"]
    way += [PACED, "model.recurrence=gru", "model.recurrent_size=16", *learner]
    run = launched("catch", *way)
    run.wait_for(run.rows, "row")
    for incarnation in (0, 1):
        os.kill(run.pids()["inference-0"], signal.SIGKILL)
        run.wait_for_event("restarted", "inference-0", incarnation + 1)
        run.wait_for_steps(run.env_steps())
    run.full_speed()
    assert run.end() == 0, run.screen()
    assert run.summary()["deaths"] == 2
    assert run.rows()[-1]["steps_dropped"] == 0
    assert run.summary()["weights_sha256"] == finished(launched("catch", *way))["weights_sha256"]
