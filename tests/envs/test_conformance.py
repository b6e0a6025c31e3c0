"""Every way to make an environment meets the contract that plug-ins inherit; a new one adds a class of two lines.

Ways: one environment after the other, ale-py's vector of games, EnvPool, PettingZoo, and gymnasium's vectors in all
three autoreset modes.
"""

from __future__ import annotations

import itertools
from importlib.util import find_spec

import numpy as np
import pytest

from actorlearn.testing.environment import EnvironmentContract, column, play
from tests.envs.playing import needs_envpool

GAMES = "tests.envs.games"


class Ours(EnvironmentContract):
    """Further properties of the environments here: their games differ by seed, and most end at a time limit."""

    limit: int | None = None
    """Most steps of a game, if it is not the section's ``time_limit_steps``."""

    def test_other_seeds_make_other_games(self) -> None:
        observation = column(self.rows, "observation")
        assert (observation[:, 0] != observation[:, 1]).any()

    def test_a_step_has_as_many_frames_as_frame_skip_says(self) -> None:
        skip = getattr(self.settings, "frame_skip", 1)
        assert self.env.spec.frames_per_step == skip == (4 if "ALE/" in self.settings.id else 1)

    def test_the_time_limit_truncates_after_that_many_steps(self) -> None:
        limit = self.limit or self.settings.time_limit_steps or 2**62  # 0: none
        for first, truncated, terminated in zip(
            *(column(self.rows, name).T for name in ("first", "truncated", "terminated")), strict=True
        ):
            starts, cuts = np.flatnonzero(first), np.flatnonzero(truncated)
            assert set(cuts - limit) <= set(starts)
            for start, following in itertools.pairwise(starts):
                assert following - 1 - start <= limit
                assert truncated[following - 1] == (not terminated[following - 1])
        if self.settings.id != "actorlearn.envs.catch:Catch":
            assert column(self.rows, "truncated").any()

    def test_a_time_limit_counts_from_the_restart(self) -> None:
        limit = self.settings.time_limit_steps
        if not 0 < limit <= 100 or not self.restarts:
            pytest.skip("no game reaches the limit, or games cannot be restarted")
        played = limit // 2
        stay = np.zeros_like(self.actions[:played])
        row = play(self.env, stay)[-1]
        self.env.restart(self.second, row)
        steps = 0
        while not (row.terminated | row.truncated)[1]:
            self.env.step(stay[0], row)
            steps += 1
        if row.terminated[1]:
            pytest.skip("games end before the limit")
        assert limit - played < steps <= limit  # no-ops count too, and are fewer than the steps before the restart


@pytest.mark.nightly
class TestDQNsAtari(Ours):
    section = {"id": "ALE/Breakout-v5", "preset": "dqn", "time_limit_steps": 40}
    steps = 90


class TestPAACsAtari(Ours):
    section = {"id": "ALE/Pong-v5", "preset": "paac", "time_limit_steps": 20, "stack": 2}
    steps = 50


class TestBA3CsAtari(Ours):
    section = {"id": "ALE/Pong-v5", "preset": "ba3c", "time_limit_steps": 20, "repeat_action_probability": 0.25}
    steps = 50


@pytest.mark.nightly
class TestStookeAbbeelsAtari(Ours):
    section = {
        "id": "ALE/MsPacman-v5",
        "preset": "stooke-abbeel",
        "time_limit_steps": 25,
        "repeat_action_probability": 0.25,
        "stack": 1,
    }
    steps = 60


@needs_envpool
class TestDQNsAtariOfEnvPool(Ours):
    section = {"id": "envpool:ALE/Breakout-v5", "preset": "dqn", "time_limit_steps": 40}
    steps = 90


@needs_envpool
class TestPAACsAtariOfEnvPool(Ours):
    section = {"id": "envpool:ALE/Pong-v5", "time_limit_steps": 20, "stack": 2, "fire_on_reset": True}
    steps = 50


@needs_envpool
class TestStickyAtariOfEnvPool(Ours):
    section = {
        "id": "envpool:ALE/MsPacman-v5",
        "preset": "stooke-abbeel",
        "time_limit_steps": 25,
        "repeat_action_probability": 0.25,
        "stack": 1,
        "full_action_space": True,
    }
    steps = 60
    exact = False


@needs_envpool
class TestClassicControlOfEnvPool(Ours):
    section = {"id": "envpool:CartPole-v1", "time_limit_steps": 20}
    steps = 300


@needs_envpool
class TestRegisteredLimitOfEnvPool(Ours):
    section = {"id": "envpool:MountainCar-v0"}
    steps = 450
    limit = 200


@needs_envpool
class TestStretchedActionsOfEnvPool(Ours):
    section = {"id": "envpool:Pendulum-v1", "time_limit_steps": 30, "scale_actions": True}
    steps = 90


@needs_envpool
class TestMuJoCoOfEnvPool(Ours):
    section = {"id": "envpool:Hopper-v4", "time_limit_steps": 30, "kwargs": {"frame_skip": 2}}
    steps = 150


@needs_envpool
class TestDMControlOfEnvPool(Ours):
    section = {"id": "envpool:CartpoleBalance-v1", "time_limit_steps": 30}
    steps = 90


@needs_envpool
class TestOneHotOfEnvPool(Ours):
    section = {"id": "envpool:FrozenLake-v1", "time_limit_steps": 6}
    steps = 60
    exact = False


class TestCartPole(Ours):
    section = {"id": "CartPole-v1", "time_limit_steps": 20}
    steps = 300


class TestCartPoleOneByOne(Ours):
    section = {**TestCartPole.section, "vector": "none"}
    steps = 300


