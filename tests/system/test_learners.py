"""Several learners in one run: they learn in all modes, survive deaths, save, resume and are evaluated together."""

from __future__ import annotations

import itertools
import json
import os
import signal
from statistics import mean

import pytest

from benchmarks.lagged import learn, loaded
from benchmarks.papers.gossip_bound import logs_of, points
from tests.system.conftest import PACED, Command, Start
from tests.system.launched import finished, learned
from tests.system.ways import CATCH, LEARNS

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

TWO = ["learners.count=2", "simulators.count=1"]
TRAINERS = ["trainer-0", "trainer-1"]
MODES = ["sync", "async", "gossip"]
DILOCO = ["algorithm.name=ppo", "algorithm.horizon=16", "learners.local_steps=3", "learners.outer=nesterov"]
NOLOCO = ["mode=gossip", "gossip.graph=random-matching", "learners.local_steps=3", "learners.outer=momentum"]


@pytest.mark.parametrize(("mode", "name"), [*itertools.product(MODES, LEARNS)])
def test_one_topology_learns_catch_in_each_mode(launched: Start, mode: str, name: str) -> None:
    run = launched("catch", *CATCH, *LEARNS[name], *TWO, f"mode={mode}")
    learned(run, 0.8)
    assert run.rows()[-1]["learners"].keys() == set(TRAINERS)
    if mode == "gossip":
        assert max(row["mixed_share"] for row in run.rows()) > 0.0
    for key in ("time_s", "env_steps", "episodes"):
        assert [row[key] for row in run.rows()] == sorted(row[key] for row in run.rows())


@pytest.mark.parametrize(
    "outer", [pytest.param([], id="gradients", marks=pytest.mark.smoke), pytest.param(DILOCO, id="diloco")]
)
def test_a_run_of_learners_in_sync_repeats_itself(launched: Start, outer: list[str]) -> None:
    runs = [launched("catch", *TWO, *outer, "total_steps=4000") for _ in range(2)]
    hashes = [finished(run)["weights_sha256"] for run in runs]
    assert hashes[0] == hashes[1]
    assert 4000 <= runs[0].summary()["env_steps"] < 4000 + 2 * 4 * 16  # at most one update beyond
    saved = [run.checkpoint().state["env_steps"] for run in runs]
    assert saved == [runs[0].summary()["env_steps"]] * 2


def test_learners_in_sync_save_by_time_at_the_same_update_and_resume_from_it(launched: Start) -> None:
    kept = ["checkpoint.every_steps=1_000_000", "checkpoint.every_s=0.1", "checkpoint.keep=1000"]
    run = launched("catch", *TWO, *kept, "total_steps=10_000")
    before = finished(run)
    saved = [{event["env_steps"] for event in run.events("saved") if event["process"] == name} for name in TRAINERS]
    assert saved[0] == saved[1] and len(saved[0]) > 2, saved
    at = sorted(saved[0])[1]

    resumed = launched("resume", "--at", str(at), run_dir=run.run_dir)
    assert finished(resumed)["weights_sha256"] == before["weights_sha256"]  # it continues exactly from there
    assert resumed.meta()["resumed_at"] == at


def test_learners_in_sync_save_at_the_same_update_when_asked(launched: Start, command: Command) -> None:
    uneven = ["env.id=tests.system.environments:Uneven", "checkpoint.every_steps=1_000_000"]
    run = launched("catch", *TWO, *uneven, "checkpoint.keep=1000", "total_steps=1_000_000")
    run.wait_for_steps(1)
    root = run.run_dir / "checkpoints"
    for _ in range(4):
        saved = json.loads(command("save", run.run_dir, "--json").stdout)
        missing = [d.name for d in (root, root / "learner-1") if not (d / f"{saved['env_steps']:012d}").is_dir()]
        assert not missing, saved["text"]
    assert command("stop", "--now", run.run_dir).returncode == 0


def test_a_learner_left_out_of_one_resume_does_not_set_the_next_one_back(launched: Start) -> None:
    keys = ["mode=sync", "simulators.count=1", "total_steps=600", "checkpoint.every_steps=300"]
    run = launched("catch", *keys, "learners.count=2")
    finished(run)
    for learners, total_steps in ((1, 900), (2, 1200)):
        at = run.summary()["env_steps"]
        resumed = launched("resume", f"learners.count={learners}", f"total_steps={total_steps}", run_dir=run.run_dir)
        finished(resumed)
        assert resumed.meta()["resumed_at"] == at


