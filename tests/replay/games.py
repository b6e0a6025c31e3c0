"""Contents that a replay must have, by whole games (``tests/replay/ledger.py``), never from the replay itself."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
import pytest

from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.replay.buffer import Replay, Sample
from actorlearn.replay.samplers import Drawn, Uniform
from tests.replay.ledger import ENVS, Game, Simulated

Place = tuple[int, int, int]
"""Environment, game, step: what a frame of the ledger says."""


def everything(replay: Replay) -> Sample:
    """Every item that can be drawn, once each, by place in the rings."""
    chosen = replay.drawable()
    arrays = replay.sampler.arrays()
    if isinstance(replay.sampler, Uniform):
        assert sorted(arrays["cell"].tolist()) == sorted(chosen.tolist())
    else:
        assert set(np.flatnonzero(arrays["priority"])) <= set(chosen.tolist())
    with mock.patch.object(replay.sampler, "draw", lambda count, _random: Drawn(chosen, np.ones(count))):
        return replay.sample(len(chosen), np.random.default_rng(0))


def place_of(observation: np.ndarray) -> Place:
    environment, game, step = (int(x) for x in observation[-1])
    return environment, game - 1, step - 1


def expected(game: Game, t: int, returns: OffPolicySettings) -> tuple[float, float, int]:
    """n-step sum, discount of the value, and the step reached, one reward after another."""
    total, weight = 0.0, 1.0
    for _ in range(returns.n_step):
        t += 1
        arrival, reward = game.steps[t], game.steps[t].reward
        if returns.reward_clip is not None:
            reward = min(max(reward, -returns.reward_clip), returns.reward_clip)
        total += weight * reward
        weight *= returns.discount
        if arrival.terminated or (arrival.life_lost and returns.life_loss_terminal):
            return total, 0.0, t
        if arrival.truncated:
            return total, weight if returns.bootstrap_on_truncation else 0.0, t
    return total, weight, t


@dataclass
class Stream:
    """One simulator's stay, and every transition of the blocks it stored, by the rule that batches have for them."""

    simulator: Simulated
    owner: str
    transitions: list[list[Place]] = field(default_factory=lambda: [[] for _ in range(ENVS)])
    whole: bool = True
    """Whether it is still there, and every rollout of it was stored."""

    def note(self, block: dict[str, np.ndarray]) -> None:
        for t, b in zip(*np.nonzero(~block["first"][1:]), strict=True):
            self.transitions[b].append(place_of(block["observation"][t, b]))


def stored_and_right(replay: Replay, games: dict[int, list[Game]]) -> set[Place]:
    """Compare all that can be drawn with the games; returns the places at which items begin."""
    sample = everything(replay)
    for item in range(len(sample.cell)):
        for row in np.flatnonzero(sample.valid[:, item]):
            transition_is_right(replay, sample, int(row), item, games)
        item_goes_on(sample, item, games)
    places = [place_of(observation) for observation in sample.observation[0]]
    assert len(set(places)) == len(places), "a transition is stored twice"
    return set(places)


def transition_is_right(replay: Replay, sample: Sample, row: int, item: int, games: dict[int, list[Game]]) -> None:
    name, number, t = place_of(sample.observation[row, item])
    game = games[name][number]
    assert not game.discarded
    total, discount, reached = expected(game, t, replay.settings)
    assert sample.observation[row, item].tolist() == game.steps[t].observation.tolist()
    assert sample.action[row, item] == game.steps[t].action
    assert sample.reward[row, item] == pytest.approx(total, abs=1e-5)
    assert sample.discount[row, item] == pytest.approx(discount)
    after = sample.observation[sample.reached[row, item], item]
    assert after.tolist() == game.steps[reached].observation.tolist()


def item_goes_on(sample: Sample, item: int, games: dict[int, list[Game]]) -> None:
    """The rows of an item follow one another, and after a game's last begins another; the state is that before it."""
    length = len(sample.valid)
    places = [place_of(observation) for observation in sample.observation[:length, item]]
    for row, (name, number, t) in enumerate(places[:-1]):
        if sample.valid[row, item]:
            assert (places[row + 1], sample.first[row + 1, item]) == ((name, number, t + 1), False)
        else:
            last = games[name][number].steps[t]
            assert (last.terminated or last.truncated) and sample.first[row + 1, item]
    if sample.state.shape[1]:
        name, number, t = places[0]
        before = games[name][number].steps[t - 1].observation[-1].tolist() if t else [0.0] * 3
        assert sample.state[item].tolist() == before


def owed(replay: Replay, stream: Stream) -> set[Place]:
    """Transitions owed by a simulator that has stored all its rollouts: but its newest, its oldest and its first.

    Items of several rows are held against `tests/replay/kept.py`.
    """
    if replay.shape.length > 1:
        return set()
    must: set[Place] = set()
    for made in stream.transitions if stream.whole else []:
        begun = itertools.accumulate((made[i][1] != made[i - 1][1] for i in range(len(made))), initial=0)
        rows = [i + ends for i, ends in enumerate(itertools.islice(begun, 1, None))]  # a final observation is a row
        newest = rows[-1] if rows else 0
        oldest = newest + 3 + replay.shape.stack - replay.shape.size
        settled = newest - replay.settings.n_step
        must |= {made[i] for i, row in enumerate(rows) if i >= replay.shape.stack - 1 and oldest <= row < settled}
    return must
