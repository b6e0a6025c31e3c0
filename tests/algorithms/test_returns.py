"""Episode rules and n-step returns, by hand numbers, against the slow reference, and by their properties."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from actorlearn.algorithms.interface import AlgorithmSettings, Batch
from actorlearn.algorithms.returns import discounts, mean_over, n_step_returns, restarts, rewards
from tests import reference
from tests.algorithms.episodes import (
    BOTH,
    GO,
    LIFE,
    RESET,
    TERMINATED,
    TRUNCATED,
    batch_of,
    batches,
    random_outputs,
    rows_of,
    settings_of_all_kinds,
)


def returns_of(batch: Batch, value: Tensor, settings: AlgorithmSettings) -> Tensor:
    """Return [T, B] for values [T+1, B]."""
    return n_step_returns(rewards(batch, settings), discounts(batch, settings), value[1:], restarts(batch))


def column(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float32).unsqueeze(1)


def test_returns_count_from_the_whole_block_down_to_one_step():
    value = column(0.0, 0.0, 8.0)  # of the arrivals; only the last is used
    returns = n_step_returns(column(1, 2, 4), torch.full((3, 1), 0.5), value, column(0, 0, 1).bool())
    assert returns.flatten().tolist() == [1 + 0.5 * (2 + 0.5 * (4 + 0.5 * 8)), 2 + 0.5 * (4 + 0.5 * 8), 4 + 0.5 * 8]


@pytest.mark.parametrize(
    ("word", "changes", "expected"),
    [
        (TERMINATED, {}, 1.0),
        (TRUNCATED, {}, 1.0),
        (TRUNCATED, {"bootstrap_on_truncation": True}, 1.0 + 0.5 * 10.0),
        (BOTH, {"bootstrap_on_truncation": True}, 1.0),
    ],
)
def test_a_games_end_is_its_terminal_or_the_value_of_its_final_observation(word, changes, expected):
    batch = replace(batch_of([word, RESET, GO]), reward=column(1, 0, 4))
    settings = AlgorithmSettings(discount=0.5, reward_clip=None, **changes)
    returns = returns_of(batch, column(70, 10, 80, 20), settings)  # row 1 is the final observation
    assert returns[0].item() == expected
    assert returns[2].item() == 4 + 0.5 * 20  # the new game starts afresh


@pytest.mark.parametrize(("terminal", "expected"), [(True, 1.0), (False, 1.0 + 0.5 * (4.0 + 0.5 * 20.0))])
def test_a_lost_life_ends_the_return_only_if_the_settings_say_so(terminal, expected):
    batch = replace(batch_of([LIFE, GO]), reward=column(1, 4))
    settings = AlgorithmSettings(discount=0.5, reward_clip=None, life_loss_terminal=terminal)
    assert returns_of(batch, column(0, 10, 20), settings)[0].item() == expected


def test_rewards_are_cut_by_value_and_not_by_sign():
    batch = replace(batch_of([GO] * 4), reward=column(-7.0, 0.25, 0.0, 3.0))
    assert rewards(batch, AlgorithmSettings(reward_clip=1.0)).flatten().tolist() == [-1.0, 0.25, 0.0, 1.0]
    assert rewards(batch, AlgorithmSettings(reward_clip=None)).flatten().tolist() == [-7.0, 0.25, 0.0, 3.0]


def test_a_reset_has_no_reward_and_no_discount_whatever_was_written_there():
    batch = replace(batch_of([TERMINATED, RESET, GO]), reward=column(1, math.nan, 4))
    settings = AlgorithmSettings(discount=0.5, reward_clip=None)
    assert rewards(batch, settings).flatten().tolist() == [1.0, 0.0, 4.0]
    assert discounts(batch, settings).flatten().tolist() == [0.0, 0.0, 0.5]


def test_returns_restart_after_a_truncation_before_a_reset_and_at_the_blocks_end():
    batch = replace(batch_of([GO, TRUNCATED, GO, GO, RESET, GO]), terminated=column(*[0] * 6).bool())
    assert restarts(batch).flatten().tolist() == [False, True, False, True, False, True]


@given(batches(), settings_of_all_kinds)
def test_returns_equal_the_slow_reference(batch, settings):
    value = random_outputs(batch)["value"].detach().squeeze(-1)
    returns = returns_of(batch, value, settings)
    for t, b in batch.valid.nonzero().tolist():
        expected = reference.n_step_return(batch, value, settings, t, b)
        assert returns[t, b].item() == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(batches(), settings_of_all_kinds, st.data())
def test_a_block_cut_in_two_gives_the_same_returns_if_the_value_at_the_cut_is_the_return(batch, settings, data):
    value = random_outputs(batch)["value"].detach().squeeze(-1)
    whole = returns_of(batch, value, settings)
    horizon = len(whole)
    cut = data.draw(st.integers(0, horizon))
    first, second = rows_of(batch, 0, cut), rows_of(batch, cut, horizon)
    if cut < horizon:
        torch.testing.assert_close(returns_of(second, value[cut:], settings), whole[cut:])
    if 0 < cut < horizon:
        # Where the cut is a game's reset, the value there is the final observation's and stays.
        value[cut] = torch.where(batch.valid[cut] & ~batch.truncated[cut - 1], whole[cut], value[cut])
        torch.testing.assert_close(returns_of(first, value[: cut + 1], settings), whole[:cut])


@given(batches(), settings_of_all_kinds)
def test_nothing_passes_a_reset_not_even_nan(batch, settings):
    """The reset's reward, and the values a return does not bootstrap from, may be anything."""
    value = random_outputs(batch)["value"].detach().squeeze(-1)
    clean = returns_of(batch, value, settings)
    dirty_value = value.clone()
    dirty_value[1:] = value[1:].where(restarts(batch), math.nan)
    dirty_batch = replace(batch, reward=batch.reward.where(batch.valid, math.nan))
    dirty = returns_of(dirty_batch, dirty_value, settings)
    assert torch.equal(dirty[batch.valid], clean[batch.valid])


def test_an_invalid_successor_restarts_the_return_even_without_a_flag():
    """A defence: a reset that no flag announced must not join two games."""
    batch = replace(batch_of([GO, RESET, GO]), reward=column(1, 0, 4))
    settings = AlgorithmSettings(discount=0.5, reward_clip=None)
    assert returns_of(batch, column(0, 10, 0, 20), settings)[0].item() == 1 + 0.5 * 10


def test_shapes_that_differ_are_named():
    row = torch.zeros(3, 2)
    with pytest.raises(ValueError, match=r"\(4, 2\)"):
        n_step_returns(row, row, torch.zeros(4, 2), row.bool())


def test_mean_is_over_valid_transitions_and_zero_without_any():
    x = torch.tensor([[1.0, math.nan], [3.0, math.inf]])
    valid = torch.tensor([[True, False], [True, False]])
    assert mean_over(valid, x).item() == 2.0
    assert mean_over(torch.zeros(2, 2, dtype=torch.bool), x).item() == 0.0
