"""Evaluation plays exactly the games it was asked for, each from start to end."""

from typing import Any

import pytest
import torch

from actorlearn.envs.interface import EnvSettings
from actorlearn.processes.evaluator import play, summary
from actorlearn.processes.inference import Policy, mix
from actorlearn.processes.settings import PolicySettings

CARTPOLE = EnvSettings(id="CartPole-v1", frame_skip=1, stack=1, noop_max=0, time_limit_steps=0)


def policy(seed: int = 0, numbers: int = 4, actions: int | tuple[int, ...] = 2, algorithm: str = "a2c") -> Policy:
    """An untrained policy for CartPole, or for another environment."""
    model: dict[str, Any] = {"name": "mlp", "hidden_sizes": [8], "init": "torch"}
    settings = PolicySettings(
        observation_shape=(numbers,),
        observation_dtype="float32",
        actions=actions,
        model=model,
        algorithm={"name": algorithm},
    )
    return Policy(settings, "", "cpu", seed, stream=0)


@pytest.mark.parametrize("episodes", [1, 3, 8, 11])
def test_exactly_as_many_whole_games_as_asked_for(episodes: int) -> None:
    steps = 0
    scores = []
    for score in play(policy(), CARTPOLE, episodes, greedy=False, seed=1):
        if score is None:
            steps += 1
        else:
            scores.append(score)
    assert len(scores) == episodes
    assert all(score >= 8 for score in scores), "CartPole pays 1 a step and cannot fall in fewer than 8"
    assert steps >= max(scores)


@pytest.mark.parametrize("algorithm", ["a2c", "ppo", "impala"])
def test_games_of_box_actions_are_played_sampled_and_greedily(algorithm: str) -> None:
    pendulum = EnvSettings(id="Pendulum-v1", frame_skip=1, stack=1, noop_max=0, time_limit_steps=20)
    box = policy(numbers=3, actions=(1,), algorithm=algorithm)
    sampled, greedy = ([s for s in play(box, pendulum, 3, greedy, seed=1) if s is not None] for greedy in (False, True))
    assert len(sampled) == len(greedy) == 3
    assert sampled != greedy and max(sampled + greedy) < 0


def test_the_same_seed_plays_the_same_games_and_another_does_not() -> None:
    def scores(seed: int) -> list[float]:
        return [s for s in play(policy(), CARTPOLE, 6, greedy=False, seed=seed) if s is not None]

    assert scores(1) == scores(1) != scores(2)


def test_random_numbers_depend_on_the_moment_and_on_nothing_else() -> None:
    one, other = policy(), policy()
    observation = torch.zeros(64, 4)
    first = one.choose(observation, moment=5)["action"]
    one.choose(observation, moment=6)
    assert torch.equal(one.choose(observation, moment=5)["action"], first)
    assert torch.equal(other.choose(observation, moment=5)["action"], first)
    assert not torch.equal(other.choose(observation, moment=6)["action"], first)


def test_moments_and_seeds_are_spread_over_all_bits() -> None:
    drawn = {mix(seed, moment) for seed in range(40) for moment in range(500)}
    assert len(drawn) > 19_980  # of 20,000: a few meet by chance in 32 bits
    assert all(0 <= number < 2**32 for number in drawn)


def test_summary_of_scores() -> None:
    assert summary([1.0, 3.0]) == {
        "episodes": 2,
        "mean": 2.0,
        "std": pytest.approx(2**0.5),
        "min": 1.0,
        "max": 3.0,
        "returns": [1.0, 3.0],
    }
    assert summary([4.0])["std"] == 0.0