class TestCartPoleOfGymnasium(Ours):
    section = {
        **TestCartPole.section,
        "vector": "gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv",
    }
    steps = 300
    exact = independent = restarts = False


class TestRegisteredLimit(Ours):
    section = {"id": "MountainCar-v0"}
    steps = 450
    limit = 200


class TestCatch(Ours):
    section = {"id": "actorlearn.envs.catch:Catch"}
    steps = 100


class TestRecall(Ours):
    section = {"id": "actorlearn.envs.recall:Recall", "time_limit_steps": 5}
    steps = 40


class TestAcrobot(Ours):
    section = {"id": "Acrobot-v1", "time_limit_steps": 30}
    steps = 90


class TestPendulum(Ours):
    section = {"id": "Pendulum-v1", "time_limit_steps": 30}
    steps = 90


class TestContinuousMountainCar(Ours):
    section = {"id": "MountainCarContinuous-v0", "time_limit_steps": 30}
    steps = 90


class TestKwargs(Ours):
    section = {"id": "CliffWalking-v1", "kwargs": {"is_slippery": True}, "time_limit_steps": 30}
    steps = 90


class TestOneHot(Ours):
    section = {"id": "FrozenLake-v1", "time_limit_steps": 6}
    steps = 60


class TestBoxActions(Ours):
    section = {"id": f"{GAMES}:Walk", "time_limit_steps": 9}
    steps = 40


class TestStretchedActions(TestBoxActions):
    section = {**TestBoxActions.section, "scale_actions": True}


class TestStartAndFloat64(Ours):
    section = {"id": f"{GAMES}:Counter", "time_limit_steps": 5}
    steps = 40


class TestDictAndSeveralChoices(Ours):
    section = {"id": f"{GAMES}:Safe", "time_limit_steps": 7}
    steps = 60


class TestWrappers(Ours):
    section = {
        "id": f"{GAMES}:Safe",
        "kwargs": {"digits": 1},
        "wrappers": [
            {"name": "gymnasium.wrappers:TimeLimit", "kwargs": {"max_episode_steps": 4}},
            {"name": "gymnasium.wrappers:RecordEpisodeStatistics"},
        ],
    }
    steps = 60
    limit = 4


class TestMasks(Ours):
    section = {"id": "Taxi-v4", "time_limit_steps": 30}
    steps = 90
    exact = False


class TestAnErrorForAnInvalidAction(EnvironmentContract):
    section = {"id": "tests.envs.doors:Strict"}


class TestMasksOfSeveralChoices(EnvironmentContract):
    section = {"id": "tests.envs.doors:Strict", "kwargs": {"source": "observation", "pairs": True}}


class TestMasksOfAVector(EnvironmentContract):
    section = {
        "id": "tests.envs.doors:Once",
        "vector": "tests.envs.doors:endless",
        "kwargs": {"mode": "SameStep"},
        "action_mask": "info",
        "time_limit_steps": 9,
    }
    exact = False


@pytest.mark.skipif(find_spec("pettingzoo") is None, reason="pip install 'actorlearn[pettingzoo]'")
class TestAgents(Ours):
    section = {"id": "pettingzoo:tests.envs.parallel:Crowd", "time_limit_steps": 12}
    steps = 90

    def test_the_time_limit_truncates_after_that_many_steps(self) -> None:
        first = column(self.rows, "first").reshape(len(self.rows), 2, 3)
        truncated = column(self.rows, "truncated").reshape(first.shape)
        for game in range(2):
            starts = np.flatnonzero(first[:, game].all(axis=1))
            lengths = np.diff(starts) - 1
            assert lengths.max() == 12 and lengths.min() < 12
            for start in starts[:-1][lengths == 12]:
                last = start + 12
                assert (truncated | first)[last, game].any() and not (first[last, game]).all()

    def test_a_time_limit_counts_from_the_restart(self) -> None:
        stay = np.zeros_like(self.actions[0])
        row, lengths = play(self.env, self.actions[:7])[-1], []
        for _ in range(20):
            self.env.restart(self.second, row)
            steps = 0
            while not (steps and row.first[self.second].all()):
                self.env.step(stay, row)
                steps += 1
            lengths.append(steps)
        assert max(lengths) == 13, "twelve steps, and the one to the next game"


def vector(name: str, mode: str, maker: str = "synchronous", limit: int = 9) -> dict[str, object]:
    """Section of gymnasium's own vector of environments of ``games.py``, in an autoreset mode."""
    return {
        "id": f"{GAMES}:{name}",
        "vector": f"{GAMES}:{maker}",
        "kwargs": {"name": name, "mode": mode},
        "time_limit_steps": limit,
    }


class TestNextStep(Ours):
    section = vector("Walk", "NextStep")
    steps = 40
    exact = False


class TestSameStep(TestNextStep):
    section = vector("Walk", "SameStep")


class TestDisabled(TestNextStep):
    section = vector("Walk", "Disabled")


class TestNextStepWithStart(TestNextStep):
    section = vector("Counter", "NextStep", "limitless", limit=5)


class TestSameStepWithStart(TestNextStep):
    section = vector("Counter", "SameStep", "limitless", limit=5)


class TestDisabledWithStart(TestNextStep):
    section = vector("Counter", "Disabled", "limitless", limit=5)


class TestNextStepOfDicts(TestNextStep):
    section = vector("Safe", "NextStep", limit=7)
    steps = 60


class TestSameStepOfDicts(TestNextStepOfDicts):
    section = vector("Safe", "SameStep", limit=7)


class TestDisabledOfDicts(TestNextStepOfDicts):
    section = vector("Safe", "Disabled", "limitless", limit=7)
