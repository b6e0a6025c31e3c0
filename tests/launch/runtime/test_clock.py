"""The clock, and shares of time on arrays written by hand: no process."""

import time

import numpy as np
import pytest

from actorlearn.metrics.registry import SIMULATION_LIMIT_SHARE
from actorlearn.metrics.timings import SECTIONS
from launch.runtime.clock import GAP_S, AwakeClock, TimeShares


def test_the_clock_stands_still_while_we_could_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, really = AwakeClock(), time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: really() + 3600.0)  # an hour of suspension
    now_s, gap_s = clock.advance()
    assert now_s == gap_s == GAP_S
    now_s_after, gap_s = clock.advance()
    assert gap_s == 0.0 and now_s_after - now_s < 1.0


def test_shares_are_of_the_time_since_the_last_look() -> None:
    section_ns = np.zeros((4, 8), np.int64)
    shares = TimeShares(section_ns)
    section_ns[0, SECTIONS.index("learn")] = 300
    section_ns[0, SECTIONS.index("wait")] = 100
    assert shares.together([0])["share_learn"] == 0.75
    section_ns[0, SECTIONS.index("wait")] += 50
    assert shares.together([0]) == {f"share_{name}": float(name == "wait") for name in SECTIONS}
    assert shares.together([0]) == {}


def test_simulators_that_do_nothing_else_are_at_the_limit() -> None:
    section_ns = np.zeros((4, 8), np.int64)
    shares = TimeShares(section_ns)
    section_ns[1:3, SECTIONS.index("simulate")] = (100, 50)
    section_ns[1:3, SECTIONS.index("wait")] = (0, 50)
    section_ns[0, SECTIONS.index("learn")] = 1000
    counted = shares.together([0, 1, 2], [1, 2])
    assert counted[SIMULATION_LIMIT_SHARE] == 0.75 and counted["share_learn"] == pytest.approx(1000 / 1200)
    section_ns[0, SECTIONS.index("learn")] += 10
    assert SIMULATION_LIMIT_SHARE not in shares.together([0, 1, 2], [1, 2]), "nothing was counted of simulators"


def test_a_restarted_process_counts_from_its_beginning() -> None:
    section_ns = np.zeros((4, 8), np.int64)
    shares = TimeShares(section_ns)
    section_ns[1, :2] = (900, 100)
    assert shares.busy()[1] == 1.0
    section_ns[1] = 0
    section_ns[1, SECTIONS.index("infer")] = 10
    section_ns[1, SECTIONS.index("wait")] = 30
    busy = shares.busy()
    assert busy[1] == 0.25 and busy[0] is None
