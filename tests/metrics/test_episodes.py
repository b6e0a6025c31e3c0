"""Scores of whole games against a slow count over a flat list of rows."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.metrics.episodes import Episodes
from actorlearn.metrics.timings import SECTIONS, Timings, shares


@given(st.integers(1, 4), st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_scores_equal_a_slow_count_whatever_the_blocks(environments: int, horizons: list[int], seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows = sum(horizons) + 1
    over = draw.random((rows, environments)) < 0.3
    first = np.zeros_like(over)
    first[0], over[0] = True, False
    for t in range(1, rows):
        first[t] = over[t - 1]  # the row after a game's end is the next one's first, and ends nothing
        over[t] &= ~first[t]
    reward = np.where(first, 0, draw.integers(-3, 4, over.shape)).astype(np.float32)
    episodes, row = Episodes(window=1000), 0
    for horizon in horizons:
        resumed = Episodes(window=1000)
        resumed.restore(json.loads(json.dumps(episodes.state())))
        assert resumed.state() == episodes.state()
        resumed.recent, resumed.recent_lengths = episodes.recent, episodes.recent_lengths
        resumed.finished, episodes = episodes.finished, resumed
        part = slice(row, row + horizon + 1)
        episodes.add("owner", reward[part], over[part], first[part])
        row += horizon
    expected = []
    returns, lengths = [0.0] * environments, [0] * environments
    for t in range(1, rows):
        for b in range(environments):
            returns[b] += float(reward[t, b])
            lengths[b] += not first[t, b]
            if over[t, b]:
                expected.append((returns[b], lengths[b]))
                returns[b], lengths[b] = 0.0, 0
    assert list(zip(episodes.recent, episodes.recent_lengths, strict=True)) == expected
    assert episodes.finished == len(expected)


def test_a_dead_owners_unfinished_game_is_no_score() -> None:
    episodes = Episodes()
    begun, no, ended = np.array([[True], [False]]), np.array([[False], [False]]), np.array([[False], [True]])
    episodes.add("a", np.array([[0.0], [5.0]], np.float32), no, begun)
    episodes.drop("a")
    episodes.add("a", np.array([[0.0], [1.0]], np.float32), ended, begun)
    assert list(episodes.recent) == [1.0]
    assert episodes.mean() == 1.0 and episodes.mean_length() == 1.0


def test_a_game_joined_in_the_middle_is_no_score() -> None:
    episodes = Episodes()
    first = np.array([[False], [False], [True], [False]])
    over = np.array([[False], [True], [False], [True]])
    episodes.add("restarted trainer", np.array([[0.0], [7.0], [0.0], [2.0]], np.float32), over, first)
    assert list(episodes.recent) == [2.0] and list(episodes.recent_lengths) == [1]


def test_a_game_that_waited_for_the_next_block_begins_in_row_0() -> None:
    episodes = Episodes()
    first, over = np.array([[True], [False], [False]]), np.array([[False], [False], [True]])
    for reward in (3.0, 4.0):
        episodes.add("waits", np.array([[0.0], [1.0], [reward]], np.float32), over, first)
    assert list(episodes.recent) == [4.0, 5.0] and list(episodes.recent_lengths) == [2, 2]


def test_before_the_first_game_there_is_no_mean() -> None:
    assert Episodes().mean() is None and Episodes().mean_length() is None


def test_all_time_is_counted_in_one_section_or_another() -> None:
    timings = Timings()
    before = timings.section_ns.copy()
    timings.add("learn")
    timings.add("wait")
    spent = shares(before, timings.section_ns)
    assert abs(sum(spent.values()) - 1.0) < 1e-9 and spent["learn"] > 0 and set(spent) == set(SECTIONS)
