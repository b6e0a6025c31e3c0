"""Replay against a ledger that keeps every game whole: whatever is drawn is what the environment gave."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actorlearn import failpoints
from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.envs.atari import Atari
from actorlearn.parameters import checkpoint
from actorlearn.replay import buffer
from actorlearn.replay.buffer import Replay
from actorlearn.replay.rows import ReplayShape, column_fields, replay_bytes
from tests import named
from tests.examples import examples
from tests.replay.buffers import FOLDERS, make
from tests.replay.games import Stream, everything, owed, stored_and_right
from tests.replay.ledger import ENVS, LedgerEnv, Simulated

RANDOM = np.random.default_rng(5)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_is_drawn_is_what_the_environment_gave(tmp_path: Path, data: st.DataObject) -> None:
    draw = data.draw
    stack, steps, horizon = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    every = draw(st.integers(1, 3), "rollouts between flushes")
    reset, decorrelation = draw(st.sampled_from(["inside", "wait"])), draw(st.sampled_from([0, 7]))
    margin = (horizon + 1) * every
    shape = ReplayShape(
        rings=2 * ENVS,
        size=margin + stack + steps + draw(st.integers(0, 30)),
        margin=margin,
        stack=stack,
        observation_shape=(stack, 3),
        observation_dtype="float32",
        actions=4,
    )
    returns = OffPolicySettings(
        n_step=steps,
        discount=0.9,
        reward_clip=draw(st.sampled_from([None, 0.5])),
        life_loss_terminal=draw(st.booleans()),
        bootstrap_on_truncation=draw(st.booleans()),
    )
    folder = tmp_path / str(next(FOLDERS))
    folder.mkdir()
    replay = make(folder, shape, returns)
    seeds = itertools.count(draw(st.integers(0, 1000), "seed"))

    def come() -> Stream:
        env = LedgerEnv(stack, next(seeds))
        return Stream(Simulated(folder, env, horizon, reset, decorrelation), f"simulator-{env.names[0]}")

    here = [come(), come()]
    games = {name: game for stream in here for name, game in stream.simulator.env.by_name().items()}
    for number in range(draw(st.integers(2, 14), "rollouts")):
        event = draw(st.sampled_from(["", "", "", "", "gone", "missed"]))
        if event == "gone":
            here = [here[1], come()]
            replay.leave_to(stream.owner for stream in here)
            games |= here[-1].simulator.env.by_name()
        for stream in here:
            rollout, block = stream.simulator.play()
            if event == "missed" and stream is here[0]:
                stream.whole = False
                continue
            assert replay.add(stream.owner, rollout, block)
            stream.note(block)
        if number % every == every - 1:
            replay.flush()
            stored = stored_and_right(replay, games)
            for stream in here:
                assert owed(replay, stream) <= stored


def box() -> ReplayShape:
    return ReplayShape(
        rings=2, size=40, margin=10, stack=1, observation_shape=(3,), observation_dtype="float32", actions=(2,)
    )


def rows_of(length: int, environments: int = 2) -> dict[str, np.ndarray]:
    """A block [length, B] of one endless game with Box actions; observations and rewards count."""
    number = np.arange(length, dtype=np.float32)[:, None].repeat(environments, 1)
    flags = {name: np.zeros((length, environments), bool) for name in ("terminated", "truncated", "life_lost", "first")}
    flags["first"][0] = True
    return {
        "observation": number[..., None].repeat(3, -1),
        "action": np.stack([number, -number], -1),
        "reward": number,
        **flags,
    }


def test_box_actions_are_stored_as_they_are(tmp_path: Path) -> None:
    replay = make(tmp_path, box(), OffPolicySettings(reward_clip=None))
    assert replay.add("simulator", 0, rows_of(8))
    replay.flush()
    sample = replay.sample(64, RANDOM)
    assert sample.action[0].tolist() == [[o[0], -o[0]] for o in sample.observation[0].tolist()]
    assert (sample.reward == sample.observation[1, :, 0]).all()


def test_nothing_is_drawn_before_it_is_flushed(tmp_path: Path) -> None:
    replay = make(tmp_path, box(), OffPolicySettings())
    replay.add("simulator", 0, rows_of(8))
    with pytest.raises(LookupError, match="no item that can be drawn"):
        replay.sample(1, RANDOM)
    replay.flush()
    assert len(replay.drawable()) == 14


def test_rows_beyond_the_margin_are_refused(tmp_path: Path) -> None:
    replay = make(tmp_path, box(), OffPolicySettings())
    replay.add("simulator", 0, rows_of(8))
    with pytest.raises(ValueError, match="simulator added more than 10 rows to a ring since the last flush"):
        replay.add("simulator", 1, rows_of(8))


def test_nothing_drawn_changes_while_the_margin_fills(tmp_path: Path) -> None:
    """Stacks of 4 of one endless game, with as many rows before the next flush as there may be."""
    shape = msgspec.structs.replace(box(), rings=1, size=20, margin=8, stack=4, observation_shape=(4,), actions=2)
    replay = make(tmp_path, shape, OffPolicySettings())
    for rollout in range(12):
        number = np.arange(7 * rollout, 7 * rollout + 8, dtype=np.float32)[:, None]
        block = {**rows_of(8, 1), "action": number.astype(np.int64)}
        block["observation"] = np.maximum(number[..., None] - [3, 2, 1, 0], 0)
        block["first"][0] = rollout == 0
        replay.add("simulator", rollout, block)
        if rollout:
            sample = everything(replay)
            assert (sample.observation[0] == np.maximum(sample.action[0, :, None] - [3, 2, 1, 0], 0)).all()
            assert (sample.observation[1, :, -1] == sample.action + 1).all()
        replay.flush()
    assert len(replay.drawable()) == 20 - 3 - 1


def test_who_comes_again_is_joined_to_nothing(tmp_path: Path) -> None:
    replay = make(tmp_path, box(), OffPolicySettings(reward_clip=None))
    replay.add("simulator", 0, rows_of(8))
    replay.leave_to([])
    replay.flush()
    again = rows_of(8)
    again["first"][:] = False
    again["observation"] += 50
    again["reward"] += 50
    replay.add("simulator", 1, again)
    replay.flush()
    sample = everything(replay)
    assert len(sample.cell) == 2 * 2 * 7
    assert (sample.observation[1] - sample.observation[0] == 1).all()


def test_who_finds_no_free_ring_is_told_so(tmp_path: Path) -> None:
    replay = make(tmp_path, box(), OffPolicySettings())
    assert replay.add("first", 0, rows_of(8))
    assert not replay.add("second", 0, rows_of(8))
    replay.leave_to(["second"])
    replay.flush()
    assert replay.add("second", 1, rows_of(8))


def test_priorities_of_forgotten_transitions_are_not_written(tmp_path: Path) -> None:
    replay = make(tmp_path, box(), OffPolicySettings(), prioritised=True)
    replay.add("simulator", 0, rows_of(8))
    replay.flush()
    old = replay.sample(16, RANDOM)
    for rollout in range(1, 12):
        replay.add("simulator", rollout, rows_of(8))
        replay.flush()
    tree = replay.sampler.arrays()["priority"].copy()
    replay.update(old, np.full(16, 7.0))
    assert (replay.sampler.arrays()["priority"] == tree).all()
    new = replay.sample(16, RANDOM)
    replay.update(new, np.full(16, 7.0))
    assert (replay.sampler.arrays()["priority"][new.cell] == 7.0).all()


@pytest.mark.parametrize("prioritised", [False, True])
@pytest.mark.parametrize("rollouts", [0, 1, 9], ids=["empty", "begun", "full"])
def test_a_restored_replay_draws_what_the_saved_one_would_have(
    tmp_path: Path, prioritised: bool, rollouts: int
) -> None:
    returns = OffPolicySettings(n_step=2)
    replay = make(tmp_path, box(), returns, prioritised)
    for rollout in range(rollouts):
        replay.add("simulator", rollout, rows_of(8))
        replay.flush()
    state = json.loads(json.dumps(replay.save(tmp_path)))
    other = make(tmp_path, box(), returns, prioritised)
    other.restore(tmp_path, state)
    assert other.drawable().tolist() == replay.drawable().tolist()
    for seed in range(3 if rollouts else 0):
        ours, theirs = (of.sample(5, np.random.default_rng(seed)) for of in (replay, other))
        for one, two in zip(ours, theirs, strict=True):
            assert (one == two).all()
        replay.update(ours, ours.reward[0] + 2.0)
        other.update(theirs, theirs.reward[0] + 2.0)


def files_of(replay: Replay, folder: Path) -> dict[str, bytes]:
    """Everything that a replay saves, by the names of its files."""
    folder.mkdir()
    replay.save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_replay_is_saved_in_parts_with_a_sign_of_life_after_each(tmp_path: Path) -> None:
    replay, beats = make(tmp_path, box(), OffPolicySettings()), []
    replay.add("simulator", 0, rows_of(8))
    replay.flush()
    whole, parts = files_of(replay, tmp_path / "whole"), tmp_path / "parts"
    parts.mkdir()
    with mock.patch.object(buffer, "PART_BYTES", 50):
        replay.save(parts, lambda: beats.append(len(beats)))
    assert {path.name: path.read_bytes() for path in parts.iterdir()} == whole
    frames = np.load(parts / "frame.npy")
    assert frames.shape == (2, 8, 3) and len(beats) >= frames.nbytes / 50


@pytest.mark.parametrize("part_bytes", [5, 50, 10**9])
def test_a_replay_is_restored_in_parts_with_a_sign_of_life_after_each(tmp_path: Path, part_bytes: int) -> None:
    replay, beats = make(tmp_path, box(), OffPolicySettings()), []
    replay.add("simulator", 0, rows_of(8))
    replay.flush()
    state = replay.save(tmp_path)
    other = make(tmp_path, box(), OffPolicySettings())
    with mock.patch.object(buffer, "PART_BYTES", part_bytes):
        other.restore(tmp_path, state, lambda: beats.append(len(beats)))
    files, again = files_of(replay, tmp_path / "one"), files_of(other, tmp_path / "other")
    for column in column_fields(replay.shape):
        assert files[f"{column.name}.npy"] == again[f"{column.name}.npy"], column.name
    assert len(beats) >= np.load(tmp_path / "frame.npy").nbytes / max(part_bytes, 12)  # a row of 12 bytes is whole


def test_what_is_stored_after_a_restore_is_not_joined_to_what_was_before(tmp_path: Path) -> None:
    replay = make(tmp_path, box(), OffPolicySettings())
    replay.add("simulator", 0, rows_of(8))
    replay.flush()
    state = replay.save(tmp_path)
    other = make(tmp_path, box(), OffPolicySettings(reward_clip=None))
    other.restore(tmp_path, state)
    goes_on = rows_of(8)
    goes_on["first"][:] = False
    goes_on["observation"] += 50
    goes_on["reward"] += 50
    other.add("simulator", 1, goes_on)
    other.flush()
    sample = other.sample(500, RANDOM)
    assert (sample.observation[1] - sample.observation[0] == 1).all()
    assert sample.observation[0].max() > 50


def test_another_shape_is_not_restored(tmp_path: Path) -> None:
    replay = make(tmp_path, box(), OffPolicySettings())
    state = replay.save(tmp_path)
    other = make(tmp_path, msgspec.structs.replace(box(), size=41), OffPolicySettings())
    with pytest.raises(ValueError, match="'size': 40"):
        other.restore(tmp_path, state)


@pytest.mark.parametrize("name", ["frame", "reward", "shown", "owner", "sampler-cell"])
def test_files_of_another_shape_are_not_restored_and_leave_it_empty(tmp_path: Path, name: str) -> None:
    replay = make(tmp_path, box(), OffPolicySettings())
    replay.add("simulator", 0, rows_of(8))
    replay.flush(1)
    state, saved = replay.save(tmp_path), np.load(tmp_path / f"{name}.npy")
    np.save(tmp_path / f"{name}.npy", np.concatenate([saved] * 10))
    other = make(tmp_path, box(), OffPolicySettings())
    said = {"sampler-cell": "140 cells .* below 100"}.get(
        name, rf"{name}.npy: .*\({10 * len(saved)},.* does not fit .*\(2,"
    )
    with pytest.raises(ValueError, match=said):
        other.restore(tmp_path, state)
    assert other.empty and other.rollouts == 0
    other.recover()
    assert not len(other.drawable())


@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_damage_in_any_file_of_a_saved_replay_is_found(tmp_path: Path, damage: str) -> None:
    replay = make(tmp_path, box(), OffPolicySettings(), prioritised=True)
    replay.add("simulator", 0, rows_of(8))
    replay.flush(1)
    folder = checkpoint.save(tmp_path / "saved", 8, {}, {}, 1, replay.save)
    files = sorted(folder.glob("*.npy"))
    assert len(files) > 12
    for file in files:
        whole = file.read_bytes()
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        file.write_bytes(flipped if damage == "flip" else whole[:-1])
        with pytest.raises(ValueError, match=file.name):
            checkpoint.load(folder)
        file.write_bytes(whole)
    checkpoint.load(folder)


def test_a_part_that_is_not_written_whole_is_an_error(tmp_path: Path) -> None:
    replay = make(tmp_path, box(), OffPolicySettings())
    replay.add("simulator", 0, rows_of(8))
    with failpoints.armed("buffer.write=short@3") as arms, pytest.raises(OSError, match=r"a part of the bytes.*npy"):
        replay.save(tmp_path)
    assert arms.acted


def test_rings_that_a_flush_would_overrun_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the replay holds 12 rows of each environment, too few for 10 new rows"):
        make(tmp_path, msgspec.structs.replace(box(), size=12), OffPolicySettings(n_step=2))


def test_observations_that_are_no_stacks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[3\] are not stacks of 4 frames"):
        msgspec.structs.replace(box(), stack=4)


def test_a_million_atari_transitions_fit_the_memory_said() -> None:
    shape = ReplayShape(
        rings=8,
        size=125_000,
        margin=1251,
        stack=4,
        observation_shape=(4, 84, 84),
        observation_dtype="uint8",
        actions=18,
    )
    for prioritised in (False, True):
        assert 7.0e9 < replay_bytes(msgspec.structs.replace(shape, prioritised=prioritised)) < 7.5e9


def test_the_bytes_said_are_those_of_the_segment(tmp_path: Path) -> None:
    shape = box()
    make(tmp_path, shape, OffPolicySettings())
    segment = next(tmp_path.glob("replay-*"))
    assert replay_bytes(shape) - segment.stat().st_size == 2 * 8 * 2 * 50


@pytest.mark.parametrize("reset", ["inside", pytest.param("wait", marks=pytest.mark.nightly)])
def test_stacks_of_atari_are_rebuilt_as_it_gave_them(tmp_path: Path, reset: str) -> None:
    """Breakout with no-ops and FIRE at the start: lost lives, ends and time limits, against ALE's own stacks."""
    game = named.env(id="ALE/Breakout-v5", preset="dqn", stack=4, noop_max=9, fire_on_reset=True, time_limit_steps=200)
    env = Atari(game, [3, 4])
    simulated = Simulated(tmp_path, env, 20, reset, 0)
    shape = ReplayShape(
        rings=2,
        size=2000,
        margin=21,
        stack=env.spec.stack,
        observation_shape=env.spec.observation_shape,
        observation_dtype="uint8",
        actions=env.spec.actions,
    )
    replay = make(tmp_path, shape, OffPolicySettings(n_step=3))
    seen: set[bytes] = set()
    rollouts = valid = ends = lives = cuts = 0
    while rollouts < 40 or not (ends and cuts and lives):
        rollouts += 1
        assert rollouts <= 100, "the games show too little"
        rollout, block = simulated.play()
        valid += int((~block["first"][1:]).sum())
        ends, cuts = ends + int(block["terminated"][1:].sum()), cuts + int(block["truncated"][1:].sum())
        lives += int(block["life_lost"][1:].sum())
        seen |= {observation.tobytes() for observation in block["observation"].reshape(-1, 4 * 84 * 84)}
        replay.add("simulator", rollout, block)
        replay.flush()
    env.close()
    sample = everything(replay)
    assert len(sample.cell) > valid - 2 * 4
    assert all(o.tobytes() in seen for row in sample.observation for o in row)
