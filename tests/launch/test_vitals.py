"""Signs of life on arrays and times written by hand: no clock, no process."""

import numpy as np

from actorlearn.metrics.timings import SECTIONS
from launch.vitals import AwakeClock, Beats, Shares

LIMITS_S = {"simulator": 10.0}
ONE = [("simulator-0", 0, "simulator", 3)]


def test_who_beats_is_never_silent() -> None:
    beat_ns = np.zeros((8, 8), np.int64)
    beats = Beats(beat_ns, LIMITS_S)
    for now_s in range(100):
        beat_ns[3, 0] += 1
        assert beats.silent(ONE, float(now_s)) == []


def test_silence_over_the_limit_is_named_with_its_length() -> None:
    beats = Beats(np.zeros((8, 8), np.int64), LIMITS_S)
    assert beats.silent(ONE, 0.0) == []
    assert beats.silent(ONE, 10.0) == []
    assert beats.silent(ONE, 10.5) == [("simulator-0", 0, 10.5)]


def test_a_slow_but_healthy_loop_earns_patience() -> None:
    beat_ns = np.zeros((8, 8), np.int64)
    beats = Beats(beat_ns, LIMITS_S)
    beats.silent(ONE, 0.0)
    beat_ns[3, 0] = 1
    beats.silent(ONE, 9.0)  # a pause of 9 s that ended well
    assert beats.silent(ONE, 9.0 + 44.0) == []
    assert beats.silent(ONE, 9.0 + 46.0) == [("simulator-0", 0, 46.0)]


def test_a_new_incarnation_begins_with_a_fresh_allowance() -> None:
    beats = Beats(np.zeros((8, 8), np.int64), LIMITS_S)
    beats.silent(ONE, 0.0)
    again = [("simulator-0", 1, "simulator", 3)]
    assert beats.silent(again, 50.0) == []
    assert beats.silent(again, 61.0) == [("simulator-0", 1, 11.0)]


def test_after_a_gap_of_our_own_nobody_is_blamed() -> None:
    beats = Beats(np.zeros((8, 8), np.int64), LIMITS_S)
    beats.silent(ONE, 0.0)
    beats.forgive(60.0)
    assert beats.silent(ONE, 69.0) == []


def test_the_clock_stands_still_while_we_could_not_run() -> None:
    clock = AwakeClock()
    clock._last_s -= 3600.0  # an hour of suspension
    now_s, gap = clock.advance()
    assert gap and now_s <= 1.1
    now_s_after, gap = clock.advance()
    assert not gap and now_s_after - now_s < 1.0


def test_shares_are_of_the_time_since_the_last_look() -> None:
    section_ns = np.zeros((4, 8), np.int64)
    shares = Shares(section_ns)
    section_ns[0, SECTIONS.index("learn")] = 300
    section_ns[0, SECTIONS.index("wait")] = 100
    assert shares.of_all([0])["share_learn"] == 0.75
    section_ns[0, SECTIONS.index("wait")] += 50
    assert shares.of_all([0]) == {f"share_{name}": float(name == "wait") for name in SECTIONS}
    assert shares.of_all([0]) == {}


def test_a_restarted_process_counts_from_its_beginning() -> None:
    section_ns = np.zeros((4, 8), np.int64)
    shares = Shares(section_ns)
    section_ns[1, :2] = (900, 100)
    assert shares.busy()[1] == 1.0
    section_ns[1] = 0
    section_ns[1, SECTIONS.index("infer")] = 10
    section_ns[1, SECTIONS.index("wait")] = 30
    busy = shares.busy()
    assert busy[1] == 0.25 and busy[0] is None
