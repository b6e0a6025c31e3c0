"""Samplers: what may be drawn, how often, and with which weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.replay.samplers import Prioritised, Uniform, importance

DRAWS = 40_000
RANDOM = np.random.default_rng(0)


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


@given(data=st.data())
def test_uniform_draws_from_what_is_in_and_nothing_else(data: st.DataObject) -> None:
    sampler, inside = Uniform(20), set()
    for _ in range(data.draw(st.integers(1, 8))):
        gone = data.draw(st.lists(st.sampled_from(sorted(inside)), unique=True)) if inside else []
        sampler.remove(np.array(gone, np.int64))
        inside -= set(gone)
        come = data.draw(st.lists(st.sampled_from([c for c in range(20) if c not in inside]), unique=True)) if len(inside) < 20 else []  # fmt: skip  # noqa: E501
        sampler.insert(np.array(come, np.int64))
        inside |= set(come)
        assert sorted(sampler.arrays()["cell"].tolist()) == sorted(inside)
        if inside:
            drawn = sampler.draw(9, RANDOM)
            assert set(drawn.cell.tolist()) <= inside
            assert (drawn.probability == 1 / len(inside)).all()


def test_uniform_draws_all_alike() -> None:
    sampler = Uniform(40)
    sampler.insert(np.arange(5, 35))
    sampler.remove(np.arange(10, 15))
    counts = np.bincount(sampler.draw(DRAWS, np.random.default_rng(1)).cell, minlength=40)
    inside = [*range(5, 10), *range(15, 35)]
    assert chi_square(counts[inside], np.full(25, DRAWS / 25)) < 60  # 24 degrees of freedom: p < 0.0001


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_frequencies_match_priorities(alpha: float) -> None:
    random = np.random.default_rng(2)
    priority = random.random(30) * 5 + 0.1
    sampler = Prioritised(64, alpha=alpha)
    sampler.insert(np.arange(10, 40))
    sampler.update(np.arange(10, 40), priority)
    counts, told = np.zeros(64), np.zeros(64)
    for _ in range(DRAWS // 32):  # minibatches: strata are parts of each
        drawn = sampler.draw(32, random)
        np.add.at(counts, drawn.cell, 1)
        told[drawn.cell] = drawn.probability
    share = priority**alpha / (priority**alpha).sum()
    assert told[10:40] == pytest.approx(share)
    assert counts.sum() == counts[10:40].sum()
    assert chi_square(counts[10:40], share * DRAWS) < 66  # 29 degrees of freedom: p < 0.0001


def test_what_is_new_has_the_largest_priority_so_far() -> None:
    sampler = Prioritised(4, alpha=0.5)
    sampler.insert(np.array([0]))
    assert sampler.arrays()["priority"][0] == 1.0
    sampler.update(np.array([0]), np.array([9.0]))
    sampler.update(np.array([0]), np.array([0.5]))
    sampler.insert(np.array([1]))
    assert sampler.arrays()["priority"][1] == pytest.approx(9.0**0.5)


def test_what_is_removed_is_not_drawn() -> None:
    sampler = Prioritised(4, alpha=0.5)
    sampler.insert(np.arange(4))
    sampler.remove(np.array([1, 2]))
    assert set(sampler.draw(50, RANDOM).cell.tolist()) == {0, 3}


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=40), st.floats(0.0, 1.0), st.integers(1, 10**6))
def test_weights_are_those_of_the_paper(probability: list[float], beta: float, stored: int) -> None:
    slow = [(stored * p) ** -beta for p in probability]
    slow = [weight / max(slow) for weight in slow]
    assert importance(np.array(probability), beta).tolist() == pytest.approx(slow, rel=1e-5)
