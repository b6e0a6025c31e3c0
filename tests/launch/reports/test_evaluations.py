"""Reports of an evaluation: of one policy, and of several learners with their average."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from actorlearn.wire.messages import Evaluated
from actorlearn.worker.settings import POLICY_FILE, EvaluatorSettings, LoadSettings, write
from launch.commands import evaluate
from launch.plan.planning import plan
from launch.plan.roles import policy
from launch.reports import evaluations
from launch.runs import find
from launch.topology.load import dump, load
from tests.launch.described import DESCRIPTION
from tests.launch.opened import told
from tests.sizes import ROOT

ONE = Evaluated(policy_version=7, env_steps=1_000, returns=[1.0, 3.0])
SEVERAL = Evaluated(
    policy_version=9,
    env_steps=2_000,
    returns=[4.0, 6.0],
    learners={"trainer-0": 1.0, "trainer-1": 5.5, "trainer-4": 2.5},
)


def test_the_evaluation_of_one_policy_reports_its_mean_score() -> None:
    found = evaluations.event_fields(ONE)
    assert found == {"policy_version": 7, "env_steps": 1_000, "returns": [1.0, 3.0], "mean": 2.0}
    assert evaluations.event_cause(found) == "2.0 over 2 games at 1,000 steps"
    assert evaluations.metrics(found) == {
        "eval_return_mean": 2.0,
        "eval_episodes": 2,
        "eval_env_steps": 1_000,
        "eval_policy_version": 7,
    }


def test_the_score_of_a_secondary_learner_is_reported_with_that_of_the_acting_one() -> None:
    found = evaluations.event_fields(msgspec.structs.replace(ONE, secondary=0.5))
    assert (found["mean"], found["secondary"]) == (2.0, 0.5)
    assert evaluations.event_cause(found) == "2.0 over 2 games at 1,000 steps; secondary learner 0.5"
    row = evaluations.metrics(found)
    assert (row["eval_return_mean"], row["eval_return_secondary"]) == (2.0, 0.5)


def test_an_evaluation_of_several_learners_reports_each_score_the_best_and_the_mean() -> None:
    found = evaluations.event_fields(SEVERAL)
    assert found["learners"] == SEVERAL.learners
    assert (found["mean"], found["best"], found["best_mean"], found["learners_mean"]) == (5.0, "trainer-1", 5.5, 3.0)
    assert evaluations.event_cause(found) == (
        "averaged weights 5.0 over 2 games at 2,000 steps; best trainer-1 5.5, mean 3.0: "
        "trainer-0 1.0, trainer-1 5.5, trainer-4 2.5"
    )
    row = evaluations.metrics(found)
    assert (row["eval_return_mean"], row["eval_return_best"], row["eval_return_learners_mean"]) == (5.0, 5.5, 3.0)


def test_the_best_and_the_last_of_all_evaluations_are_found() -> None:
    means = [(1.0, 3.0), (5.0, 7.0), (6.0, 6.0), (4.0,)]
    told = [
        Evaluated(policy_version=i, env_steps=1_000 * i, returns=list(returns))
        for i, returns in enumerate(means, start=1)
    ]
    events = [{"kind": "evaluated", **evaluations.event_fields(message)} for message in told]
    others = [{"kind": "spawned", "process": "trainer"}, {"kind": "saved", "env_steps": 9}]
    found = evaluations.best_and_last([*others, *events, *others])
    best = {"mean": 6.0, "std": pytest.approx(2**0.5), "episodes": 2, "env_steps": 2_000, "policy_version": 2}
    last = {"mean": 4.0, "std": 0.0, "episodes": 1, "env_steps": 4_000, "policy_version": 4}
    assert found == {"count": 4, "best": best, "last": last}
    assert evaluations.best_and_last_line(found) == (
        "best 6.0 over 2 games at 2,000 steps, last 4.0 over 1 games at 4,000 steps; 4 evaluations"
    )
    assert evaluations.best_and_last(others) == {}
    several = evaluations.best_and_last([{"kind": "evaluated", **evaluations.event_fields(SEVERAL)}])["best"]
    assert (several["mean"], several["best"], several["best_mean"]) == (5.0, "trainer-1", 5.5)


@pytest.mark.parametrize(("name", "epsilon"), [("dqn", 0.05), ("fast-dqn", 0.05), ("c51", 0.001), ("rainbow", 0.0)])
def test_evaluations_use_the_settings_of_the_papers_and_eval_uses_the_same(
    name: str, epsilon: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = load(ROOT / "configs" / "atari" / f"{name}.yaml")
    made = plan(topology, DESCRIPTION)
    during = told(made, "evaluator-0")
    assert isinstance(during, EvaluatorSettings)
    assert (during.policy.algorithm.epsilon_eval, during.greedy, during.every_steps) == (epsilon, False, 250_000)
    assert (during.episodes, during.env.noop_max, during.env.time_limit_steps) == (30, 30, 27_000)

    (tmp_path / "checkpoints" / "1").mkdir(parents=True)
    (tmp_path / "topology.yaml").write_text(dump(topology))
    acting = policy(topology, DESCRIPTION)
    write(LoadSettings(env=topology.env, policy=acting), tmp_path / POLICY_FILE)
    monkeypatch.delattr(evaluate, "describe")  # the environment is not tried
    after = evaluate.settings(find.RunFolder(tmp_path, {}), None, None, None)
    assert (after.episodes, after.greedy, after.fire_after) == (during.episodes, during.greedy, during.fire_after)
    assert (after.env, after.policy) == (during.env, during.policy)
