"""Algorithms of one's own, what specs say of the shipped ones, and refused settings."""

from __future__ import annotations

import msgspec
import pytest
import torch

from actorlearn.actions import MultiDiscrete
from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.impala import IMPALA
from actorlearn.algorithms.make import make
from actorlearn.algorithms.ppo import PPO
from actorlearn.algorithms.settings import ALGORITHMS, OffPolicySettings
from actorlearn.algorithms.vaco import VACO
from tests import named
from tests.algorithms.episodes import batch_of


class Own(A2C):
    """Stands for an algorithm outside the library; its settings are those of what it is derived from."""


@pytest.mark.parametrize(
    ("name", "kind", "columns"),
    [
        ("a2c", A2C, []),
        ("ppo", PPO, ["log_prob", "value"]),
        ("impala", IMPALA, ["log_prob"]),
        ("vaco", VACO, ["log_prob"]),
    ],
)
def test_each_name_makes_its_algorithm_with_its_heads_and_columns(name, kind, columns):
    algorithm = make(named.algorithm(name))
    assert isinstance(algorithm, kind)
    assert algorithm.heads(6) == {"logits": 6, "value": 1}
    assert algorithm.heads((2,)) == {"mean": 2, "log_std": 2, "value": 1}
    assert algorithm.heads(MultiDiscrete((3, 2))) == {"logits": 5, "value": 1}
    assert (
        algorithm.columns(6)
        == algorithm.columns((2,))
        == algorithm.columns(MultiDiscrete((3, 2)))
        == dict.fromkeys(columns, ("float32", ()))
    )


@pytest.mark.parametrize("name", ALGORITHMS.names())
def test_the_specs_are_true_of_the_algorithms_that_are_made(name):
    spec, algorithm = ALGORITHMS.spec(name), make(named.algorithm(name))
    assert spec.load().Settings is spec.settings
    assert spec.replayed == issubclass(spec.settings, OffPolicySettings)
    assert spec.by_ratio == ("log_prob" in algorithm.columns(6))
    if not spec.replayed:
        batch, sizes = batch_of(["go", "go"], ["go", "go"]), algorithm.heads(3)
        last = {head: torch.zeros(max(algorithm.prepared_rows, 1), 2, size) for head, size in sizes.items()}
        assert spec.parts_of_transitions == (algorithm.prepare(batch, last).action.shape == (1, 4))


def test_an_algorithm_of_ones_own_is_constructed_with_the_settings():
    settings = named.algorithm(f"{__name__}:Own", horizon=20)
    algorithm = make(settings)
    assert isinstance(algorithm, Own) and algorithm.settings is settings
    assert settings.name == f"{__name__}:Own" and isinstance(settings, A2C.Settings)


@pytest.mark.parametrize("name", ["a3c", "json", "no.such.module:X", "json:NoSuchName", ""])
def test_unknown_names_of_algorithms_are_refused(name):
    with pytest.raises(ValueError, match=rf"^algorithm\.name: '{name}'"):
        named.algorithm(name)


@pytest.mark.parametrize(
    ("name", "key", "number"),
    [
        ("a2c", "horizon", 0),
        ("a2c", "discount", 1.5),
        ("a2c", "entropy_cost", -1.0),
        ("a2c", "entropy_cost_final", -1.0),
        ("a2c", "value_cost", -1.0),
        ("a2c", "loss_scale", 0.0),
        ("a2c", "reward_clip", 0.0),
        ("a2c", "reduction", "median"),
        ("a2c", "gae_lambda", 1.5),
        ("ppo", "ratio_clip", 0.0),
        ("ppo", "ratio_clip_final", -0.1),
        ("ppo", "value_clip", 0.0),
        ("impala", "rho_clip", 0.0),
        ("impala", "c_clip", 0.0),
        ("vaco", "variation_limit", 0.0),
        ("dqn", "epochs", 2),
        ("dqn", "n_step", 0),
        ("dqn", "target_every_steps", 0),
        ("dqn", "huber_delta", 0.0),
        ("c51", "atoms", 1),
        ("c51", "value_max", -10.0),
        ("dqn", "epsilon_initial", 1.1),
        ("dqn", "epsilon_final", -0.1),
        ("dqn", "epsilon_final_min", 0.0),
        ("dqn", "epsilon_final_min", 0.2),
        ("dqn", "epsilon_hold_steps", -1),
        ("dqn", "epsilon_steps", 0),
        ("dqn", "epsilon_eval", 1.1),
        ("pqn", "q_lambda", 1.1),
        ("pqn", "epsilon_steps", 0),
    ],
)
def test_impossible_values_of_keys_are_refused_by_name(name, key, number):
    with pytest.raises(msgspec.ValidationError, match=key):
        named.algorithm(name, **{key: number})


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("a2c", "ratio_clip"),
        ("ppo", "epsilon_steps"),
        ("dqn", "entropy_cost"),
        ("c51", "huber_delta"),
        ("pqn", "gae_lambda"),
    ],
)
def test_keys_that_an_algorithm_does_not_read_are_refused(name, key):
    with pytest.raises(msgspec.ValidationError, match=f"unknown field `{key}`"):
        named.algorithm(name, **{key: 1.0})
