"""Rows of several members, groups and timesteps in one batch: each is answered where it lies, by its own numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from actorlearn.acting.policy import Policy
from actorlearn.address import Shm
from actorlearn.memory.rollout import Blocks, Rollouts, make_segment, rollouts_fields
from actorlearn.memory.shared import Segment
from actorlearn.parameters.published import Published, weights_fields
from tests import named
from tests.acting.policies import policy, policy_settings
from tests.blocks import block_shape, make_members

ENVS = 2


@pytest.fixture
def members(tmp_path: Path) -> list[Blocks]:
    """Two members whose observations say in which member, group and timestep they were made."""
    made = make_members(tmp_path, 2, blocks=1, envs=ENVS, observation=4)
    for number, blocks in enumerate(made):
        for group in range(2):
            for timestep in range(3):
                blocks.row("observation", group, timestep)[:] = (number, group, timestep, 0)
    return made


def echoing(made: Policy, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let actions say which observation they were chosen from; the moments that are asked for."""
    moments: list[int] = []

    def choose(observation: torch.Tensor, moment: int, *_: Any, **__: Any) -> dict[str, torch.Tensor]:
        moments.append(moment)
        return {"action": (observation @ torch.tensor([100.0, 10.0, 1.0, 0.0])).long()}

    monkeypatch.setattr(made, "choose", choose)
    return moments


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_a_policy_chooses_alike_by_graphs_and_without() -> None:
    seen, chosen = torch.rand(16, 4), []
    for captured in (True, False):
        made = Policy(policy_settings(cuda_graphs=captured), "cuda", 0, stream=0)
        chosen.append([made.choose(seen, moment)["action"].tolist() for moment in range(8)])
    assert chosen[0] == chosen[1]
    assert len({tuple(actions) for actions in chosen[0]}) > 1  # drawn anew at each moment


def test_every_row_is_answered_where_it_lies_and_no_other(
    members: list[Blocks], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = policy()
    made.version = 7
    echoing(made, monkeypatch)
    first, second = members
    asked = [(second, 0, 2), (first, 1, 1), (second, 1, 0)]
    made.act(asked)
    expected = {(1, 0, 2): 102, (0, 1, 1): 11, (1, 1, 0): 110}
    for number, blocks in enumerate(members):
        for group in range(2):
            for timestep in range(3):
                action = expected.get((number, group, timestep), -1)
                assert blocks.row("action", group, timestep).tolist() == [action] * ENVS
                version = blocks.block("policy_version", group, 0)[timestep]
                assert version == (7 if action >= 0 else -1)
    assert [blocks.acted(group) for blocks, group, _ in asked] == [3, 2, 1]


def test_no_two_batches_draw_the_same_random_numbers(members: list[Blocks], monkeypatch: pytest.MonkeyPatch) -> None:
    made = policy()
    moments = echoing(made, monkeypatch)
    for timestep in range(3):
        for group in range(2):
            for number, blocks in enumerate(members):
                made.act([(blocks, group, timestep)], member=number)
    assert len(set(moments)) == len(moments) == 12
    assert np.max(moments) < 2**62


@pytest.mark.parametrize(
    ("algorithm", "actions", "keys"),
    [("a2c", (1,), {}), ("sac", (1,), {}), ("dqn", 10_000, {"epsilon_eval": 1.0})],
)
def test_random_numbers_are_kept_for_noise_steps_by_each_environment(
    tmp_path: Path, algorithm: str, actions: int | tuple[int, ...], keys: dict[str, float]
) -> None:
    shape = block_shape(horizon=4, envs_per_group=ENVS, groups=2, blocks=2, actions=actions)
    blocks = Blocks(make_segment(tmp_path / "0", shape))
    settings = policy_settings(2, actions, algorithm)
    made = Policy(replace(settings, algorithm=named.algorithm(algorithm, noise_steps=3, **keys)), "cpu", 0, stream=0)
    chosen: dict[int, list[tuple[float, ...]]] = {group: [] for group in range(2)}
    for timestep in range(7):
        for group in range(2):
            blocks.row("observation", group, timestep)[:] = 0.5
            made.act([(blocks, group, timestep)])
            chosen[group].append(tuple(blocks.row("action", group, timestep).flatten().tolist()))
    for first in chosen.values():
        assert first[0] == first[1] == first[2] != first[3] == first[4] == first[5] != first[6]
    together = [number for first in chosen.values() for number in (*first[0], *first[3], *first[6])]
    assert len(set(together)) == len(together)  # of each environment its own


@pytest.mark.parametrize(("weights", "versions"), [("newest", [2, 2, 2]), ("rollout", [0, 1, 0])])
def test_rows_are_answered_by_the_newest_weights_or_by_their_rollouts(
    tmp_path: Path, members: list[Blocks], weights: str, versions: list[int]
) -> None:
    published = Published(Segment.create(tmp_path / "weights", weights_fields(policy().flat.numel())))
    rollouts = Rollouts(Segment.create(tmp_path / "rollouts", rollouts_fields()))
    places = {name: Shm(str(tmp_path / name)) for name in ("weights", "rollouts")}
    made = Policy(policy_settings(weights=weights), device="cpu", seed=0, stream=0, **places)
    for version in range(3):
        published.publish(np.full(published.size, version, np.float32), 0)
        rollouts.published(version, 0, version)
        rollouts.raise_to(version + 1)
    answered = []
    for group, timestep in ((0, 2), (1, 3), (0, 1)):  # of rollouts 0, 1 and 0 again: three timesteps are one
        made.act([(members[0], group, timestep)])
        answered.append((made.version, made.flat.unique().tolist()))
    assert answered == [(version, [float(version)]) for version in versions]
