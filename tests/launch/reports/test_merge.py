"""Rows of several learners: what is counted once, added up, weighed and averaged."""

from __future__ import annotations

from launch.reports.merge import LearnerRows, merge, merge_rows

A = {"time_s": 2.0, "env_steps": 100, "env_steps_per_s": 30.0, "episodes": 300, "episode_return_mean": 1.0, "loss": 2.0}
B = {"time_s": 2.5, "env_steps": 110, "env_steps_per_s": 10.0, "episodes": 90, "episode_return_mean": 4.0, "loss": 4.0}
A["episodes_in_mean"], B["episodes_in_mean"] = 100, 50  # B resumed with another environment after 40 games


def test_one_learners_row_is_the_row() -> None:
    assert merge_rows({"trainer": A}) == A
    assert LearnerRows(1.0).add("trainer", A, 0.0) == A


def test_totals_are_counted_once_rates_are_added_and_games_weigh() -> None:
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


def test_a_mean_of_no_games_weighs_nothing() -> None:
    row = merge_rows(
        {"trainer-0": {**A, "episodes": 0, "episodes_in_mean": 0, "episode_return_mean": None}, "trainer-1": B}
    )
    assert row["episode_return_mean"] == 4.0


def test_learners_that_name_different_stragglers_do_not_name_a_third() -> None:
    saw = [{"straggler": rank, "straggler_share": share} for rank, share in ((2, 0.75), (0, 0.25), (2, 0.5))]
    row = merge_rows({f"trainer-{number}": {**A, **said} for number, said in enumerate(saw)})
    assert (row["straggler"], row["straggler_share"]) == (2, 0.75)


def test_servers_make_one_row_of_all_of_them() -> None:
    saw = [{"staleness_0": 0.5, "staleness_1": 0.5, "straggler": 3}, {"staleness_0": 1.0, "straggler": 1}]
    assert merge(saw) == {"staleness_0": 0.75, "staleness_1": 0.5, "straggler": 3}
    assert merge([]) == {}


def test_a_row_is_given_by_the_first_learner_that_speaks() -> None:
    rows = LearnerRows(1.0)
    assert rows.add("trainer-1", B, 0.0) is not None  # alone so far
    assert rows.add("trainer-0", A, 0.5) is not None
    assert rows.add("trainer-1", B, 1.0) is None


def test_what_was_said_after_the_last_merged_row_remains_to_be_merged() -> None:
    rows = LearnerRows(1.0)
    assert rows.merge_rest() is None
    rows.add("trainer-0", A, 0.0)
    assert rows.merge_rest() is None
    rows.add("trainer-1", B, 0.2)
    row = rows.merge_rest()
    assert row is not None
    assert (row["env_steps"], row["env_steps_per_s"]) == (110, 40.0), "rates too, however late it is asked for"
    assert rows.merge_rest() is None


def test_what_learners_said_remains_when_all_of_them_have_left() -> None:
    rows = LearnerRows(1.0)
    rows.add("trainer-0", A, 0.0)
    rows.add("trainer-1", B, 0.2)
    rows.leave("trainer-0")
    rows.leave("trainer-1")
    row = rows.merge_rest()
    assert row is not None
    assert (row["env_steps"], row["episodes"]) == (110, 390)


def test_of_a_silent_learner_only_the_totals_count() -> None:
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
    assert last is not None and last["env_steps_per_s"] == 30.0, "three of its own intervals without a row"


def test_of_a_learner_that_has_left_only_the_totals_go_on() -> None:
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
    rows.leave("simulator-0")  # has never had a row


def test_totals_never_fall_whoever_comes_and_goes() -> None:
    rows, said = LearnerRows(1.0), []
    for step, name in enumerate(("trainer-0", "trainer-1", "trainer-0", "trainer-2", "trainer-1", "trainer-2")):
        said.append(rows.add(name, {**A, "env_steps": 100 + step, "episodes": 10 + step}, step / 4))
        if step in (2, 4):
            rows.leave(name)
    given = [row for row in said if row is not None]
    assert [row["episodes"] for row in given] == [10, 12 + 11, 12 + 14 + 13, 12 + 14 + 15]
    for key in ("env_steps", "episodes"):
        assert [row[key] for row in given] == sorted(row[key] for row in given)


def test_what_nobody_registered_is_averaged_and_what_is_no_number_is_the_first_ones() -> None:
    told = {"mine": 1.0, "device": "cpu", "gradient_cosine": {"0-1": 0.5}}
    row = merge_rows({"trainer-0": {**A, **told}, "trainer-1": {**B, "mine": 4.0, "device": "cuda", "only_here": 3.0}})
    assert (row["mine"], row["device"], row["gradient_cosine"], row["only_here"]) == (2.5, "cpu", {"0-1": 0.5}, 3.0)


def test_the_steps_of_learners_that_know_little_of_each_other_are_added_up() -> None:
    own = {"frames": 400, "steps_used": 70, "dropped_not_finite": 5}
    row = merge_rows({"trainer-0": {**A, **own}, "trainer-1": {**B, **own, "frames": 440}})
    assert (row["env_steps"], row["frames"]) == (150, 600)
    assert merge_rows({"trainer-1": {**B, **own, "frames": 440}}, [{**A, **own}])["env_steps"] == 150
    assert merge_rows({"trainer-0": {**A, **own, "steps_used": 20}, "trainer-1": {**B, **own}})["env_steps"] == 110
