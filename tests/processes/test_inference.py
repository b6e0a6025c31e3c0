"""Rows of different seats, groups and ticks in one batch: each is answered where it lies, by numbers of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from actorlearn.memory.rollout import Blocks, Rounds, rounds_fields
from actorlearn.memory.shared import Segment
from actorlearn.parameters.published import Published, weights_fields
from actorlearn.processes.inference import Policy
from tests.blocks import make_seats
from tests.processes.test_evaluator import policy, policy_settings

ENVS = 2


@pytest.fixture
def seats(tmp_path: Path) -> list[Blocks]:
    """Two seats whose observations say in which seat, group and tick they were made."""
    made = make_seats(tmp_path, 2, blocks=1, envs=ENVS, observation=4)
    for number, blocks in enumerate(made):
        for group in range(2):
            for tick in range(3):
                blocks.row("observation", group, tick)[:] = (number, group, tick, 0)
    return made


def echoing(made: Policy, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let actions say which observation they were chosen from; the moments that are asked for."""
    moments: list[int] = []

    def choose(observation: torch.Tensor, moment: int, *_: Any, **__: Any) -> dict[str, torch.Tensor]:
        moments.append(moment)
        return {"action": (observation @ torch.tensor([100.0, 10.0, 1.0, 0.0])).long()}

    monkeypatch.setattr(made, "choose", choose)
    return moments


def test_every_row_is_answered_where_it_lies_and_no_other(seats: list[Blocks], monkeypatch: pytest.MonkeyPatch) -> None:
    made = policy()
    made.version = 7
    echoing(made, monkeypatch)
    first, second = seats
    asked = [(second, 0, 2), (first, 1, 1), (second, 1, 0)]
    made.act(asked)
    expected = {(1, 0, 2): 102, (0, 1, 1): 11, (1, 1, 0): 110}
    for number, blocks in enumerate(seats):
        for group in range(2):
            for tick in range(3):
                action = expected.get((number, group, tick), -1)
                assert blocks.row("action", group, tick).tolist() == [action] * ENVS
                version = blocks.block("policy_version", group, 0)[tick]
                assert version == (7 if action >= 0 else -1)
    assert [blocks.acted(group) for blocks, group, _ in asked] == [3, 2, 1]


def test_no_two_batches_draw_the_same_random_numbers(seats: list[Blocks], monkeypatch: pytest.MonkeyPatch) -> None:
    made = policy()
    moments = echoing(made, monkeypatch)
    for tick in range(3):
        for group in range(2):
            for number, blocks in enumerate(seats):
                made.act([(blocks, group, tick)], seat=number)
    assert len(set(moments)) == len(moments) == 12
    assert np.max(moments) < 2**62


@pytest.mark.parametrize(("weights", "versions"), [("newest", [2, 2, 2]), ("round", [0, 1, 0])])
def test_rows_are_answered_by_the_newest_weights_or_by_their_rounds(
    tmp_path: Path, seats: list[Blocks], weights: str, versions: list[int]
) -> None:
    published = Published(Segment.create(tmp_path / "weights", weights_fields(policy().flat.numel())))
    rounds = Rounds(Segment.create(tmp_path / "rounds", rounds_fields()))
    places = {"weights": str(tmp_path / "weights"), "rounds": str(tmp_path / "rounds")}
    made = Policy(policy_settings(weights=weights), device="cpu", seed=0, stream=0, **places)
    for version in range(3):
        published.publish(np.full(published.size, version, np.float32), 0)
        rounds.published(version, 0, version)
        rounds.raise_to(version + 1)
    answered = []
    for group, tick in ((0, 2), (1, 3), (0, 1)):  # of rounds 0, 1 and 0 again: three ticks are one
        made.act([(seats[0], group, tick)])
        answered.append((made.version, made.flat.unique().tolist()))
    assert answered == [(version, [float(version)]) for version in versions]
