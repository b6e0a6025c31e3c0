"""Episode rules, returns and V-trace: by hand and published numbers, against slow references, by their properties."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.returns import (
    Outcomes,
    discounts,
    lambda_returns,
    mean_over,
    outcomes,
    restarts,
    rewards,
)
from actorlearn.algorithms.settings import AlgorithmSettings
from actorlearn.algorithms.specs.impala import IMPALASettings
from actorlearn.algorithms.vtrace import VTrace, vtrace
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
    """Return n-step returns [T, B] for values [T+1, B]."""
    return lambda_returns(outcomes(batch, settings), value[1:], 1.0)


def corrected(batch: Batch, value: Tensor, ratio: Tensor, settings: IMPALASettings) -> VTrace:
    """Return V-trace's targets and advantages for values [T+1, B]."""
    return vtrace(
        outcomes(batch, settings),
        value[:-1],
        value[1:],
        ratio,
        rho_clip=settings.rho_clip,
        c_clip=settings.c_clip,
        lambda_=settings.gae_lambda,
    )


def block(reward: list[list[float]], discount: list[list[float]]) -> Outcomes:
    """Return outcomes [T, B] of rows that are environments, which restart at the end alone."""
    restart_t = torch.zeros(len(reward[0]), len(reward), dtype=torch.bool)
    restart_t[-1] = True
    return Outcomes(torch.tensor(reward).T, torch.tensor(discount).T, restart_t)


def column(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float32).unsqueeze(1)


def test_a_return_is_of_all_steps_that_are_left_in_the_block():
    value = column(0.0, 0.0, 8.0)  # of the arrivals; only the last is used
    returns = lambda_returns(Outcomes(column(1, 2, 4), torch.full((3, 1), 0.5), column(0, 0, 1).bool()), value, 1.0)
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
def test_a_return_ends_with_nothing_or_with_the_value_of_a_games_final_observation(word, changes, expected):
    batch = replace(batch_of([word, RESET, GO]), reward=column(1, 0, 4))
    settings = A2C.Settings(discount=0.5, reward_clip=None, **changes)
    returns = returns_of(batch, column(70, 10, 80, 20), settings)  # row 1 is the final observation
    assert returns[0].item() == expected
    assert returns[2].item() == 4 + 0.5 * 20  # the new game starts afresh


@pytest.mark.parametrize(("terminal", "expected"), [(True, 1.0), (False, 1.0 + 0.5 * (4.0 + 0.5 * 20.0))])
def test_a_lost_life_ends_the_return_only_if_the_settings_say_so(terminal, expected):
    batch = replace(batch_of([LIFE, GO]), reward=column(1, 4))
    settings = A2C.Settings(discount=0.5, reward_clip=None, life_loss_terminal=terminal)
    assert returns_of(batch, column(0, 10, 20), settings)[0].item() == expected


def test_rewards_are_clipped_by_value_and_not_by_sign():
    batch = replace(batch_of([GO] * 4), reward=column(-7.0, 0.25, 0.0, 3.0))
    assert rewards(batch, A2C.Settings(reward_clip=1.0)).flatten().tolist() == [-1.0, 0.25, 0.0, 1.0]
    assert rewards(batch, A2C.Settings(reward_clip=None)).flatten().tolist() == [-7.0, 0.25, 0.0, 3.0]


def test_a_reset_has_no_reward_and_no_discount_whatever_was_written_there():
    batch = replace(batch_of([TERMINATED, RESET, GO]), reward=column(1, math.nan, 4))
    settings = A2C.Settings(discount=0.5, reward_clip=None)
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
def test_rewards_and_values_at_a_reset_have_no_effect_even_if_they_are_nan(batch, settings):
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
    settings = A2C.Settings(discount=0.5, reward_clip=None)
    assert returns_of(batch, column(0, 10, 0, 20), settings)[0].item() == 1 + 0.5 * 10


def test_the_error_about_shapes_that_differ_names_them():
    row = torch.zeros(3, 2)
    with pytest.raises(ValueError, match=r"lambda_returns: .*\(4, 2\)"):
        lambda_returns(Outcomes(row, row, row.bool()), torch.zeros(4, 2), 1.0)
    with pytest.raises(ValueError, match=r"vtrace: .*\(3, 1\)"):
        vtrace(Outcomes(row, row, row.bool()), row, row, torch.ones(3, 1), rho_clip=1.0, c_clip=1.0, lambda_=1.0)


def test_mean_is_over_valid_transitions_and_zero_without_any():
    x = torch.tensor([[1.0, math.nan], [3.0, math.inf]])
    valid = torch.tensor([[True, False], [True, False]])
    assert mean_over(valid, x).item() == 2.0
    assert mean_over(torch.zeros(2, 2, dtype=torch.bool), x).item() == 0.0


# DeepMind's rlax, multistep_test.py: two environments, the second with a terminal, and the advantages by lambda.
RLAX_VALUES = [[1.0, 4.0, -3.0, -2.0, -1.0, -1.0], [-3.0, -2.0, -1.0, 0.0, 5.0, -1.0]]
RLAX_OUTCOMES = block([[0.0, 0.0, 1.0, 0.0, -0.5], [0.0, 0.0, 0.0, 0.0, 1.0]], [[0.99] * 5, [0.9, 0.9, 0.9, 0.0, 0.9]])


