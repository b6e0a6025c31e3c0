"""Names of algorithms, refused settings, and what reading them must not load."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
import torch

from actorlearn.actions import MultiDiscrete
from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.impala import IMPALA
from actorlearn.algorithms.interface import (
    BY_RATIO,
    PARTS_OF_TRANSITIONS,
    REPLAYED,
    SHIPPED,
    AlgorithmSettings,
    learns_from_replay,
)
from actorlearn.algorithms.make import CLASSES, make
from actorlearn.algorithms.ppo import PPO
from tests.algorithms.episodes import batch_of


class Own(A2C):
    """Stands for an algorithm outside the library."""


@pytest.mark.parametrize(
    ("name", "kind", "columns"),
    [
        ("a2c", A2C, []),
        ("ppo", PPO, ["log_prob", "value"]),
        ("impala", IMPALA, ["log_prob"]),
    ],
)
def test_names_make_algorithms_that_ask_for_heads_and_columns(name, kind, columns):
    algorithm = make(AlgorithmSettings(name=name))
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


def test_the_lists_of_names_that_need_no_torch_are_true():
    assert tuple(CLASSES) == SHIPPED
    algorithms = {name: make(AlgorithmSettings(name=name)) for name in SHIPPED}
    assert tuple(name for name in SHIPPED if learns_from_replay(algorithms[name])) == REPLAYED
    assert tuple(name for name in SHIPPED if "log_prob" in algorithms[name].columns(6)) == BY_RATIO
    batch, last = batch_of(["go", "go"], ["go", "go"]), {"value": torch.zeros(1, 2, 1)}
    prepared = {name: algorithms[name].prepare(batch, last) for name in SHIPPED if name not in REPLAYED}
    assert tuple(name for name in prepared if prepared[name].action.shape == (1, 4)) == PARTS_OF_TRANSITIONS


def test_an_algorithm_of_ones_own_is_constructed_with_the_settings():
    settings = AlgorithmSettings(name=f"{__name__}:Own", horizon=20)
    algorithm = make(settings)
    assert isinstance(algorithm, Own) and algorithm.settings is settings


@pytest.mark.parametrize("name", ["a3c", "json", "no.such.module:X", "json:NoSuchName", ""])
def test_names_that_lead_nowhere_are_refused_with_the_way_out(name):
    shipped = r"\['a2c', 'ppo', 'impala', 'dqn', 'c51'\]"
    with pytest.raises(ValueError, match=rf"algorithm\.name: .* must be one of {shipped} or 'package\.module:Name'"):
        make(AlgorithmSettings(name=name))


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("horizon", 0),
        ("discount", 1.5),
        ("discount", float("nan")),
        ("entropy_cost", -1.0),
        ("entropy_cost_final", -1.0),
        ("value_cost", -1.0),
        ("loss_scale", 0.0),
        ("reward_clip", 0.0),
        ("reduction", "median"),
        ("gae_lambda", 1.5),
        ("ratio_clip", 0.0),
        ("ratio_clip_final", -0.1),
        ("value_clip", 0.0),
        ("rho_clip", 0.0),
        ("c_clip", float("nan")),
        ("n_step", 0),
        ("target_every_steps", 0),
        ("huber_delta", 0.0),
        ("atoms", 1),
        ("value_max", -10.0),
        ("epsilon_initial", 1.1),
        ("epsilon_final", -0.1),
        ("epsilon_final_min", 0.0),
        ("epsilon_final_min", 0.2),
        ("epsilon_hold_steps", -1),
        ("epsilon_steps", 0),
        ("epsilon_eval", float("nan")),
    ],
)
def test_numbers_without_meaning_are_refused_by_name(key, number):
    with pytest.raises(ValueError, match=rf"algorithm\.{key}: .* must be"):
        AlgorithmSettings(**{key: number})
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({key: number}, AlgorithmSettings)


def test_settings_survive_json_and_unknown_keys_do_not():
    settings = AlgorithmSettings(reward_clip=None, horizon=7)
    assert msgspec.json.decode(msgspec.json.encode(settings), type=AlgorithmSettings) == settings
    with pytest.raises(msgspec.ValidationError, match="horizn"):
        msgspec.convert({"horizn": 5}, AlgorithmSettings)


def test_reading_settings_loads_no_torch():
    """Simulators and the launcher read settings, and must not pay a second and 200 MB for it."""
    modules = ", ".join(f"actorlearn.{package}.interface" for package in ("algorithms", "models", "optim"))
    subprocess.run([sys.executable, "-c", f"import sys, {modules}; assert 'torch' not in sys.modules"], check=True)
