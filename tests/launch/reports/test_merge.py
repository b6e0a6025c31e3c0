"""Metric rows of several learners: which values are counted once, summed, weighted or averaged."""

from __future__ import annotations

from launch.reports.merge import LearnerRows, merge, merge_rows

A = {"time_s": 2.0, "env_steps": 100, "env_steps_per_s": 30.0, "episodes": 300, "episode_return_mean": 1.0, "loss": 2.0}
B = {"time_s": 2.5, "env_steps": 110, "env_steps_per_s": 10.0, "episodes": 90, "episode_return_mean": 4.0, "loss": 4.0}
A["episodes_in_mean"], B["episodes_in_mean"] = 100, 50  # B resumed with another environment after 40 games


def test_the_row_of_a_single_learner_is_unchanged() -> None:
    assert merge_rows({"trainer": A}) == A
    assert LearnerRows(1.0).add("trainer", A, 0.0) == A


def test_totals_are_counted_once_rates_summed_and_mean_returns_weighted_by_games() -> None:
    row = merge_rows({"trainer-0": A, "trainer-1": B})
    assert (row["time_s"], row["env_steps"], row["env_steps_per_s"], row["episodes"]) == (2.5, 110, 40.0, 390)
    assert row["episode_return_mean"] == (100 * 1.0 + 50 * 4.0) / 150
    assert row["episodes_in_mean"] == 150
    assert row["loss"] == 3.0
    assert row["learners"]["trainer-1"] == {
        "env_steps_per_s": 10.0,
        "episode_return_mean": 4.0,
        "episodes": 90,
        "episodes_in_mean": 50,
    }


def test_a_mean_return_over_no_games_has_no_weight() -> None:
    row = merge_rows(
        {"trainer-0": {**A, "episodes": 0, "episodes_in_mean": 0, "episode_return_mean": None}, "trainer-1": B}
    )
    assert row["episode_return_mean"] == 4.0


def test_the_merged_straggler_is_one_that_a_learner_has_named() -> None:
    saw = [{"straggler": rank, "straggler_share": share} for rank, share in ((2, 0.75), (0, 0.25), (2, 0.5))]
    row = merge_rows({f"trainer-{number}": {**A, **said} for number, said in enumerate(saw)})
    assert (row["straggler"], row["straggler_share"]) == (2, 0.75)


def test_rows_of_parameter_servers_are_merged_into_one() -> None:
    saw = [{"staleness_0": 0.5, "staleness_1": 0.5, "straggler": 3}, {"staleness_0": 1.0, "straggler": 1}]
    assert merge(saw) == {"staleness_0": 0.75, "staleness_1": 0.5, "straggler": 3}
    assert merge([]) == {}


def test_merged_rows_come_with_the_reports_of_the_first_learner() -> None:
    rows = LearnerRows(1.0)
    assert rows.add("trainer-1", B, 0.0) is not None  # the only learner so far
    assert rows.add("trainer-0", A, 0.5) is not None
    assert rows.add("trainer-1", B, 1.0) is None


def test_rows_after_the_last_merged_row_can_be_merged_at_the_end() -> None:
    rows = LearnerRows(1.0)
    assert rows.merge_rest() is None
    rows.add("trainer-0", A, 0.0)
    assert rows.merge_rest() is None
    rows.add("trainer-1", B, 0.2)
    row = rows.merge_rest()
    assert row is not None
    assert (row["env_steps"], row["env_steps_per_s"]) == (110, 40.0), "rates are included, however late the merge is"
    assert rows.merge_rest() is None


def test_the_remaining_rows_can_be_merged_after_all_learners_have_left() -> None:
    rows = LearnerRows(1.0)
    rows.add("trainer-0", A, 0.0)
    rows.add("trainer-1", B, 0.2)
    rows.leave("trainer-0")
    rows.leave("trainer-1")
    row = rows.merge_rest()
    assert row is not None
    assert (row["env_steps"], row["episodes"]) == (110, 390)


def test_a_silent_learner_contributes_only_its_totals() -> None:
    rows = LearnerRows(1.0)
    rows.add("trainer-0", A, 0.0)
    rows.add("trainer-1", B, 0.0)
    row = rows.add("trainer-1", B, 9.0)
    assert row is not None
    assert (row["env_steps_per_s"], row["episodes"]) == (10.0, 390)
    assert (row["episode_return_mean"], row["episodes_in_mean"], row["loss"]) == (4.0, 50, 4.0)


def test_learners_whose_updates_take_longer_than_a_report_are_not_silent() -> None:
    rows, given = LearnerRows(2.0), []
    for cycle in range(4):
        given.append(rows.add("trainer-0", A, 10.0 * cycle))
        rows.add("trainer-1", B, 10.0 * cycle + 0.01)
    assert [row["env_steps_per_s"] for row in given[2:] if row] == [40.0] * 2
    assert given[-1] is not None and given[-1]["episodes"] == 390
    rows.add("trainer-0", A, 40.0)
    last = rows.add("trainer-0", A, 61.0)
    assert last is not None and last["env_steps_per_s"] == 30.0, (
        "trainer-1 sent no row for more than three of its intervals"
    )