@pytest.mark.parametrize(
    ("lambda_", "expected"),
    [
        (1.0, [[-1.45118, -4.4557, 2.5396, 0.5249, -0.49], [3.0, 2.0, 1.0, 0.0, -4.9]]),
        (0.7, [[-0.676979, -5.248167, 2.4846, 0.6704, -0.49], [2.2899, 1.73, 1.0, 0.0, -4.9]]),
        (0.4, [[0.56731, -6.042, 2.3431, 0.815, -0.49], [1.725, 1.46, 1.0, 0.0, -4.9]]),
    ],
)
def test_generalised_advantages_equal_those_of_rlax(lambda_: float, expected: list[list[float]]) -> None:
    value = torch.tensor(RLAX_VALUES).T
    advantages = lambda_returns(RLAX_OUTCOMES, value[1:], lambda_) - value[:-1]
    torch.testing.assert_close(advantages, torch.tensor(expected).T, rtol=0.0, atol=1e-3)  # printed so


def test_vtrace_equals_that_of_rlax() -> None:
    """The numbers of its vtrace_test.py: errors and advantages from logits of two policies, both clips 1."""
    acting = torch.tensor(
        [[[8.9, 0.7], [5.0, 1.0], [0.6, 0.1], [-0.9, -0.1]], [[0.3, -5.0], [1.0, -8.0], [0.3, 1.7], [4.7, 3.3]]]
    )
    learned = torch.tensor(
        [[[0.4, 0.5], [9.2, 8.8], [0.7, 4.4], [7.9, 1.4]], [[1.0, 0.9], [1.0, -1.0], [-4.3, 8.7], [0.8, 0.3]]]
    )
    action = torch.tensor([[0, 1, 0, 0], [1, 0, 0, 1]]).unsqueeze(-1)
    ratio = (learned.log_softmax(-1) - acting.log_softmax(-1)).exp().gather(-1, action).squeeze(-1).T
    seen = block([[-1.3, -1.3, 2.3, 42.0], [1.3, 5.3, -3.3, -5.0]], [[0.0, 0.89, 0.85, 0.99], [0.88, 1.0, 0.83, 0.95]])
    value = torch.tensor([[2.1, 1.1, -3.1, 0.0, 8.4], [3.1, 0.1, -1.1, 7.4, -1.2]]).T
    target, _, advantage = vtrace(seen, value[:-1], value[1:], ratio, rho_clip=1.0, c_clip=1.0, lambda_=1.0)
    errors = [[-1.6155143, -3.4973226, 1.8670533, 50.316002], [1.4662437, 3.6116405, -8.3327293e-5, -13.54]]
    torch.testing.assert_close(target - value[:-1], torch.tensor(errors).T, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(advantage, torch.tensor(errors).T, rtol=1e-3, atol=1e-6)


def test_vtrace_equals_that_computed_by_hand():
    """Ratios 2 and 1/2, rho cut at 1.5 and c at 1: two corrected errors, the second carried back by half of 1."""
    seen = block([[1.0, 2.0]], [[0.5, 0.5]])
    target, _, advantage = vtrace(
        seen, column(10, 20), column(20, 40), column(2.0, 0.5), rho_clip=1.5, c_clip=1.0, lambda_=1.0
    )
    late = 20 + 0.5 * (2 + 0.5 * 40 - 20)
    early = 10 + 1.5 * (1 + 0.5 * 20 - 10) + 0.5 * 1.0 * (late - 20)
    assert target.flatten().tolist() == [early, late]
    assert advantage.flatten().tolist() == [1.5 * (1 + 0.5 * late - 10), 0.5 * (2 + 0.5 * 40 - 20)]


@given(batches(), settings_of_all_kinds)
def test_generalised_advantages_equal_the_slow_reference(batch, settings):
    value = random_outputs(batch)["value"].detach().squeeze(-1)
    advantages = lambda_returns(outcomes(batch, settings), value[1:], settings.gae_lambda) - value[:-1]
    for t, b in batch.valid.nonzero().tolist():
        expected = reference.gae(batch, value, settings, t, b)
        assert advantages[t, b].item() == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(batches(), settings_of_all_kinds)
def test_vtrace_targets_equal_the_slow_reference(batch, settings):
    value = random_outputs(batch)["value"].detach().squeeze(-1)
    ratio = batch.columns["log_prob"].double().exp()
    targets = corrected(batch, value, ratio, settings).target_tm1
    for t, b in batch.valid.nonzero().tolist():
        expected = reference.vtrace_target(batch, value, ratio, settings, t, b)
        assert targets[t, b].item() == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(batches(), settings_of_all_kinds)
def test_vtrace_on_policy_equals_lambda_returns_and_generalised_advantages(batch, settings):
    settings = msgspec.structs.replace(settings, rho_clip=1.0, c_clip=1.0)
    value = random_outputs(batch)["value"].detach().squeeze(-1)
    target, _, advantage = corrected(batch, value, torch.ones_like(value[1:]), settings)
    returns = lambda_returns(outcomes(batch, settings), value[1:], settings.gae_lambda)
    torch.testing.assert_close(target[batch.valid], returns[batch.valid])
    torch.testing.assert_close(advantage[batch.valid], (returns - value[:-1])[batch.valid])
