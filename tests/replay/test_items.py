"""Items of several rows against a slow replay (``tests/replay/kept.py``): which can be drawn, and every row of each."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.replay.rows import ReplayShape, replay_bytes
from tests.examples import examples
from tests.replay.buffers import FOLDERS, make
from tests.replay.games import everything
from tests.replay.kept import Rows
from tests.replay.ledger import ENVS, LedgerEnv, Simulated

SHAPE = ReplayShape(
    rings=ENVS,
    size=40,
    margin=6,
    stack=1,
    observation_shape=(1, 3),
    observation_dtype="float32",
    actions=4,
    length=4,
    every=3,
    state_size=3,
)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_the_items_drawn_are_those_of_a_slow_replay(tmp_path: Path, data: st.DataObject) -> None:
    draw = data.draw
    stack, steps, horizon = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 6))
    length, every = draw(st.integers(1, 6), "rows of an item"), draw(st.integers(1, 5), "rows between two")
    flush_every = draw(st.integers(1, 3), "rollouts between flushes")
    reset, decorrelation = draw(st.sampled_from(["inside", "wait"])), draw(st.sampled_from([0, 7]))
    margin = (horizon + 1) * flush_every
    shape = msgspec.structs.replace(
        SHAPE,
        rings=2 * ENVS,
        size=margin + stack + steps + length - 1 + every - 1 + draw(st.integers(0, 20)),
        margin=margin,
        stack=stack,
        observation_shape=(stack, 3),
        length=length,
        every=every,
    )
    folder = tmp_path / str(next(FOLDERS))
    folder.mkdir()
    replay = make(folder, shape, OffPolicySettings(n_step=steps))
    kept = Rows(replay)
    seeds = itertools.count(draw(st.integers(0, 1000), "seed"))

    def come() -> tuple[str, Simulated]:
        env = LedgerEnv(stack, next(seeds))
        return f"simulator-{env.names[0]}", Simulated(folder, env, horizon, reset, decorrelation, 3)

    here = [come(), come()]
    for number in range(draw(st.integers(2, 20), "rollouts")):
        event = draw(st.sampled_from(["", "", "", "", "gone", "missed"]))
        if event == "gone":
            here = [here[1], come()]
            for each in (replay, kept):
                each.leave_to([owner for owner, _ in here])
        for owner, simulator in here:
            rollout, block = simulator.play()
            if event == "missed" and owner == here[0][0]:
                continue
            assert replay.add(owner, rollout, block)
            kept.add(owner, rollout, block)
        if number % flush_every == flush_every - 1:
            replay.flush()
            kept.flush()
            sample = everything(replay)
            rings = (sample.cell // shape.rows).tolist()
            assert set(zip(rings, sample.position.tolist(), strict=True)) == kept.items()
            kept.compare(sample)
            assert replay.transitions == kept.transitions()


def filled(folder: Path, shape: ReplayShape = SHAPE, rollouts: int = 12) -> tuple[Simulated, object]:
    simulator = Simulated(folder, LedgerEnv(1, 3), 5, "inside", 0, 3)
    replay = make(folder, shape, OffPolicySettings(n_step=2), prioritised=True)
    for _ in range(rollouts):
        replay.add("simulator", *simulator.play())
        replay.flush()
    return simulator, replay


def test_a_restored_replay_draws_the_same_items_with_the_same_states(tmp_path: Path) -> None:
    for rollouts in (0, 2, 12):
        folder = tmp_path / str(rollouts)
        folder.mkdir()
        _, replay = filled(folder, rollouts=rollouts)
        state = json.loads(json.dumps(replay.save(folder)))
        other = make(folder, SHAPE, OffPolicySettings(n_step=2), prioritised=True)
        other.restore(folder, state)
        assert other.drawable().tolist() == replay.drawable().tolist()
        assert other.transitions == replay.transitions
        if rollouts:
            ours, theirs = (of.sample(5, np.random.default_rng(0)) for of in (replay, other))
            for one, two in zip(ours, theirs, strict=True):
                assert np.array_equal(one, two)


def test_a_replay_saved_before_there_were_items_is_one_of_transitions(tmp_path: Path) -> None:
    shape = msgspec.structs.replace(SHAPE, length=1, every=1, state_size=0)
    _, replay = filled(tmp_path, shape)
    state = replay.save(tmp_path)
    for name in ("length", "every", "state_size"):
        del state["shape"][name]
    other = make(tmp_path, shape, OffPolicySettings(n_step=2), prioritised=True)
    other.restore(tmp_path, state)
    assert other.drawable().tolist() == replay.drawable().tolist()


def test_priorities_are_those_of_items(tmp_path: Path) -> None:
    _, replay = filled(tmp_path)
    sample = replay.sample(4, np.random.default_rng(1))
    replay.update(sample, np.full(4, 7.0))
    assert (replay.sampler.arrays()["priority"][sample.cell] == 7.0).all()
    assert (sample.cell % 3 == 0).all()


def test_states_are_stored_of_rows_at_which_an_item_may_begin(tmp_path: Path) -> None:
    few, all_rows = (replay_bytes(msgspec.structs.replace(SHAPE, every=every, state_size=1000)) for every in (4, 1))
    rows = SHAPE.rings * (SHAPE.size + SHAPE.margin)
    assert all_rows - few > rows * 4000 * 0.7


@pytest.mark.parametrize(("size", "fits"), [(6 + 1 + 2 + 3 + 2, True), (6 + 1 + 2 + 3 + 1, False)])
def test_rings_without_room_for_an_item_are_refused(tmp_path: Path, size: int, fits: bool) -> None:
    shape = msgspec.structs.replace(SHAPE, size=size)
    if fits:
        make(tmp_path, shape, OffPolicySettings(n_step=2))
        return
    with pytest.raises(ValueError, match="the replay holds 13 rows .* too few .* sequences of 4 rows, one every 3, "):
        make(tmp_path, shape, OffPolicySettings(n_step=2))
