"""The supervisor's clock, and the shares of time that processes spend in their sections."""

import time

import numpy as np
import pytest

from actorlearn.metrics.registry import SIMULATION_LIMIT_SHARE
from actorlearn.metrics.timings import SECTIONS
from launch.runtime.clock import GAP_S, AwakeClock, TimeShares


def test_the_clock_stops_while_the_process_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, really = AwakeClock(), time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: really() + 3600.0)  # an hour of suspension
    now_s, gap_s = clock.advance()
    assert now_s == gap_s == GAP_S
    now_s_after, gap_s = clock.advance()
    assert gap_s == 0.0 and now_s_after - now_s < 1.0


def test_shares_cover_the_time_since_the_last_look() -> None:
    section_ns = np.zeros((4, 8), np.int64)
    shares = TimeShares(section_ns)
    section_ns[0, SECTIONS.index("learn")] = 300
    section_ns[0, SECTIONS.index("wait")] = 100
    assert shares.together([0])["share_learn"] == 0.75
    section_ns[0, SECTIONS.index("wait")] += 50
    assert shares.together([0]) == {f"share_{name}": float(name == "wait") for name in SECTIONS}
    assert shares.together([0]) == {}


def test_the_simulation_limit_is_the_share_of_their_time_that_simulators_simulate() -> None:
    section_ns = np.zeros((4, 8), np.int64)
    shares = TimeShares(section_ns)
    section_ns[1:3, SECTIONS.index("simulate")] = (100, 50)
    section_ns[1:3, SECTIONS.index("wait")] = (0, 50)
    section_ns[0, SECTIONS.index("learn")] = 1000
    counted = shares.together([0, 1, 2], [1, 2])
    assert counted[SIMULATION_LIMIT_SHARE] == 0.75 and counted["share_learn"] == pytest.approx(1000 / 1200)
    section_ns[0, SECTIONS.index("learn")] += 10
    assert SIMULATION_LIMIT_SHARE not in shares.together([0, 1, 2], [1, 2]), (
        "the times of the simulators have not changed"
    )


def test_the_shares_of_a_restarted_process_start_from_zero() -> None:
    section_ns = np.zeros((4, 8), np.int64)
    shares = TimeShares(section_ns)
    section_ns[1, :2] = (900, 100)
    assert shares.busy()[1] == 1.0
    section_ns[1] = 0
    section_ns[1, SECTIONS.index("infer")] = 10
    section_ns[1, SECTIONS.index("wait")] = 30
    busy = shares.busy()
    assert busy[1] == 0.25 and busy[0] is None
