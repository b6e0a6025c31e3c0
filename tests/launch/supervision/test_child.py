"""One child: the table of its states, and the budget of its restarts."""

from __future__ import annotations

import pytest

from actorlearn.wire.identity import ProcessId
from launch.plan.plan import PlannedProcess
from launch.supervision.child import ALIVE, TRANSITIONS, Child, ChildState, TransitionError, spread
from launch.topology.schema import BUDGET, Budget

RESTARTS, WINDOW_S = BUDGET.restarts, BUDGET.restarts_within_s


def no_jitter(_name: str, _incarnation: int) -> float:
    return 1.0


def die(child: Child, now_s: float) -> float | None:
    delay_s = child.restart_delay_s(now_s, no_jitter)
    child.to(ChildState.FATAL if delay_s is None else ChildState.BACKOFF, now_s)
    return delay_s


def started(now_s: float = 0.0, admitted: bool = True) -> Child:
    child = Child(PlannedProcess(ProcessId("simulator"), 0))
    child.begin(now_s)
    if admitted:
        child.admit(now_s)
    return child


def test_the_table_of_transitions_has_every_state_and_two_final_ones() -> None:
    assert set(TRANSITIONS) == set(ChildState)
    assert {state for state, steps in TRANSITIONS.items() if not steps} == {ChildState.EXITED, ChildState.FATAL}


def test_a_process_exists_only_after_starting() -> None:
    entered = {state for state, steps in TRANSITIONS.items() if state not in ALIVE for _ in steps & ALIVE}
    assert entered == {ChildState.BACKOFF}
    assert TRANSITIONS[ChildState.BACKOFF] & ALIVE == {ChildState.STARTING}


@pytest.mark.parametrize("state", [ChildState.STARTING, ChildState.RUNNING, ChildState.BACKOFF])
def test_an_exited_child_changes_its_state_no_more(state: ChildState) -> None:
    child = started()
    child.to(ChildState.EXITED, 1.0)
    with pytest.raises(TransitionError, match=f"simulator-0.0: exited -> {state}"):
        child.to(state, 2.0)


def test_a_new_incarnation_starts_without_the_state_of_the_last() -> None:
    child = started()
    child.applied, child.killed_for, child.finished, child.pid = 7, "hang", True, 100
    die(child, 1.0)
    assert (child.pid, child.member, child.admitted) == (None, None, False)
    child.begin(2.0)
    assert (child.incarnation, child.applied, child.killed_for, child.finished) == (1, 0, "", False)
    assert child.ever_said_hello
    assert not child.admitted


def test_a_start_postponed_for_want_of_disk_space_costs_no_incarnation_and_no_restart() -> None:
    child = started()
    die(child, 1.0)
    child.begin(2.0)
    assert child.incarnation == 1
    delays = []
    for now_s in range(2, 40):
        child.postpone(now_s, no_jitter)
        assert (child.state, child.incarnation) == (ChildState.BACKOFF, 0)
        delays.append(child.since_s - now_s)
        child.begin(now_s)
    assert (
        delays[:4] == pytest.approx([0.2, 0.4, 0.8, 1.6])
        and max(delays) == delays[-1] == BUDGET.longest_restart_delay_s
    )
    child.admit(40.0)
    assert (child.incarnation, die(child, 40.0)) == (
        1,
        pytest.approx(0.4),
    )  # the second restart, as without the failed starts


def test_a_move_whose_start_fails_for_want_of_disk_space_is_still_no_restart() -> None:
    child = started()
    for now_s in (1.0, 2.0):
        die(child, now_s)
        child.begin(now_s)
        child.admit(now_s)
    child.to(ChildState.BACKOFF, 3.0)
    child.moved = True
    for _ in range(3):
        child.begin(4.0)
        child.postpone(4.0, no_jitter)
        assert child.moved and child.incarnation == 2
    child.begin(5.0)
    child.admit(5.0)
    assert (child.incarnation, die(child, 6.0)) == (3, pytest.approx(0.8))  # the third restart: two came before


def test_restart_delays_double() -> None:
    child, now_s, delays = started(), 0.0, []
    for _ in range(RESTARTS):
        delays.append(die(child, now_s))
        child.begin(now_s)
        child.admit(now_s)
        now_s += 1.0
    assert delays == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2])


def test_the_sixth_death_in_the_window_is_the_last() -> None:
    child = started()
    for i in range(RESTARTS):
        assert die(child, float(i)) is not None
        child.begin(float(i))
        child.admit(float(i))
    assert die(child, WINDOW_S - 0.5) is None
    assert child.state is ChildState.FATAL


def test_the_restart_budget_recovers_with_time() -> None:
    child, now_s = started(), 0.0
    for _ in range(4 * RESTARTS):
        assert die(child, now_s) is not None
        child.begin(now_s)
        child.admit(now_s)
        now_s += WINDOW_S / RESTARTS + 0.1


def test_deaths_before_a_hello_are_counted_without_a_time_window() -> None:
    child, now_s = started(admitted=False), 0.0
    for _ in range(RESTARTS):
        assert die(child, now_s) is not None
        now_s += WINDOW_S
        child.begin(now_s)
    assert die(child, now_s) is None


def test_only_a_trainer_needs_checkpoints_for_its_restarts() -> None:
    for role, fatal in (("trainer", True), ("simulator", False)):
        child = Child(PlannedProcess(ProcessId(role), 0))
        child.begin(0.0)
        child.admit(0.0)
        child.saved(100)
        for i in range(1, BUDGET.unsaved_restarts + 1):
            assert die(child, i * WINDOW_S) is not None
            child.begin(i * WINDOW_S)
            child.admit(i * WINDOW_S)
        assert (die(child, 10 * WINDOW_S) is None) is fatal


def test_the_number_of_restarts_is_that_of_the_given_budget() -> None:
    often = Budget(
        restarts=1000,
        restarts_within_s=3600.0,
        unsaved_restarts=1000,
        restart_delay_s=0.0,
        longest_restart_delay_s=0.0,
    )
    trainer = Child(PlannedProcess(ProcessId("trainer"), 0), budget=often)
    trainer.begin(0.0)
    for i in range(often.restarts):
        trainer.admit(float(i))
        assert die(trainer, float(i)) == 0.0
        trainer.begin(float(i))
    assert die(trainer, 1000.0) is None
    once = Child(PlannedProcess(ProcessId("simulator"), 0), budget=Budget(restarts=0))
    once.begin(0.0)
    once.admit(0.0)
    assert die(once, 1.0) is None


def test_the_first_error_of_a_series_of_deaths_is_kept() -> None:
    child = started()
    child.failed("KeyError: 'a'", 0.0)
    die(child, 0.0)
    child.begin(0.0)
    child.failed("KeyError: 'b'", 1.0)
    assert child.error == "KeyError: 'a'"
    child.failed("KeyError: 'c'", WINDOW_S + 1.0)
    assert child.error == "KeyError: 'c'"


def test_jitter_is_spread_and_reproducible() -> None:
    factors = [spread(f"simulator-{i}", 3) for i in range(200)]
    assert min(factors) >= 0.8
    assert max(factors) <= 1.2
    assert max(factors) - min(factors) > 0.3
    assert spread("simulator-7", 3) == factors[7]
