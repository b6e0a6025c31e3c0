"""Value learning in whole runs: every variant learns, runs repeat themselves, and a replay survives its trainer."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.system.conftest import PACED, Command, Start
from tests.system.launched import finished, learned

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

CATCH = [
    *("total_steps=1_000_000", "simulators.envs=16", "model.hidden_sizes=[128]", "checkpoint.every_steps=1_000_000"),
    *("replay.batch_size=128", "optimizer.learning_rate=0.002", "optimizer.learning_rate_final=0.002"),
    *("algorithm.target_every_steps=500", "algorithm.epsilon_steps=10_000", "algorithm.epsilon_final=0.02"),
]
DISTRIBUTION = ["algorithm.name=c51", "algorithm.value_min=-1.5", "algorithm.value_max=1.5", "algorithm.atoms=31"]
RAINBOW = [
    *DISTRIBUTION,
    *("algorithm.double=true", "algorithm.dueling=true", "algorithm.n_step=3", "replay.prioritised=true"),
]
NOISY = ["model.noisy=0.5", "algorithm.epsilon_initial=0.0", "algorithm.epsilon_final=0.0"]
VARIANTS = {
    "dqn": [],
    "double": ["algorithm.double=true"],
    "dueling": ["algorithm.dueling=true"],
    "n-step": ["algorithm.n_step=3"],
    "c51": DISTRIBUTION,
    "prioritised": ["replay.prioritised=true"],
    "noisy": NOISY,
    "eps-rainbow": RAINBOW,
    "rainbow": [*RAINBOW, *NOISY],
}


@pytest.mark.parametrize("name", VARIANTS)
def test_catch_is_learned(launched: Start, name: str) -> None:
    learned(launched("catch", *CATCH, "algorithm.name=dqn", *VARIANTS[name]), 0.8)


@pytest.mark.parametrize("mode", ["sync", "async", "gossip"])
def test_two_learners_with_a_replay_each_learn_catch(launched: Start, mode: str) -> None:
    two = ["learners.count=2", "simulators.count=1", f"mode={mode}"]
    learned(launched("catch", *CATCH, "algorithm.name=dqn", *two), 0.8)


# Of eight environments in two processes; a target network lasts 80 steps.
EACH, ALL = "simulators.groups=4", "simulators.groups=1"
ONE_BY_ONE = ["simulators.blocks=1", "algorithm.horizon=1"]
CONCURRENT = ["simulators.blocks=2", "simulators.weights=rollout", "algorithm.horizon=10"]
WAYS = {
    "standard": [*ONE_BY_ONE, EACH],
    "synchronised": [*ONE_BY_ONE, ALL],
    "concurrent": [*CONCURRENT, EACH],
    "both": [*CONCURRENT, ALL],
}


# With two blocks a server may be asked for rows of two rollouts at once: concurrent is tried with one and without.
@pytest.mark.parametrize(
    ("way", "servers"), [("standard", 0), ("synchronised", 1), ("concurrent", 0), ("concurrent", 1), ("both", 1)]
)
def test_the_four_ways_of_fast_dqn_repeat_themselves(launched: Start, way: str, servers: int) -> None:
    acting = f"inference.count={servers}"
    keys = ["algorithm.name=dqn", "algorithm.target_every_steps=80", "replay.learning_starts_steps=160"]
    one, again = (finished(launched("catch", "total_steps=3000", *keys, *WAYS[way], acting)) for _ in range(2))
    assert one["updates"] == again["updates"]
    assert one["weights_sha256"] == again["weights_sha256"]


def test_a_run_of_two_blocks_with_weights_of_rollouts_repeats_itself(launched: Start) -> None:
    keys = ["total_steps=3000", "simulators.blocks=2", "simulators.groups=2", "simulators.weights=rollout"]
    one, again = (finished(launched("cartpole", *keys)) for _ in range(2))
    assert one["weights_sha256"] == again["weights_sha256"]


def test_a_secondary_learner_is_evaluated_traced_and_resumed(launched: Start, command: Command) -> None:
    keys = ["algorithm.name=dqn", "replay.learning_starts_steps=100", "replay.secondary_batch_size=64"]
    evaluated = ["evaluator.count=1", "evaluator.every_steps=200", "evaluator.episodes=3", "report.norms=true"]
    run = launched("catch", PACED, *keys, *evaluated, "total_steps=4000")
    run.wait_for(lambda: run.rows() and "eval_return_secondary" in run.rows()[-1], "row that tells its score")
    assert "secondary" in run.events("evaluated")[-1]
    run.full_speed()
    finished(run)
    row = run.rows()[-1]
    assert 0 < row["secondary_steps_l2_fc0"] != row["steps_l2_fc0"] > 0
    finished(launched("resume", "total_steps=5000", run_dir=run.run_dir))
    answer = json.loads(command("eval", run.run_dir, "--episodes", "4", "--json").stdout)
    assert answer["secondary"]["episodes"] == answer["episodes"] == 4


@pytest.mark.smoke
def test_a_restarted_trainer_keeps_the_replay_of_the_killed_one(launched: Start) -> None:
    keys = ["algorithm.name=dqn", "replay.learning_starts_steps=100", "total_steps=4000"]
    run = launched("catch", PACED, *keys)
    *_, before = run.wait_for(lambda: [r for r in run.rows() if r["replay_transitions"] >= 300], "300 transitions")
    os.kill(run.pids()["trainer"], signal.SIGKILL)
    run.wait_for_event("restarted", "trainer", incarnation=1)
    known = len(run.rows())
    after = run.wait_for(lambda: run.rows()[known:], "row of the new trainer")[0]
    assert after["replay_transitions"] >= before["replay_transitions"]
    run.full_speed()
    assert run.end() == 0, run.screen()
    assert run.summary()["status"] == "finished"
    assert run.leftovers() == []


@pytest.mark.parametrize("save", ["true", "false"])
def test_a_resumed_run_has_the_replay_that_was_saved(launched: Start, save: str) -> None:
    keys = ["algorithm.name=dqn", "replay.learning_starts_steps=500", f"replay.save={save}"]
    run = launched("catch", *keys, "total_steps=1000")
    finished(run)
    stored = run.rows()[-1]["replay_transitions"]
    resumed = launched("resume", "total_steps=1600", "report.every_s=0.1", run_dir=run.run_dir)
    finished(resumed)
    rows = [row for row in resumed.rows() if row["env_steps"] > 1000]
    assert rows[-1]["replay_transitions"] == pytest.approx(stored + 600 if save == "true" else 600, abs=100)


def test_a_stop_within_an_update_saves_the_minibatches_learned_so_far(launched: Start) -> None:
    """Each rollout's minibatches take many seconds here, so the stop interrupts them."""
    keys = ["algorithm.name=dqn", "replay.learning_starts_steps=100", "replay.ratio=3000"]
    run = launched("catch", *keys, "algorithm.horizon=16", "checkpoint.every_steps=1", "total_steps=1_000_000")
    run.wait_for_event("ready", "simulator-1")
    run.wait_for(lambda: [e for e in run.events("saved") if e["env_steps"] > 100], "checkpoint after learning began")
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    saved = run.checkpoint()
    _, ahead, *_ = saved.tensors["replay.counters"].tolist()
    assert ahead > 0
    assert saved.state["env_steps"] == run.summary()["env_steps"]
