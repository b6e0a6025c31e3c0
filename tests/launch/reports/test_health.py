"""Rules that say when learning is ill: each fires on an ill history, and none on a healthy one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from actorlearn.algorithms.sac import SAC
from launch.reports.health import BY_NAME, REPORTS, RULES, WELL_REPORTS, Facts, Health, Past, names_in, remedy_of
from tests import named

TOPOLOGY = {
    "total_steps": 1_000_000,
    "optimizer": {"clip_norm": 0.5, "learning_rate": 1e-3},
    "algorithm": {"name": "ppo", "epochs": 4, "minibatches": 4, "reward_clip": 1.0, "discount": 0.99},
}
FACTS = Facts.of(TOPOLOGY)
HEALTHY = {
    **{"episode_return_mean": 10.0, "episodes": 50, "learning_rate": 1e-3, "entropy": 0.6, "entropy_share": 0.9},
    **{"divergence": 0.01, "clipped_share": 0.1, "effective_sample_size": 0.98, "explained_variance": 0.5},
    **{"value_mean": 5.0, "gradient_norm": 2.0, "dead_units": 0.1, "rewards_nonzero": 0.1, "weights_change": 1e-3},
    **{"observations_constant": 0.2, "inputs_largest": 3.0},
}
ILL: dict[str, list[dict[str, Any]]] = {
    "policy collapsed": [{"entropy_share": 0.001}],
    "updates too large": [{"divergence": 2.0}, {"clipped_share": 0.9}, {"effective_sample_size": 0.01}],
    "updates without effect": [{"divergence": 1e-9}, {"weights_change": 0.0}],
    "values explain nothing": [{"explained_variance": -0.5}],
    "values too large": [{"value_mean": 500.0}, {"q_mean": -500.0}],
    "gradients far above clip_norm": [{"gradient_norm": 1e4}],
    "dead units": [{"dead_units": 1.0}],
    "rewards always 0": [{"rewards_nonzero": 0.0}],
    "observations constant": [{"observations_constant": 1.0}],
    "observations huge": [{"inputs_largest": 1e6}],
    "no game finished": [{"episodes": 0}],
}
EACH = [pytest.param(name, changed, id=f"{name}: {next(iter(changed))}") for name in ILL for changed in ILL[name]]


def rows(changed: Mapping[str, Any], count: int = 100, updates: int = 50, start: int = 0) -> Iterator[dict[str, Any]]:
    for number in range(start + 1, start + count + 1):
        counted = {"updates": updates * number, "env_steps": 10_000 * number, "time_s": 2.0 * number}
        yield {**HEALTHY, **counted, **changed}


def fired(changed: Mapping[str, Any], facts: Facts = FACTS, count: int = 100) -> set[str]:
    health = Health(facts)
    return {change.rule.name for row in rows(changed, count) for change in health.add(row)}


def test_no_rule_fires_on_a_healthy_history() -> None:
    assert fired({}) == set()


def test_every_rule_has_an_ill_history() -> None:
    assert ILL.keys() == BY_NAME.keys() and len(BY_NAME) == len(RULES)


@pytest.mark.parametrize(("name", "changed"), EACH)
def test_a_rule_fires_and_says_what_to_try(name: str, changed: dict[str, Any]) -> None:
    health = Health(FACTS)
    changes = [change for row in rows(changed) for change in health.add(row)]
    assert [(change.rule.name, change.ill) for change in changes] == [(name, True)]
    assert changes[0].says and "\n" not in changes[0].says + changes[0].rule.remedy
    assert health.ill() == [name] and remedy_of(name) == changes[0].rule.remedy


@pytest.mark.parametrize(("name", "changed"), EACH)
def test_a_rule_without_its_metric_is_silent(name: str, changed: dict[str, Any]) -> None:
    assert fired(dict.fromkeys(changed)) == set()


@pytest.mark.parametrize(("name", "changed"), EACH)
def test_a_rule_fires_only_after_enough_reports_and_updates(name: str, changed: dict[str, Any]) -> None:
    assert fired(changed, count=REPORTS - 1) == set()
    health, needed = (
        Health(Facts.of({**TOPOLOGY, "algorithm": {**TOPOLOGY["algorithm"], "epochs": 1, "minibatches": 2}})),
        0,
    )
    for row in rows(changed, 2 * BY_NAME[name].steps, updates=1, start=500):
        if health.add(row):
            break
        needed += 1
    assert 2 * needed >= BY_NAME[name].steps


def test_a_rule_stops_firing_after_some_healthy_reports() -> None:
    health = Health(FACTS)
    for row in rows({"divergence": 2.0}, 20):
        health.add(row)
    changes = [(place, change) for place, row in enumerate(rows({}, 20, start=20), 1) for change in health.add(row)]
    assert [(place, change.rule.name, change.ill) for place, change in changes] == [
        (WELL_REPORTS, "updates too large", False)
    ]
    assert health.ill() == []


def test_reports_without_a_new_update_do_not_count() -> None:
    health = Health(FACTS)
    for updates in (0, 7):
        for row in rows({"dead_units": 1.0}):
            assert not health.add({**row, "updates": updates})


def test_single_bad_reports_between_good_ones_fire_no_rule() -> None:
    health = Health(FACTS)
    for place, row in enumerate(rows({})):
        assert not health.add({**row, "divergence": 2.0} if place % 3 == 0 else row)


@pytest.mark.parametrize("name", [rule.name for rule in RULES if rule.unless_it_learns])
def test_rules_that_learning_suspends_fire_only_when_the_score_has_fallen_back(name: str) -> None:
    health = Health(FACTS)
    for place, row in enumerate(rows(ILL[name][0])):
        assert not health.add({**row, "episode_return_mean": 10.0 + 5.0 * place}) or place < REPORTS
    for row in rows(ILL[name][0], start=100):  # the score has fallen back
        health.add({**row, "episode_return_mean": 11.0})
    assert health.ill() == [name]


def test_the_mean_of_the_first_games_after_a_change_of_the_environment_is_ignored() -> None:
    past = Past().with_row({"episode_return_mean": 1.0, "episodes": 3_000, "episodes_in_mean": 1})
    assert (past.lowest, past.best) == (None, None)
    past = past.with_row({"episode_return_mean": 9.0, "episodes": 3_100, "episodes_in_mean": 100})
    assert (past.lowest, past.best) == (9.0, 9.0)


def test_scores_and_rewards_of_the_previous_environment_are_forgotten() -> None:
    before = {"episode_return_mean": 1.0, "episodes_in_mean": 100, "rewards_nonzero": 0.5}
    past = Past().with_row(before).with_row({**before, "env_changes": 1, "episodes_in_mean": 1, "rewards_nonzero": 0.0})
    assert (past.lowest, past.best, past.rewarded) == (None, None, False)
    score = {"env_changes": 1, "episode_return_mean": 90.0, "episodes_in_mean": 100}
    assert not past.with_row(score).learns(score)


def test_small_updates_at_the_end_of_the_schedule_fire_no_rule() -> None:
    assert fired({"divergence": 1e-9, "weights_change": 1e-8, "learning_rate": 1e-5}) == set()


def test_zero_divergence_fires_no_rule_if_a_rollout_has_one_optimizer_step() -> None:
    algorithm = {**TOPOLOGY["algorithm"], "epochs": 1, "minibatches": 1}
    assert fired({"divergence": 0.0}, Facts.of({**TOPOLOGY, "algorithm": algorithm})) == set()


def test_one_report_with_rewards_silences_the_rule_about_rewards() -> None:
    health = Health(FACTS)
    for place, row in enumerate(rows({"rewards_nonzero": 0.0})):
        assert not health.add({**row, "rewards_nonzero": 0.01} if place == 3 else row)


def test_a_large_clipped_share_without_a_divergence_as_of_impala_fires_no_rule() -> None:
    assert fired({"divergence": None, "clipped_share": 0.9}) == set()


class OwnSAC(SAC):
    """A user's algorithm, with a key of its own."""

    class Settings(SAC.Settings, frozen=True, kw_only=True):
        extra: float = 0.1


