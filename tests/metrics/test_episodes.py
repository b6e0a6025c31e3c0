"""Scores of whole games against a slow count over a flat list of rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.metrics.episodes import Episodes
from actorlearn.metrics.timings import SECTIONS, Timings, shares


@given(st.integers(1, 4), st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_scores_equal_a_slow_count_whatever_the_blocks(environments: int, horizons: list[int], seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows = sum(horizons)
    over = draw.random((rows, environments)) < 0.3
    first = np.zeros_like(over)
    first[1:] = over[:-1]  # the row after a game's end is the next one's first
    over &= ~first
    first[1:] = over[:-1]
    reward = np.where(first, 0, draw.integers(-3, 4, over.shape)).astype(np.float32)
    episodes, row = Episodes(window=1000), 0
    for horizon in horizons:
        part = slice(row, row + horizon)
        episodes.add("owner", reward[part], over[part], first[part])
        row += horizon
    expected = []
    returns, lengths = [0.0] * environments, [0] * environments
    for t in range(rows):
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
    yes, no = np.array([[True]]), np.array([[False]])
    episodes.add("a", np.array([[5.0]], np.float32), no, no)
    episodes.drop("a")
    episodes.add("a", np.array([[1.0]], np.float32), yes, no)
    assert list(episodes.recent) == [1.0]
    assert episodes.mean() == 1.0 and episodes.mean_length() == 1.0


def test_before_the_first_game_there_is_no_mean() -> None:
    assert Episodes().mean() is None and Episodes().mean_length() is None


def test_all_time_is_counted_in_one_section_or_another() -> None:
    timings = Timings()
    before = timings.section_ns.copy()
    timings.add("learn")
    timings.add("wait")
    spent = shares(before, timings.section_ns)
    assert abs(sum(spent.values()) - 1.0) < 1e-9 and spent["learn"] > 0 and set(spent) == set(SECTIONS)
