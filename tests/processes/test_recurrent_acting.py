"""The state of a recurrent network in blocks: the learner computes the outputs that acting computed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
from torch import Tensor

from actorlearn.acting.policy import Policy
from actorlearn.address import Shm
from actorlearn.algorithms.policies import Categorical
from actorlearn.envs.make import make
from actorlearn.memory.account import Account, account_fields
from actorlearn.memory.rollout import Blocks, Rollouts, make_segment, rollouts_fields
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes.batches import Gatherer
from actorlearn.processes.evaluator import play
from actorlearn.processes.members import RolloutMembers
from actorlearn.processes.simulator import EnvGroup
from actorlearn.wire.messages import Member
from tests import named
from tests.blocks import block_shape
from tests.identities import process
from tests.learning.made import ENVIRONMENTS as LEARNED
from tests.learning.made import HORIZON, batch, learning

ENV = named.env(id=f"{__name__}:Short", time_limit_steps=4)
ENVIRONMENTS = 3
SIZE = 5


class Short(gymnasium.ObservationWrapper[Any, Any, Any]):
    """CartPole by two of its four numbers."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.observation_space = gymnasium.spaces.Box(-10.0, 10.0, (2,))

    def observation(self, observation: Any) -> Any:
        return observation[2:]


@pytest.mark.parametrize(("groups", "blocks"), [(1, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize("recurrence", ["lstm", "gru"])
def test_the_learners_outputs_equal_those_of_acting(tmp_path: Path, recurrence: str, groups: int, blocks: int) -> None:
    """Over many rollouts, with games that begin and end in the middle, and the bootstrap row that opens the next one.

    With PPO, which records the value and the action's log-probability.
    """
    model = named.model(name="mlp", hidden_sizes=[6], recurrence=recurrence, recurrent_size=SIZE)
    learner = learning(model, name="ppo")
    policy = Policy(learner.settings.policy, "cpu", seed=5, stream=0)
    policy.flat.copy_(learner.weights)
    shape = block_shape(
        groups=groups,
        blocks=blocks,
        horizon=HORIZON,
        envs_per_group=ENVIRONMENTS,
        columns=learner.algorithm.columns(2),
        state_size=learner.network.state_size,
    )
    rollouts = Rollouts(Segment.create(tmp_path / "rollouts", rollouts_fields()))
    member = Blocks(make_segment(tmp_path / "simulator-0.0", shape))
    account = Account(Segment.create(tmp_path / "account", account_fields()))
    members = RolloutMembers(rollouts, account, Episodes(), blocks)
    gatherer = Gatherer(rollouts, "cpu", learner.columns)
    members.follow([Member(id=process("simulator-0"), segment=Shm(str(tmp_path / "simulator-0.0")))], [])
    envs = [make(ENV, [7 * g + i for i in range(ENVIRONMENTS)]) for g in range(groups)]
    players = [EnvGroup(g, env, member, rollouts) for g, env in enumerate(envs)]
    for player in players:
        list(player.starts.first(4, [player.index]))  # in the middle of a game, of which the network has seen nothing
    member.mark_ready()
    members.open_next()
    begun, bootstrap = 0, None
    for _ in range(8):
        while (parts := members.parts()) is None:
            for player in players:
                if player.advance() == "observed":
                    policy.act([(member, player.index, player.timestep)])
        taken = gatherer.gather(members.next, parts, version=0).batch
        assert taken.columns["state"].shape == (1, groups * ENVIRONMENTS, learner.network.state_size)
        with torch.no_grad():
            outputs = learner.network.outputs(taken)
            of_prepared = learner.network.outputs(learner.minibatches.prepare(taken))
        log_prob, value = Categorical(outputs["logits"][:-1]).log_prob(taken.action), taken.columns["value"]
        torch.testing.assert_close(log_prob, taken.columns["log_prob"], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(outputs["value"][:-1].squeeze(-1), value, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(of_prepared["logits"], outputs["logits"][:-1], atol=1e-5, rtol=1e-4)
        if bootstrap is not None:
            torch.testing.assert_close(bootstrap[0], value[0], atol=1e-5, rtol=1e-4)
        bootstrap = outputs["value"][-1:].squeeze(-1)
        torch.testing.assert_close(learner.network.outputs(taken, 1)["value"].squeeze(-1), bootstrap)
        begun += int(taken.first[1:-1].any())
        account.rollouts_learned += 1
        members.open_next()
    assert begun >= 2, "games should begin in the middle of blocks"
    for env in envs:
        env.close()


@pytest.mark.parametrize("recurrence", ["lstm", "gru"])
def test_parts_of_a_batch_are_whole_environments_with_their_state(recurrence: str) -> None:
    model = named.model(name="mlp", hidden_sizes=[6], recurrence=recurrence, recurrent_size=SIZE)
    learner = learning(model)
    state = torch.randn(1, LEARNED, learner.network.state_size, generator=torch.Generator().manual_seed(1))
    whole = dataclasses.replace(batch(), columns={"state": state})
    value = learner.network.outputs(whole)["value"]
    for chosen in (torch.tensor([3]), torch.tensor([5, 0, 2])):
        torch.testing.assert_close(learner.network.outputs(whole.environments(chosen))["value"], value[:, chosen])


def test_an_evaluation_keeps_the_state_within_a_game_and_resets_it_between_games() -> None:
    learner = learning(named.model(name="mlp", recurrence="gru", recurrent_size=1))
    policy = Policy(learner.settings.policy, "cpu", seed=5, stream=0)
    seen: list[tuple[list[bool], Tensor]] = []
    choose = policy.choose

    def watched(observation: Tensor, moment: int, greedy: bool, state: Tensor, first: Tensor) -> dict[str, Tensor]:
        seen.append((first.tolist(), state.clone()))
        return choose(observation, moment, greedy, state, first)

    policy.choose = watched  # type: ignore[method-assign, assignment]
    rows = [True] + [False] * 4  # all five of a game: that it was the last is said by the row after it
    for seed in (1, 2):
        seen.clear()
        games = [score for score in play(policy, ENV, 3, greedy=False, seed=seed) if score is not None]
        assert games == [4.0] * 3
        assert [first for first, _ in seen] == [[begins] * 3 for begins in rows]
        assert not seen[0][1].any() and seen[1][1].all(), "the state goes on from the first row"
