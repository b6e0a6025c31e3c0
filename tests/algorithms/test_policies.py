"""Distributions over actions against torch's own, and how they are drawn from."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from actorlearn.actions import MultiDiscrete
from actorlearn.algorithms.policies import (
    ActionDistribution,
    Categorical,
    Gaussian,
    MultiCategorical,
    heads,
    played_actions,
    policy,
)
from tests.algorithms.episodes import GO, RESET, TERMINATED, batch_of

ROWS = (2, 5)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=generator(seed))


POLICIES = {
    "logits": Categorical(drawn(*ROWS, 4)),
    "several": MultiCategorical(drawn(*ROWS, 6), (3, 1, 2)),
    "box": Gaussian(drawn(*ROWS, 3), drawn(*ROWS, 3, seed=2)),
}


@pytest.fixture(params=POLICIES)
def either(request: pytest.FixtureRequest) -> ActionDistribution:
    return POLICIES[request.param]


def test_the_names_of_outputs_decide_the_distribution() -> None:
    assert heads(4) == {"logits": 4} and heads((3,)) == {"mean": 3, "log_std": 3}
    assert heads(MultiDiscrete((3, 2))) == {"logits": 5}
    assert isinstance(policy({"logits": drawn(2, 5), "value": drawn(2, 1)}, (3, 2)), MultiCategorical)
    assert isinstance(policy({"logits": drawn(2, 4), "value": drawn(2, 1)}), Categorical)
    assert isinstance(policy({"mean": drawn(2, 3), "log_std": drawn(2, 3), "value": drawn(2, 1)}), Gaussian)


def test_a_categorical_equals_that_of_torch() -> None:
    ours = POLICIES["logits"]
    theirs = torch.distributions.Categorical(logits=ours.logits)
    action = torch.randint(4, ROWS, generator=generator())
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())


def test_several_choices_equal_independent_categoricals_of_torch() -> None:
    logits, sizes = drawn(*ROWS, 6), (3, 1, 2)
    ours = MultiCategorical(logits, sizes)
    theirs = [torch.distributions.Categorical(logits=part) for part in logits.split(sizes, -1)]
    action = ours.sample(generator())
    assert action.dtype == torch.int64 and action.shape == (*ROWS, 3)
    assert (action < torch.tensor(sizes)).all() and (action >= 0).all()
    log_probs = [part.log_prob(choice) for part, choice in zip(theirs, action.unbind(-1), strict=True)]
    torch.testing.assert_close(ours.log_prob(action), sum(log_probs))
    torch.testing.assert_close(ours.entropy(), sum(part.entropy() for part in theirs))


def test_parts_of_an_action_are_drawn_independently() -> None:
    with torch.inference_mode():
        chosen = MultiCategorical(torch.tensor([1.0, 0.0, 0.0, 1.0]).expand(100_000, 4), (2, 2)).sample(generator())
    torch.testing.assert_close(chosen.float().mean(0), torch.tensor([0.2689, 0.7311]), rtol=0.0, atol=0.006)
    assert abs(torch.corrcoef(chosen.T.float())[0, 1].item()) < 0.015


def test_a_gaussian_equals_the_independent_normal_of_torch() -> None:
    ours = POLICIES["box"]
    theirs = torch.distributions.Independent(torch.distributions.Normal(ours.mean, ours.log_std.exp()), 1)
    action = drawn(*ROWS, 3, seed=3)
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())


def test_a_certain_policy_has_entropy_0_and_log_probability_0() -> None:
    sure = Categorical(torch.tensor([[1000.0, 0.0, -1000.0]]))
    assert sure.entropy().item() == 0.0
    assert sure.log_prob(torch.tensor([0])).item() == 0.0


def test_sampled_actions_have_the_softmax_distribution() -> None:
    logits = torch.tensor([2.0, 0.0, 1.0, -1.0])
    with torch.inference_mode():
        chosen = Categorical(logits.expand(200_000, 4)).sample(generator())
    assert chosen.dtype == torch.int64 and chosen.shape == (200_000,)
    frequencies = chosen.bincount(minlength=4) / len(chosen)
    torch.testing.assert_close(frequencies, logits.softmax(-1), rtol=0.0, atol=0.005)  # 4.5 standard deviations


def test_sampled_box_actions_have_the_mean_and_deviation_of_the_gaussian() -> None:
    mean, std = torch.tensor([2.0, -1.0]), torch.tensor([0.5, 3.0])
    chosen = Gaussian(mean.expand(100_000, 2), std.log().expand(100_000, 2)).sample(generator())
    assert chosen.dtype == torch.float32 and chosen.shape == (100_000, 2)
    torch.testing.assert_close(chosen.mean(0), mean, rtol=0.0, atol=0.05)  # 5 standard deviations of the wider
    torch.testing.assert_close(chosen.std(0), std, rtol=0.01, atol=0.0)
    assert abs(torch.corrcoef(chosen.T)[0, 1].item()) < 0.015


def test_sampling_depends_on_the_given_generator_alone(either: ActionDistribution) -> None:
    before = torch.random.get_rng_state()
    first, again, other = (either.sample(generator(seed)) for seed in (7, 7, 8))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_no_action_is_likelier_than_the_greedy_one(either: ActionDistribution) -> None:
    greedy = either.log_prob(either.greedy())
    assert all((greedy >= either.log_prob(either.sample(generator(seed)))).all() for seed in range(20))


def test_greedy_takes_the_first_of_equally_likely_actions() -> None:
    assert Categorical(torch.tensor([[0.0, 3.0, 3.0], [5.0, 3.0, 1.0]])).greedy().tolist() == [1, 0]


@pytest.mark.parametrize("actions", [3, (2,)])
def test_an_ignored_action_is_zero_and_the_others_stay(actions: int | tuple[int, ...]) -> None:
    batch = batch_of([TERMINATED, RESET, GO], [GO, GO, GO], actions=actions)
    batch.action[1, 0] = -1
    found = played_actions(batch)
    assert not found[1, 0].any()
    kept = replace(batch, action=batch.action.clone())
    kept.action[1, 0] = 0
    assert torch.equal(found, kept.action)