def test_a_resume_does_not_go_back_to_the_checkpoint_of_a_learner_that_was_given_up(launched: Start) -> None:
    keys = ["mode=sync", "checkpoint.every_steps=500", "checkpoint.keep=1000", "supervision.restarts=0"]
    run = launched("catch", PACED, *TWO, *keys, "total_steps=6000")
    run.wait_for_steps(600)
    os.kill(run.pids()["trainer-1"], signal.SIGKILL)
    run.wait_for_event("gave up", "trainer-1")
    run.full_speed()
    assert run.end() == 0, run.screen()
    at = run.summary()["env_steps"]
    assert at >= 6000 and max(event["env_steps"] for event in run.events("saved", "trainer-1")) < 3000
    resumed = launched("resume", f"total_steps={at + 1000}", run_dir=run.run_dir)
    assert resumed.end() == 0, resumed.screen()
    summary = resumed.summary()
    assert resumed.meta()["resumed_at"] == at
    assert summary["env_steps"] == summary["steps_used"] >= at + 1000, "each step that was learned from counts once"
    saved = {name: resumed.events("saved", name)[-1]["env_steps"] for name in TRAINERS}
    assert saved == dict.fromkeys(TRAINERS, summary["env_steps"])


def test_learners_in_sync_use_one_learning_rate_even_if_it_follows_sample_sizes(launched: Start) -> None:
    """Unequal rates would make unequal weights, which learners compare every 100 updates."""
    keys = ["algorithm.name=ppo", "algorithm.horizon=8", "algorithm.epochs=1", "algorithm.minibatches=2"]
    corrected = ["algorithm.proximal=recomputed", "algorithm.advantages=vtrace", "optimizer.sample_size_scaling=sqrt"]
    played = ["simulators.blocks=2", "simulators.weights=rollout", "total_steps=7000"]
    run = launched("catch", *TWO, *keys, *corrected, *played)
    assert finished(run)["updates"] > 100
    rows = run.rows()
    assert min(row["effective_sample_size"] for row in rows) < 1.0
    assert rows[-1]["policy_lag_1"] == 1.0 and "effective_sample_size_1" in rows[-1]
    assert not run.events("died"), run.screen()


def test_learning_at_a_lag_in_one_process_equals_a_run_with_rollouts_open_ahead(launched: Start) -> None:
    """The suite ``asynchrony`` learns the same weights as runs do, bit for bit."""
    keys = ["algorithm.name=ppo", "algorithm.proximal=interpolated", "simulators.envs=8", "total_steps=1500"]
    ahead = ["simulators.count=1", "inference.count=0", "simulators.weights=rollout", "simulators.blocks=3"]
    run = finished(launched("catch", *keys, *ahead))
    (held,) = learn([loaded("configs/catch.yaml", keys)], [2])
    assert held["weights_sha256"] == run["weights_sha256"]
    assert (held["env_steps"], held["score"]) == (run["env_steps"], run["episode_return_mean"])


@pytest.mark.parametrize(
    ("mode", "outer"),
    [
        *[("sync", []), ("sync", DILOCO), ("async", []), ("gossip", []), ("gossip", NOLOCO)],
    ],
)
def test_each_learner_may_be_killed_and_the_run_be_stopped_and_resumed(
    launched: Start, mode: str, outer: list[str]
) -> None:
    run = launched("catch", PACED, *TWO, f"mode={mode}", *outer, "total_steps=30_000", "checkpoint.every_steps=1000")
    run.wait_for_steps(500)
    for victim in TRAINERS:
        os.kill(run.pids()[victim], signal.SIGKILL)
        run.wait_for_event("restarted", victim, incarnation=1)
        before = max(row["env_steps"] for row in run.rows())
        run.wait_for_steps(before + 200)
    dropped = run.rows()[-1]
    assert dropped["steps_dropped"] == dropped["dropped_rolled_back"]
    assert (dropped["steps_dropped"] > 0) == (mode == "gossip")  # else the other learner or the store has it
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    stopped = run.summary()
    assert stopped["status"] == "stopped"
    assert [(event["process"], event["cause"]) for event in run.events("died")] == [(v, "signal 9") for v in TRAINERS]
    steps = [row["env_steps"] for row in run.rows()]
    assert steps == sorted(steps)
    assert run.leftovers() == []
    end = stopped["env_steps"] + 2_000
    again = launched("resume", f"total_steps={end}", run_dir=run.run_dir)
    again.wait_for_steps(stopped["env_steps"])
    again.full_speed()
    assert again.end() == 0, again.screen()
    assert again.summary()["status"] == "finished" and again.summary()["env_steps"] >= end
    assert again.leftovers() == []


