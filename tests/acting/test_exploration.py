"""Epsilon of the rows that are asked for: by the step of the run, and by the environment."""

from __future__ import annotations

from pathlib import Path

import torch

from actorlearn.acting.exploration import choose, epsilon
from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.dqn import DQN
from actorlearn.memory.rollout import Blocks, BlockShape, Rollouts, make_segment, rollouts_fields
from actorlearn.memory.shared import Segment

GROUPS, ENVS, HORIZON, SIMULATORS = 2, 3, 4, 2
ENVIRONMENTS = SIMULATORS * GROUPS * ENVS


def run(folder: Path) -> tuple[Rollouts, list[Blocks]]:
    """A learner's rollouts, the first of which begins at step 120, and the blocks of its simulators."""
    rollouts = Rollouts(Segment.create(folder / "rollouts", rollouts_fields()), HORIZON * ENVIRONMENTS)
    rollouts.published(0, 120, rollouts_learned=0)
    rollouts.raise_to(2)
    shape = BlockShape(
        groups=GROUPS,
        blocks=2,
        horizon=HORIZON,
        envs_per_group=ENVS,
        observation_shape=(1,),
        observation_dtype="float32",
        actions=2,
    )
    return rollouts, [Blocks(make_segment(folder / str(number), shape, number)) for number in range(SIMULATORS + 1)]


def test_a_rows_epsilon_is_that_of_the_steps_before_it(tmp_path: Path) -> None:
    rollouts, (first, second, _) = run(tmp_path)
    algorithm = DQN(DQN.Settings(epsilon_initial=1.0, epsilon_final=0.0, epsilon_hold_steps=0, epsilon_steps=1000))
    asked = [(first, 0, 0), (second, 1, 3), (first, 1, HORIZON), (second, 0, HORIZON + 2)]
    found = epsilon(algorithm, rollouts, ENVIRONMENTS, asked)
    steps = [120, 120 + 3 * 12, 120 + 4 * 12, 120 + 6 * 12]
    expected = torch.tensor([1 - step / 1000 for step in steps]).repeat_interleave(ENVS)
    assert found is not None
    torch.testing.assert_close(found, expected)


def test_every_environment_has_an_epsilon_of_its_own_and_attached_ones_share(tmp_path: Path) -> None:
    rollouts, members = run(tmp_path)
    numbers = {
        "epsilon_initial": 0.4,
        "epsilon_final": 0.4,
        "epsilon_final_min": 0.0004,
        "epsilon_hold_steps": 0,
        "epsilon_steps": 1,
    }
    algorithm = DQN(DQN.Settings(**numbers))
    asked = [(blocks, group, 0) for blocks in members for group in range(GROUPS)]
    found = epsilon(algorithm, rollouts, ENVIRONMENTS, asked)
    assert found is not None
    torch.testing.assert_close(found[:ENVIRONMENTS], torch.logspace(-3, 0, ENVIRONMENTS) * 0.4)
    torch.testing.assert_close(found[ENVIRONMENTS:], found[: GROUPS * ENVS])


def test_only_who_acts_on_values_in_a_run_explores_by_epsilon(tmp_path: Path) -> None:
    rollouts, members = run(tmp_path)
    values, policy = DQN(DQN.Settings(epsilon_eval=0.0)), A2C(A2C.Settings())
    assert epsilon(policy, rollouts, ENVIRONMENTS, [(members[0], 0, 0)]) is None
    assert epsilon(values, None, ENVIRONMENTS, [(members[0], 0, 0)]) is None  # an evaluator's: its own holds
    outputs = {"q": torch.tensor([[0.0, 1.0]]).expand(500, -1)}
    generator = torch.Generator().manual_seed(0)
    always, never = (choose(values, outputs, generator, False, torch.full((500,), share)) for share in (1.0, 0.0))
    assert 200 < int(always["action"].sum()) < 300
    assert never["action"].all()
    assert choose(values, outputs, generator, False, None)["action"].all()
