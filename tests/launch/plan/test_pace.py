"""How the plan fits rollouts and simulators to slow environments, whose time of a step is given here."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from launch.machine.cores import Cores
from launch.plan.pace import expectation, more_simulators, shorter_rollouts, warning
from launch.plan.planning import plan
from launch.topology.load import dump, parse
from tests.launch.described import DESCRIPTION

PPO = "env: {id: CartPole-v1}\nalgorithm: {name: ppo}\nsimulators: {count: 2}"
"""16 environments x 64 steps = 1,024 steps, in 4 minibatches."""


def shorter(step_s: float, *overrides: str, state_size: int = 0, text: str = PPO) -> dict[str, int]:
    described = replace(DESCRIPTION, step_s=step_s, state_size=state_size)
    return {choice.key: choice.value for choice in shorter_rollouts(parse(text, overrides), described, 2.0)}


def test_slow_environments_get_shorter_rollouts_with_minibatches_of_the_same_size() -> None:
    assert shorter(0.1) == {"algorithm.horizon": 16, "algorithm.minibatches": 1}


@pytest.mark.parametrize("step_s", [0.0, 0.005, 0.029])
def test_environments_that_allow_an_update_within_15_s_keep_the_defaults(step_s: float) -> None:
    assert shorter(step_s) == {}


@pytest.mark.parametrize(
    "override", ["algorithm.horizon=64", "algorithm.minibatches=4", "algorithm.batch_steps=1024", "algorithm.name=a2c"]
)
def test_keys_that_the_user_sets_and_short_horizons_are_kept(override: str) -> None:
    assert shorter(1.0, override) == {}


def more(step_s: float, cores: int, *overrides: str, agents: int = 1) -> dict[str, int]:
    described = replace(DESCRIPTION, step_s=step_s, agents=agents)
    topology = parse("env: {id: CartPole-v1}", overrides)
    return {choice.key: choice.value for choice in more_simulators(topology, described, Cores(cores))}


def test_slow_environments_have_a_simulator_for_each_core() -> None:
    assert more(0.02, 32) == {"simulators.count": 16, "simulators.envs": 1}
    assert more(0.02, 6) == {"simulators.count": 4, "simulators.envs": 4}
    assert more(0.0, 32) == {}
    assert more(0.02, 8, agents=16) == {}, "the one environment of a game cannot be divided"
    assert more(0.02, 32, "simulators.count=2") == more(0.02, 32, "simulators.envs=8") == {}
    assert more(0.02, 32, agents=4) == {"simulators.count": 4, "simulators.envs": 4}


def test_the_plan_adds_simulators_for_slow_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cores, "here", classmethod(lambda cls: cls(8)))
    made = plan(parse("env: {id: CartPole-v1}"), replace(DESCRIPTION, step_s=0.02))
    assert (made.topology.simulators.count, made.topology.simulators.envs) == (8, 2)
    (why,) = (choice.why for choice in made.choices if choice.key == "simulators.count")
    assert why == (
        "a step of this environment takes 20 ms, so the run has one simulator for each core, rounded down to a power "
        "of two and at most 16; the machine has 8 cores"
    )


def test_the_plan_says_why_a_slow_environment_has_no_more_simulators_than_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Cores, "here", classmethod(lambda cls: cls(2)))
    made = plan(parse("env: {id: CartPole-v1}"), replace(DESCRIPTION, step_s=0.05))
    (why,) = (choice.why for choice in made.choices if choice.key == "simulators.count")
    assert why.startswith("a step of this environment takes 50 ms") and "at most 16; the machine has 2 cores" in why


def test_recurrent_networks_keep_their_horizon() -> None:
    assert shorter(1.0, state_size=8) == {}


def test_an_update_of_a_slow_environment_keeps_256_steps() -> None:
    assert shorter(1.0, "simulators.envs=4") == {"algorithm.horizon": 32, "algorithm.minibatches": 2}
    assert shorter(1.0, "simulators.envs=2") == {}


def test_a_resumed_run_keeps_the_horizon_that_its_first_plan_chose() -> None:
    made = plan(parse(PPO), replace(DESCRIPTION, step_s=0.1))
    assert (made.topology.algorithm.horizon, made.block_shape.horizon) == (16, 16)
    assert [choice.value for choice in made.choices if choice.key == "algorithm.horizon"] == [16]
    again = plan(parse(dump(made.topology)), replace(DESCRIPTION, step_s=0.001))
    assert again.topology == made.topology
    assert not [choice for choice in again.choices if choice.key.startswith("algorithm")]


def test_the_plan_estimates_the_time_of_an_update_and_warns_of_long_ones() -> None:
    topology = parse(PPO, ["algorithm.horizon=64"])
    assert expectation(topology, 0.1, 2.0) == "about every 51 s: 1,024 steps at about 20 steps/s"
    assert "lower algorithm.horizon or simulators.envs" in warning(topology, 0.1, 2.0)
    assert (warning(topology, 0.02, 2.0), warning(topology, 0.0, 2.0), expectation(topology, 0.0, 2.0)) == ("", "", "")