@pytest.mark.parametrize("mode", ["async", "gossip"])
def test_each_learner_and_the_average_of_their_weights_are_evaluated(
    launched: Start, command: Command, mode: str
) -> None:
    evaluated = ["evaluator.count=1", "evaluator.every_steps=200", "evaluator.episodes=3", "evaluator.scheduling=other"]
    run = launched("catch", PACED, *TWO, *evaluated, f"mode={mode}", "total_steps=6_000")
    found = run.wait_for(lambda: [e for e in run.events("evaluated") if "learners" in e], "evaluation of both")[-1]
    assert found["learners"].keys() == set(TRAINERS) and len(found["returns"]) == 3
    assert found["best_mean"] == found["learners"][found["best"]] == max(found["learners"].values())
    assert "best trainer-" in found["cause"] and "averaged weights" in found["cause"]
    run.full_speed()
    summary = finished(run)
    assert run.rows()[-1]["eval_return_best"] >= run.rows()[-1]["eval_return_learners_mean"]
    played = json.loads(command("eval", run.run_dir, "--episodes", "4", "--json").stdout)
    assert played["learners"].keys() == set(TRAINERS) and played["episodes"] == 4
    assert all(own["episodes"] == 4 for own in played["learners"].values())
    assert 0 < played["env_steps"] <= summary["env_steps"]
    said = command("eval", run.run_dir, "--episodes", "2").stdout
    assert "average of 2 learners' weights" in said and "trainer-1 alone" in said and "best learner: trainer-" in said


def test_a_restarted_learner_takes_its_neighbours_weights_and_is_soon_as_close_as_before(launched: Start) -> None:
    """Its own checkpoint holds the first weights, far from those of the others."""
    three = ["learners.count=3", "simulators.count=1", "mode=gossip", "gossip.gradient_every=100"]
    run = launched("catch", PACED, *three, "total_steps=1_000_000", "checkpoint.every_steps=1_000_000")

    def told(since_s: float) -> list[dict[str, float]]:
        own = [row.get("learners", {}).get("trainer-1", {}) for row in run.rows() if row["time_s"] > since_s]
        return [row for row in own if row.get("env_steps_per_s") and "consensus_distance" in row]

    before = run.wait_for(lambda: len(told(0)) >= 20 and told(0), "20 reports")
    level = mean(row["consensus_distance"] for row in before)
    os.kill(run.pids()["trainer-1"], signal.SIGKILL)
    back_s = run.wait_for_event("restarted", "trainer-1", incarnation=1)["time_s"]
    after = run.wait_for(lambda: sum(row["exchanges"] for row in told(back_s)) >= 20 and told(back_s), "20 exchanges")
    exchanges = itertools.accumulate(row["exchanges"] for row in after)
    near = [row["consensus_distance"] < level for row, done in zip(after, exchanges, strict=True) if done <= 20]
    assert any(near), (level, after)
    warned = [(event["process"], event["cause"]) for event in run.events("warned")]
    assert warned == [
        ("trainer-2", "now mixes weights with trainer-0, because trainer-1 has left"),
        ("trainer-2", "now mixes weights with trainer-1, because trainer-1 has joined"),
    ]
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    found = points(logs_of(run.run_dir))
    assert len(found) >= 40 and all(point.distance <= point.bound for point in found)
    assert run.leftovers() == []


def test_learners_share_experience_without_weights_also_after_one_was_killed(launched: Start) -> None:
    shared = ["mode=gossip", "gossip.graph=none", "gossip.experience=2", "algorithm.name=impala"]
    run = launched("catch", PACED, *TWO, *shared, "total_steps=30_000")

    def both_take(since_s: float) -> bool:
        rows = [row.get("learners", {}) for row in run.rows() if row["time_s"] > since_s]
        return all(any(row.get(name, {}).get("foreign_steps") for row in rows) for name in TRAINERS)

    run.wait_for(lambda: both_take(0), "steps of others in both")
    os.kill(run.pids()["trainer-1"], signal.SIGKILL)
    back_s = run.wait_for_event("restarted", "trainer-1", incarnation=1)["time_s"]
    run.wait_for(lambda: both_take(back_s + 0.5), "the same after a death")
    run.full_speed()
    assert run.end() == 0, run.screen()
    summary = run.summary()
    played = summary["steps_used"] + summary["dropped_rolled_back"]
    assert played >= 30_000 and summary["steps_dropped"] == summary["dropped_rolled_back"]
    assert run.leftovers() == []


def test_learners_gossip_through_sockets_also_after_one_was_killed(launched: Start) -> None:
    run = launched("catch", PACED, *TWO, "mode=gossip", "gossip.transport=zmq", "gossip.max_staleness=3")
    run.wait_for_steps(500)
    os.kill(run.pids()["trainer-1"], signal.SIGKILL)
    back_s = run.wait_for_event("restarted", "trainer-1", incarnation=1)["time_s"]

    def mixed() -> bool:
        rows = [row["learners"] for row in run.rows() if row["time_s"] > back_s]
        own = [[row[name] for row in rows if row[name]["env_steps_per_s"]] for name in TRAINERS]  # 0: an old report
        return all(any(row.get("mixed_share") for row in told) for told in own)

    run.wait_for(mixed, "mixing of both")
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    assert run.leftovers() == []