@pytest.mark.parametrize(
    "changed",
    [
        msgspec.to_builtins(named.algorithm(name="sac", reward_clip=1.0)),
        msgspec.to_builtins(named.algorithm(name=f"{__name__}:OwnSAC", reward_clip=1.0)),
        {"normalize_reward": True},
        {"reward_clip": None},
        {"discount": 1},
    ],
)
def test_values_without_a_bound_are_never_too_large(changed: dict[str, Any]) -> None:
    algorithm = {**TOPOLOGY["algorithm"], **changed}
    assert fired({"value_mean": 1e9}, Facts.of({**TOPOLOGY, "algorithm": algorithm})) == set()


def test_learners_are_judged_one_by_one() -> None:
    health, changes = Health(FACTS), []
    for row in rows({}):
        changes += health.add({**row, "learners": {"trainer-0": {}, "trainer-1": {"entropy_share": 0.0}}})
    assert [(change.learner, change.rule.name) for change in changes] == [("trainer-1", "policy collapsed")]
    assert health.ill() == ["trainer-1: policy collapsed"]
    assert remedy_of(health.ill()[0]) == BY_NAME["policy collapsed"].remedy
    health.add({**next(rows({}, start=100)), "learners": {"trainer-0": {}}})
    assert health.ill() == []


def test_a_trainer_that_was_restored_is_judged_anew() -> None:
    health = Health(FACTS)
    for row in rows({"dead_units": 1.0}, REPORTS - 1, start=50):
        assert not health.add(row)
    for row in rows({"dead_units": 1.0}, REPORTS - 1):
        assert not health.add(row)


@pytest.mark.parametrize("topology", [{}, {"optimizer": 3, "algorithm": [], "total_steps": "x"}])
def test_a_topology_with_missing_or_wrong_keys_raises_nothing(topology: dict[str, Any]) -> None:
    facts = Facts.of(topology)
    assert facts == Facts() and fired({}, facts) == set()
    assert fired({"dead_units": 1.0}, facts) == {"dead units"}


@pytest.mark.parametrize("value", ["text", None, [], {}, float("nan"), 1e300])
def test_rows_with_values_of_any_type_raise_nothing(value: object) -> None:
    health = Health(FACTS)
    for row in rows(dict.fromkeys(HEALTHY, value)):
        assert not health.add(row)
    assert names_in({"health": value}) == []
