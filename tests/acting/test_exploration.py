"""Epsilon of the rows that are asked for: by the step of the run, and by the environment."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from actorlearn.acting.exploration import EpsilonGreedy, make
from actorlearn.actions import MultiDiscrete
from actorlearn.memory.rollout import Blocks, Rollouts, make_segment, rollouts_fields
from actorlearn.memory.shared import Segment
from tests import named
from tests.acting.policies import policy
from tests.blocks import block_shape

GROUPS, ENVS, HORIZON, SIMULATORS = 2, 3, 4, 2
ENVIRONMENTS = SIMULATORS * GROUPS * ENVS
ACTIONS = 3


def exploring(**numbers: float) -> EpsilonGreedy:
    """Exploration of three actions by keys of DQN's."""
    made = make(named.algorithm("dqn", **numbers), ACTIONS)
    assert made is not None
    return made


def run(folder: Path) -> tuple[Rollouts, list[Blocks]]:
    """A learner's rollouts, the first of which begins at step 120, and the blocks of its simulators."""
    rollouts = Rollouts(Segment.create(folder / "rollouts", rollouts_fields()), HORIZON * ENVIRONMENTS)
    rollouts.published(0, 120, rollouts_learned=0)
    rollouts.raise_to(2)
    shape = block_shape(groups=GROUPS, blocks=2, horizon=HORIZON, envs_per_group=ENVS, observation_shape=(1,))
    return rollouts, [Blocks(make_segment(folder / str(number), shape, number)) for number in range(SIMULATORS + 1)]


def test_a_rows_epsilon_is_that_of_the_steps_before_it(tmp_path: Path) -> None:
    rollouts, (first, second, _) = run(tmp_path)
    exploration = exploring(epsilon_initial=1.0, epsilon_final=0.0, epsilon_hold_steps=0, epsilon_steps=1000)
    asked = [(first, 0, 0), (second, 1, 3), (first, 1, HORIZON), (second, 0, HORIZON + 2)]
    found = exploration.epsilon_of(asked, rollouts, ENVIRONMENTS)
    steps = [120, 120 + 3 * 12, 120 + 4 * 12, 120 + 6 * 12]
    expected = torch.tensor([1 - step / 1000 for step in steps]).repeat_interleave(ENVS)
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
    exploration = exploring(**numbers)
    asked = [(blocks, group, 0) for blocks in members for group in range(GROUPS)]
    found = exploration.epsilon_of(asked, rollouts, ENVIRONMENTS)
    torch.testing.assert_close(found[:ENVIRONMENTS], torch.logspace(-3, 0, ENVIRONMENTS) * 0.4)
    torch.testing.assert_close(found[ENVIRONMENTS:], found[: GROUPS * ENVS])


@pytest.mark.parametrize(
    ("steps", "expected"), [(0, 1.0), (100, 1.0), (150, 0.75), (200, 0.5), (300, 0.0), (10**12, 0.0)]
)
def test_epsilon_holds_then_falls_in_a_line(steps: int, expected: float) -> None:
    made = exploring(epsilon_final=0.0, epsilon_hold_steps=100, epsilon_steps=200)
    assert made.epsilon(steps, torch.arange(3), 3).tolist() == pytest.approx([expected] * 3)


def test_final_epsilons_of_environments_are_spaced_by_their_logarithms() -> None:
    made = exploring(epsilon_final=0.1, epsilon_final_min=0.001, epsilon_hold_steps=0, epsilon_steps=10)
    assert made.epsilon(10, torch.arange(3), 3).tolist() == pytest.approx([0.001, 0.01, 0.1])
    assert made.epsilon(10, torch.tensor([2, 0]), 3).tolist() == pytest.approx([0.1, 0.001])
    assert made.epsilon(5, torch.tensor([1]), 3).tolist() == pytest.approx([0.505])
    assert made.epsilon(10, torch.tensor([0]), 1).tolist() == pytest.approx([0.001])


