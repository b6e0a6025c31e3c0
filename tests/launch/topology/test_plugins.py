"""An algorithm of a plug-in follows the rules of its kind, such as those of a replay if it learns from one."""

from __future__ import annotations

import msgspec
import pytest

from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.dqn import DQN
from launch.machine.cores import Cores
from launch.plan.auto import choose
from launch.topology.load import TopologyError, parse

CARTPOLE = "env: {id: CartPole-v1}"
REPLAYED, PLAYED = (f"algorithm.name={__name__}:{name}" for name in ("Replayed", "Played"))


class Replayed(DQN):
    """Value learning of a plug-in, with the settings of DQN."""


class Played(A2C):
    """Policy gradient of a plug-in, which sets an attribute of its base class."""

    by_ratio = True


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (["replay.batch_size=2000"], "needs 2000 stored transitions"),
        (["replay.capacity_steps=40"], "the replay must hold a minibatch, and"),
        (["model.recurrence=lstm"], "replays single transitions"),
        (
            ["simulators.weights=rollout", "algorithm.target_every_steps=7"],
            "this must be a multiple of a rollout",
        ),
    ],
)
def test_an_algorithm_of_a_plugin_with_a_replay_follows_the_rules_of_replays(keys: list[str], says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        parse(CARTPOLE, [REPLAYED, *keys])
    assert parse(CARTPOLE, [REPLAYED]).replay


def test_noisy_layers_are_for_all_algorithms_with_a_replay_and_for_no_others() -> None:
    assert parse(CARTPOLE, [REPLAYED, "model.noisy=0.5"]).model.noisy == 0.5
    with pytest.raises(TopologyError, match="noisy layers are for"):
        parse(CARTPOLE, [PLAYED, "model.noisy=0.5"])


def test_an_attribute_of_a_plugins_algorithm_decides_what_auto_chooses() -> None:
    topology = parse(CARTPOLE, [PLAYED, "trainer.precision=bf16"])
    chosen, _ = choose(topology, (), Cores(2))
    assert chosen.inference.precision == "bf16", "as the trainer, which compares the probabilities of both"
    assert choose(parse(CARTPOLE, ["trainer.precision=bf16"]), (), Cores(2))[0].inference.precision == "fp32"


def test_an_algorithm_that_cannot_be_imported_is_refused_in_one_line() -> None:
    with pytest.raises(TopologyError, match="nowhere") as refused:
        parse(CARTPOLE, ["algorithm.name=nowhere.at_all:Name"])
    assert "\n" not in str(refused.value)


def test_an_algorithm_of_a_plugin_inherits_the_settings_of_its_base_class() -> None:
    topology = parse(CARTPOLE, [REPLAYED, "algorithm.huber_delta=0.5"])
    assert msgspec.to_builtins(topology.algorithm)["huber_delta"] == 0.5