def test_the_time_until_a_restarted_trainer_reports_does_not_count_as_an_interval_of_its_rows() -> None:
    rows = LearnerRows(2.0)
    for second in range(0, 640, 2):
        if second <= 10 or 600 <= second <= 610:
            rows.add("trainer-0", A, float(second), int(second > 10))
        merged = rows.add("trainer-1", B, second + 0.01)
    assert merged is not None and merged["episode_return_mean"] == B["episode_return_mean"]


def test_a_learner_with_long_updates_counts_also_between_its_first_reports_after_a_restart() -> None:
    rows, merged = LearnerRows(2.0), {}
    for second in range(0, 240, 2):
        if second % 20 == 0:
            rows.add("trainer-1", B, float(second), int(second >= 200))
        row = rows.add("trainer-0", A, second + 0.01)
        assert row is not None
        merged[second] = row["env_steps_per_s"]
    assert merged[198] == merged[210] == A["env_steps_per_s"] + B["env_steps_per_s"]
    assert {merged[second] for second in range(100, 240, 2)} == {40.0}


def test_learners_of_a_resumed_run_count_from_their_checkpoints_until_they_report() -> None:
    saved = {name: {**row, "env_steps_per_s": None} for name, row in (("trainer-0", A), ("trainer-1", B))}
    rows = LearnerRows(1.0, rows=saved)
    assert rows.merge_rest() is None, "no learner has reported"
    row = rows.add("trainer-1", {**B, "episodes": 91}, 100.0)
    assert row is not None, "trainer-0, which has not reported, does not delay the first row"
    assert (row["episodes"], row["episodes_in_mean"], row["episode_return_mean"]) == (391, 150, 2.0)
    assert row["env_steps_per_s"] == B["env_steps_per_s"]
    row = rows.add("trainer-0", {**A, "episodes": 302}, 101.0)
    assert row is not None and row["episodes"] == 393
    assert rows.add("trainer-1", B, 102.0) is None


def test_a_learner_of_a_resumed_run_that_never_reports_contributes_only_its_totals() -> None:
    rows = LearnerRows(1.0, rows={"trainer-0": A, "trainer-1": B})
    assert [rows.add("trainer-1", B, second) is not None for second in (100.0, 101.0, 102.0)] == [True] * 3
    row = rows.add("trainer-1", B, 104.0)
    assert row is not None and (row["episodes"], row["episodes_in_mean"]) == (390, 50)
    rows.leave("trainer-0")
    row = rows.add("trainer-1", B, 105.0)
    assert row is not None and (row["episodes"], row["episodes_in_mean"]) == (390, 50)


def test_a_learner_that_leaves_a_resumed_run_before_any_report_contributes_its_totals() -> None:
    rows = LearnerRows(1.0, rows={"trainer-0": A, "trainer-1": B})
    rows.leave("trainer-0")
    row = rows.add("trainer-1", B, 100.0)
    assert row is not None and (row["episodes"], row["episodes_in_mean"]) == (390, 50)


def test_a_learner_that_has_left_contributes_only_its_totals() -> None:
    rows = LearnerRows(1.0)
    rows.add("trainer-0", B, 0.0)
    rows.add("trainer-1", A, 0.5)
    rows.leave("trainer-0")
    assert rows.add("trainer-1", {**A, "env_steps": 105}, 1.0) == {
        **A,
        "time_s": 2.5,
        "env_steps": 110,
        "episodes": 390,
    }
    row = rows.add("trainer-1", {**A, "time_s": 3.0, "env_steps": 120, "episodes": 301}, 1.5)
    assert row == {**A, "time_s": 3.0, "env_steps": 120, "episodes": 391}
    rows.leave("simulator-0")  # it has sent no row


def test_totals_never_fall_when_learners_join_and_leave() -> None:
    rows, said = LearnerRows(1.0), []
    for step, name in enumerate(("trainer-0", "trainer-1", "trainer-0", "trainer-2", "trainer-1", "trainer-2")):
        said.append(rows.add(name, {**A, "env_steps": 100 + step, "episodes": 10 + step}, step / 4))
        if step in (2, 4):
            rows.leave(name)
    given = [row for row in said if row is not None]
    assert [row["episodes"] for row in given] == [10, 12 + 11, 12 + 14 + 13, 12 + 14 + 15]
    for key in ("env_steps", "episodes"):
        assert [row[key] for row in given] == sorted(row[key] for row in given)


def test_unregistered_numbers_are_averaged_and_other_values_are_the_first_learners() -> None:
    told = {"mine": 1.0, "device": "cpu", "gradient_cosine": {"0-1": 0.5}}
    row = merge_rows({"trainer-0": {**A, **told}, "trainer-1": {**B, "mine": 4.0, "device": "cuda", "only_here": 3.0}})
    assert (row["mine"], row["device"], row["gradient_cosine"], row["only_here"]) == (2.5, "cpu", {"0-1": 0.5}, 3.0)


def test_env_steps_are_at_least_the_sum_of_the_steps_that_learners_used() -> None:
    own = {"frames": 400, "steps_used": 70, "dropped_not_finite": 5}
    row = merge_rows({"trainer-0": {**A, **own}, "trainer-1": {**B, **own, "frames": 440}})
    assert (row["env_steps"], row["frames"]) == (150, 600)
    assert merge_rows({"trainer-1": {**B, **own, "frames": 440}}, [{**A, **own}])["env_steps"] == 150
    assert merge_rows({"trainer-0": {**A, **own, "steps_used": 20}, "trainer-1": {**B, **own}})["env_steps"] == 110
