"""What is said of an evaluation: of one policy, and of several learners with their average."""

from __future__ import annotations

from actorlearn.wire.messages import Evaluated
from launch import evaluations

ONE = Evaluated(name="evaluator-0", policy_version=7, env_steps=1_000, returns=[1.0, 3.0])
SEVERAL = Evaluated(
    name="evaluator-0",
    policy_version=9,
    env_steps=2_000,
    returns=[4.0, 6.0],
    learners={"trainer-0": 1.0, "trainer-1": 5.5, "trainer-4": 2.5},
)


def test_one_policy_has_a_mean() -> None:
    found = evaluations.fields(ONE)
    assert found == {"policy_version": 7, "env_steps": 1_000, "returns": [1.0, 3.0], "mean": 2.0}
    assert evaluations.words(found) == "2.0 over 2 games at 1,000 steps"
    assert evaluations.row(found) == {
        "eval_return_mean": 2.0,
        "eval_episodes": 2,
        "eval_env_steps": 1_000,
        "eval_policy_version": 7,
    }


def test_several_learners_are_told_each_with_the_best_the_mean_and_the_average() -> None:
    found = evaluations.fields(SEVERAL)
    assert found["learners"] == SEVERAL.learners
    assert (found["mean"], found["best"], found["best_mean"], found["learners_mean"]) == (5.0, "trainer-1", 5.5, 3.0)
    assert evaluations.words(found) == (
        "average of the weights 5.0 over 2 games at 2,000 steps; best trainer-1 5.5, mean 3.0: "
        "trainer-0 1.0, trainer-1 5.5, trainer-4 2.5"
    )
    row = evaluations.row(found)
    assert (row["eval_return_mean"], row["eval_return_best"], row["eval_return_learners_mean"]) == (5.0, 5.5, 3.0)
