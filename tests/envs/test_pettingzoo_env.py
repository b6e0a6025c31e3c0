"""PettingZoo's parallel environments: their rows have the transitions that a plain loop over a game gives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.envs.interface import MalformedStepError, empty_row
from actorlearn.envs.make import make, make_rendered, spec
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes.simulator import decorrelate
from actorlearn.replay.rows import ReplayShape
from actorlearn.testing.environment import FLAGS, column, play, poisoned_row, random_actions
from tests import named
from tests.envs.playing import opened
from tests.replay.buffers import make as make_replay
from tests.replay.games import everything

pytest.importorskip("pettingzoo", reason="pip install 'actorlearn[pettingzoo]'")

from tests.envs.parallel import NAMES, Crowd, Scripted, Three

SCRIPTED = "pettingzoo:tests.envs.parallel:Scripted"
"""It plays its games in order, so that a reset that looks for masks would skip the first."""
EVENTS = ("on", "on", "terminated", "truncated", "left", "come")


class Unlike(Three):
    """Its second agent has one more action."""

    def __init__(self) -> None:
        super().__init__()
        self.spaces["bob"] = (self.spaces["bob"][0], Crowd().action_space("ann").__class__(4))


class Silent(Three):
    """Its steps lack the observation of an agent."""

    def reset(self, seed=None, options=None):
        self.agents = list(NAMES)
        return {name: np.zeros(4, np.float32) for name in NAMES}, {}

    def step(self, actions):
        seen = {name: np.zeros(4, np.float32) for name in NAMES[:2]}
        return seen, dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, False), dict.fromkeys(NAMES, False), {}


def not_an_environment() -> str:
    return "nothing"


def game(there: Sequence[bool], *steps: Sequence[str]) -> dict[str, Any]:
    return {"there": list(there), "steps": [list(step) for step in steps]}


games = st.builds(
    lambda there, steps: game(there, *steps),
    st.tuples(st.booleans(), st.booleans(), st.booleans()).filter(any),
    st.lists(st.tuples(*[st.sampled_from(EVENTS)] * 3), max_size=6),
)


def transitions_of_a_plain_loop(env: Any, actions: Any, rows: int, limit: int) -> list[list[tuple[Any, ...]]]:
    """Play as PettingZoo's documentation does; return each agent's (observation, action, outcome), in order.

    ``rows`` limits the number of resets and steps.
    """
    found: list[list[tuple[Any, ...]]] = [[], [], []]
    row = 0
    while row < rows:
        seen, _ = env.reset()
        over, steps, row = set(), 0, row + 1
        alive = [agent for agent in env.agents]
        while alive and row < rows:
            act = {agent: int(actions[row - 1][NAMES.index(agent)]) for agent in env.agents}
            after, rewards, terminated, truncated, _ = env.step(act)
            steps, row = steps + 1, row + 1
            for agent in alive:
                ended = terminated[agent]
                cut = not ended and (truncated[agent] or agent not in env.agents or steps == limit)
                outcome = (rewards[agent], tuple(after[agent]), ended, cut)
                found[NAMES.index(agent)].append((tuple(seen[agent]), act[agent], *outcome))
                if ended or cut:
                    over.add(agent)
            flagged = {agent for agent in env.agents if terminated.get(agent) or truncated.get(agent)}
            alive = [] if steps == limit else [agent for agent in env.agents if agent not in flagged]
            seen = after
    return found


@settings(max_examples=200, deadline=None)
@given(st.lists(games, min_size=1, max_size=3), st.booleans(), st.integers(0, 5))
def test_each_agent_has_the_transitions_of_a_plain_loop(games: list[dict[str, Any]], tidy: bool, limit: int) -> None:
    rows, kwargs = 30, {"games": games, "tidy": tidy}
    actions = np.random.default_rng(0).integers(3, size=(rows, 3))
    with opened(named.env(id=SCRIPTED, action_mask="none", kwargs=kwargs, time_limit_steps=limit), [5]) as env:
        played = play(env, actions[: rows - 1])
    wanted = transitions_of_a_plain_loop(Scripted(**kwargs), actions, rows, limit)
    seen, reward, first = (column(played, name) for name in ("observation", "reward", "first"))
    terminated, truncated = column(played, "terminated"), column(played, "truncated")
    for agent in range(3):
        found = [
            (tuple(seen[t, agent]), actions[t, agent], reward[t + 1, agent], tuple(seen[t + 1, agent]), *flags)
            for t, flags in enumerate(zip(terminated[1:, agent], truncated[1:, agent], strict=True))
            if not first[t + 1, agent]  # the valid transitions of processes/batches.py
        ]
        assert found == wanted[agent]
    void = first & ~seen.any(axis=2)
    assert not (reward[first].any() or (terminated | truncated)[first].any())
    assert (seen[~void][:, 3] == 1).all() and first[void].all()


@settings(max_examples=100, deadline=None)
@given(st.lists(games, min_size=1, max_size=2))
def test_episodes_are_the_games_of_single_agents_and_no_others(games: list[dict[str, Any]]) -> None:
    rows, horizon = 31, 5
    actions = np.random.default_rng(1).integers(3, size=(rows - 1, 3))
    with opened(named.env(id=SCRIPTED, action_mask="none", kwargs={"games": games}), [5]) as env:
        played = play(env, actions)
    episodes = Episodes(10**6)
    reward, first = column(played, "reward"), column(played, "first")
    over = column(played, "terminated") | column(played, "truncated")
    for begin in range(0, rows - 1, horizon):
        block = slice(begin, begin + horizon + 1)
        episodes.add("simulator-0", reward[block], over[block], first[block])
    lives = []
    for agent in transitions_of_a_plain_loop(Scripted(games), np.concatenate([actions, actions[:1]]), rows, 0):
        life: list[float] = []
        for *_, gained, _, ended, cut in agent:
            life.append(gained)
            if ended or cut:
                lives.append((sum(life), len(life)))
                life = []
    assert sorted(zip(episodes.recent, episodes.recent_lengths, strict=True)) == sorted(lives)
    assert episodes.finished == len(lives)


def test_a_new_game_begins_with_the_agents_of_its_reset_when_all_have_ended() -> None:
    script = game([True, True, False], ["terminated", "on", "come"], ["come", "truncated", "terminated"], ["left"] * 3)
    with opened(named.env(id=SCRIPTED, kwargs={"games": [script]}), [0]) as env:
        rows = play(env, np.ones((6, 3), np.int64))
    there = [["", "", "void"], ["over", "", ""], ["", "over", "over"], ["over", "void", "void"], ["", "", "void"]]
    for row, told in zip(rows, there, strict=False):
        over = row.terminated | row.truncated
        void = row.first & ~row.observation.any(axis=1)
        assert ["void" if v else "over" if o else "" for v, o in zip(void, over, strict=True)] == told
    assert [row.first.all().item() for row in rows] == [True, False, False, False, True, False, False]
    assert rows[3].truncated[0] and rows[1].terminated[0], "an agent that leaves without a flag is truncated"


def test_rows_list_the_agents_game_by_game() -> None:
    with opened(named.env(id="pettingzoo:tests.envs.parallel:Crowd"), [3, 4]) as env:
        rows = play(env, random_actions(env.spec, 6, 5))
        assert (env.count, env.spec.agents) == (6, 3)
    for row in rows:
        who = np.where(row.observation.any(axis=1), row.observation[:, 0], [0, 1, 2, 0, 1, 2])
        assert who.tolist() == [0, 1, 2, 0, 1, 2]


def test_a_part_of_a_game_is_not_restarted() -> None:
    with opened(named.env(id="pettingzoo:tests.envs.parallel:Crowd"), [3, 4]) as env:
        row = play(env, np.zeros((0, 6), np.int64))[0]
        with pytest.raises(ValueError, match="all 3 agents"):
            env.restart(np.arange(6) < 2, row)


def test_decorrelate_moves_all_agents_of_a_game_together() -> None:
    with opened(named.env(id="pettingzoo:tests.envs.parallel:Crowd"), range(40)) as env:
        row = poisoned_row(env.spec, env.count)
        for _ in decorrelate(env, row, 4, [1]):
            pass
    time = row.observation.reshape(40, 3, 4)[:, :, 1].max(axis=1)
    assert set(time.tolist()) == {0, 1, 2, 3, 4}
    over = (row.terminated | row.truncated | row.first).reshape(40, 3)
    assert not (over.all(axis=1) & ~row.first.reshape(40, 3).all(axis=1)).any(), "a game that has ended begins anew"


def test_the_index_of_an_agent_is_appended_to_its_vector() -> None:
    with opened(named.env(id="pettingzoo:tests.envs.parallel:Crowd", agent_index=True), [3, 4]) as env:
        rows = play(env, random_actions(env.spec, 6, 9))
        assert env.spec.observation_shape == (7,) and "one-hot of 3" in env.spec.observation_from
    for row in rows:
        present = row.observation.any(axis=1)
        np.testing.assert_array_equal(row.observation[present, 4:], np.tile(np.eye(3), (2, 1))[present])
        assert (row.observation[present, 0] == np.tile([0, 1, 2], 2)[present]).all()


def test_rendered_games_are_the_same_games_with_one_picture_each() -> None:
    section = named.env(id=SCRIPTED, kwargs={"games": [game([True, True, True], ["on"] * 3)]})
    rendered = make_rendered(section, [0, 1])
    try:
        rows = play(rendered, np.ones((2, 6), np.int64))
        pictures = rendered.render()
    finally:
        rendered.close()
    with opened(section, [0, 1]) as env:
        again = play(env, np.ones((2, 6), np.int64))
    np.testing.assert_array_equal(column(rows, "observation"), column(again, "observation"))
    assert [picture.shape for picture in pictures] == [(40, 61, 3)] * 2


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"id": "pettingzoo:mpe/simple_spread_v3"}, "pip install mpe2.*pettingzoo:mpe2.simple_spread_v3"),
        ({"id": "pettingzoo:butterfly/pistonbal-v6"}, "did you mean 'pettingzoo:butterfly/pistonball-v6'"),
        ({"id": "pettingzoo:nowhere.env"}, "no module 'nowhere' can be imported"),
        ({"id": "pettingzoo:sisl.pursuit_v4"}, "did you mean 'pettingzoo:sisl/pursuit-v"),
        ({"id": "pettingzoo:tictactoe_v3"}, "tictactoe-v3 is a game with turns; only parallel environments"),
        ({"id": "pettingzoo:tests.envs.parallel"}, "has no class or function 'parallel_env'"),
        ({"id": f"pettingzoo:{__name__}:not_an_environment"}, "makes 'nothing'; it must be a pettingzoo.ParallelEnv"),
        ({"id": "pettingzoo:tests.envs.parallel:Crowd", "kwargs": {"size": 3}}, "unexpected keyword argument 'size'"),
        (
            {"id": f"pettingzoo:{__name__}:Unlike"},
            r"agent 'bob' has action space Discrete\(4\), but 'ann' has Discrete\(3\)",
        ),
    ],
)
def test_ids_and_classes_that_cannot_be_played_are_refused_in_one_line(section: dict[str, Any], says: str) -> None:
    for build in (spec, lambda own: make(own, [0])):
        with pytest.raises(ValueError, match=says) as refused:
            build(named.env(**section))
        assert "\n" not in str(refused.value)


def test_an_agent_without_an_observation_is_refused_by_name() -> None:
    with opened(named.env(id=f"pettingzoo:{__name__}:Silent"), [0]) as env:
        row = play(env, np.zeros((0, 3), np.int64))[0]
        with pytest.raises(MalformedStepError, match=r"environment 2 .* lacks 'cid'"):
            env.step(np.zeros(3, np.int64), row)


def test_an_environment_without_state_and_restore_is_marked_as_inexact() -> None:
    assert "no methods state() and restore(state)" in spec(named.env(id=f"pettingzoo:{__name__}:Silent")).inexact


def test_environments_of_packages_are_played() -> None:
    pytest.importorskip("mpe2", reason="pip install mpe2")
    with opened(named.env(id="pettingzoo:mpe2.simple_spread_v3", kwargs={"max_cycles": 5}), [1, 2]) as env:
        rows = play(env, random_actions(env.spec, 6, 12))
        assert env.spec.agents == 3 and env.spec.observation_shape == (18,)
    assert column(rows, "truncated")[5].all() and column(rows, "first")[[0, 6]].all()


@pytest.mark.parametrize("horizon", [1, 2, 3, 5])
def test_a_replay_has_the_transitions_of_agents_and_no_rows_of_absent_ones(tmp_path: Path, horizon: int) -> None:
    rollouts, agents = 60 // horizon, 3
    with opened(named.env(id="pettingzoo:tests.envs.parallel:Crowd"), [8]) as env:
        actions = random_actions(env.spec, agents, rollouts * horizon)
        rows = play(env, actions)
    margin = horizon + 1
    shape = ReplayShape(
        rings=agents,
        size=margin + 200,
        margin=margin,
        stack=1,
        observation_shape=(4,),
        observation_dtype="float32",
        actions=3,
    )
    returns = OffPolicySettings(
        n_step=1, discount=0.9, reward_clip=None, life_loss_terminal=False, bootstrap_on_truncation=True
    )
    replay = make_replay(tmp_path, shape, returns)
    columns = {name: column(rows, name) for name in ("observation", "reward", *FLAGS)}
    columns["action"] = np.concatenate([actions, actions[:1]])
    for rollout in range(rollouts):
        block = slice(rollout * horizon, (rollout + 1) * horizon + 1)
        assert replay.add("simulator-0", rollout, {name: rows[block] for name, rows in columns.items()})
        replay.flush()
    sample = everything(replay)
    found = {
        (*sample.observation[0, i], int(action), *sample.observation[-1, i])
        for i, action in enumerate(sample.action[0])
    }
    seen, first = columns["observation"], columns["first"]
    wanted = {
        (*seen[t, agent], int(actions[t, agent]), *seen[t + 1, agent])
        for t in range(rollouts * horizon)
        for agent in range(agents)
        if not first[t + 1, agent]
    }
    newest = {
        (*seen[t, a], int(actions[t, a]), *seen[t + 1, a])
        for t in range(len(rows) - 1 - horizon - 2, len(rows) - 1)
        for a in range(3)
    }
    assert found <= wanted and wanted - found <= newest and len(found) > 60


@pytest.mark.parametrize("source", ["info", "observation"])
def test_each_agent_has_its_own_mask(source: str) -> None:
    settings = named.env("pettingzoo:tests.envs.parallel:Masked", kwargs={"source": source}, action_mask="auto")
    with opened(settings, [0, 1]) as env:
        assert env.spec.action_mask is not None and env.spec.action_mask.source == source
        assert env.spec.observation_shape == (4 + 3,)
        row, random = empty_row(env.spec, env.count), np.random.default_rng(0)
        env.reset(row)
        for _ in range(20):
            env.step(env.random_actions(random), row)