def test_actions_are_those_chosen_at_zero_any_at_one_and_of_the_generator_alone() -> None:
    made, best = exploring(epsilon_eval=0.0), torch.arange(600) % ACTIONS

    def explored(epsilon: torch.Tensor | None, seed: int = 0) -> torch.Tensor:
        action = made.explore(best, torch.Generator().manual_seed(seed), epsilon)
        assert action.dtype == torch.int64
        return action

    assert torch.equal(explored(torch.zeros(600)), best)
    assert torch.equal(explored(None), best), "evaluation's own epsilon"
    counts = torch.bincount(explored(torch.ones(600)), minlength=ACTIONS)
    assert counts.min() > 150, "all actions, when 200 of each are expected, with a deviation of 12"
    half = torch.cat([torch.zeros(300), torch.ones(300)])
    assert torch.equal(explored(half)[:300], best[:300]) and not torch.equal(explored(half)[300:], best[300:])
    assert torch.equal(explored(half), explored(half)) and not torch.equal(explored(half), explored(half, seed=1))
    assert torch.equal(explored(half)[300:], explored(torch.ones(600))[300:]), "a row's luck is its own"


def test_evaluations_have_an_epsilon_of_their_own() -> None:
    best = torch.zeros(1000, dtype=torch.int64)
    found = exploring(epsilon_eval=0.5).explore(best, torch.Generator().manual_seed(0))
    assert 600 < (found == 0).sum() < 735, "two thirds are expected, with a deviation of 15"


def test_a_policy_explores_where_its_algorithm_asks_for_it_and_never_when_greedy() -> None:
    seen = torch.zeros(500, 4)
    values, drawing = policy(algorithm="dqn"), policy(algorithm="a2c")
    assert values.exploration is not None and drawing.exploration is None
    best = values.choose(seen, 0, greedy=True)["action"]
    always, never = (values.choose(seen, 0, epsilon=torch.full((500,), share))["action"] for share in (1.0, 0.0))
    assert torch.equal(never, best) and 200 < int((always == best).sum()) < 300
    assert torch.equal(values.choose(seen, 0, greedy=True, epsilon=torch.ones(500))["action"], best)


def test_numbers_at_random_are_anywhere_from_minus_one_to_one() -> None:
    exploration = make(named.algorithm("dqn"), (2,))
    assert exploration is not None
    chosen = torch.full((1000, 2), 5.0)
    found = exploration.explore(chosen, torch.Generator().manual_seed(0), torch.ones(1000))
    assert found.abs().max() <= 1.0 and found.mean(0).abs().max() < 0.1
    torch.testing.assert_close(found.var(0), torch.full((2,), 1 / 3), atol=0.05, rtol=0.0)
    half = exploration.explore(chosen, torch.Generator().manual_seed(0), torch.full((1000,), 0.5))
    assert ((half == 5.0).all(-1) | (half != 5.0).all(-1)).all(), "an action is replaced as a whole"
    assert 400 < int((half[:, 0] == 5.0).sum()) < 600


def test_several_choices_at_once_are_not_explored() -> None:
    with pytest.raises(
        ValueError,
        match=r"'dqn' explores by random actions of a Discrete or Box space.* choices at once, of \[3, 2\]",
    ):
        make(named.algorithm("dqn"), MultiDiscrete((3, 2)))


def test_with_a_mask_the_valid_actions_alone_are_drawn_each_as_often() -> None:
    exploration = make(named.algorithm("dqn"), ACTIONS)
    assert exploration is not None
    mask = torch.zeros(6000, ACTIONS)
    mask[:, [0, ACTIONS - 1]] = 1.0
    found = exploration.explore(
        torch.zeros(6000, dtype=torch.int64), torch.Generator().manual_seed(0), torch.ones(6000), mask
    )
    assert set(found.tolist()) == {0, ACTIONS - 1}
    assert abs((found == 0).float().mean() - 0.5) < 0.03
