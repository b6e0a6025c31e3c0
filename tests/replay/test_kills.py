"""A process that is killed anywhere while it stores: what the next one finds is all of a rollout, or nothing of it.

Held against a replay that is never killed. Every failpoint on the way is tried, at every time it is come to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from actorlearn import failpoints
from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.failpoints import Killed
from actorlearn.memory.shared import Segment
from actorlearn.replay.buffer import Replay
from actorlearn.replay.flushed import Flushed, FlushRecord
from actorlearn.replay.rows import ReplayShape, replay_fields
from actorlearn.replay.samplers import Prioritised, Sampler, Uniform
from tests.replay.games import everything
from tests.replay.ledger import ENVS, LedgerEnv, Simulated

HORIZON = 3
Blocks = dict[str, dict[str, np.ndarray]]
"""Blocks of one rollout: owner -> block."""
KINDS = pytest.mark.parametrize(
    ("prioritised", "stack", "steps", "reset", "items"),
    [
        (False, 1, 1, "inside", (1, 1)),
        (True, 3, 2, "inside", (1, 1)),
        (True, 1, 3, "wait", (1, 1)),
        (False, 2, 1, "wait", (1, 1)),
        (True, 1, 2, "inside", (4, 3)),
        (False, 2, 1, "wait", (3, 2)),
    ],
)
"""Items: rows of one, and rows from one at which one may begin to the next."""


class Kept:
    """A replay in a segment that outlives who writes it."""

    def __init__(self, path: Path, prioritised: bool, stack: int, steps: int, items: tuple[int, int] = (1, 1)) -> None:
        self.shape = ReplayShape(
            rings=2 * ENVS,
            size=16,
            length=items[0],
            every=items[1],
            state_size=3,
            margin=HORIZON + 1,
            stack=stack,
            observation_shape=(stack, 3),
            observation_dtype="float32",
            actions=4,
            prioritised=prioritised,
        )
        self.path, self.steps = path, steps
        Segment.create(path, replay_fields(self.shape)).close()
        self.replay = self.opened()

    def opened(self) -> Replay:
        """As who is started next opens it."""
        self.segment = Segment.open(self.path)
        cells = self.shape.rings * self.shape.rows
        sampler: Sampler = Uniform(cells)
        if self.shape.prioritised:
            sampler = Prioritised(cells, 0.7, (self.segment["tree"], self.segment["largest"]))
        self.replay = Replay(self.segment, self.shape, OffPolicySettings(n_step=self.steps), sampler)
        self.replay.recover()
        return self.replay

    def store(self, rollout: int, blocks: Blocks) -> None:
        """As stage 3 does; then give priorities, of which some are 0."""
        if rollout >= self.replay.rollouts:
            self.replay.leave_to(blocks)
            for owner, block in blocks.items():
                assert self.replay.add(owner, rollout, block)
            self.replay.flush(rollout + 1)

    def prioritise(self, rollout: int) -> None:
        if self.shape.prioritised and len(self.replay.drawable()):
            sample = self.replay.sample(7, np.random.default_rng(rollout))
            self.replay.update(sample, np.random.default_rng(rollout).integers(4, size=7) * 1.5)

    @property
    def flushed(self) -> FlushRecord:
        """Words of the newest flush: rows of each ring, owners, and rollouts."""
        return Flushed(self.segment).now


def same(one: Kept, other: Kept) -> bool:
    """Whether both hold the same: transitions, priorities with all their sums, owners, rollouts."""
    pairs = [*zip(everything(one.replay), everything(other.replay), strict=True)]
    pairs += [*zip(one.flushed, other.flushed, strict=True), (one.replay.begun, other.replay.begun)]
    if one.shape.prioritised:
        pairs += [(one.segment["tree"][1:], other.segment["tree"][1:])]
        pairs += [(one.segment["largest"], other.segment["largest"])]
    return all(np.array_equal(a, b) for a, b in pairs)


def history(folder: Path, stack: int, reset: str, rollouts: int) -> list[Blocks]:
    """Two simulators; in the middle of it the first is followed by another one, whose rings are the same."""
    games = [Simulated(folder, LedgerEnv(stack, seed), HORIZON, reset, 0, 3) for seed in (1, 2, 3)]
    made: list[Blocks] = []
    for rollout in range(rollouts):
        here = {"simulator-1.0/0": games[1]} | (
            {"simulator-0.0/0": games[0]} if rollout < rollouts // 2 else {"simulator-0.1/0": games[2]}
        )
        blocks = {owner: game.play()[1] for owner, game in here.items()}
        made.append({o: {name: column.copy() for name, column in block.items()} for o, block in blocks.items()})
    return made


def points(deed: Callable[[], object]) -> list[str]:
    """Arms that kill at each failpoint that something comes to, each time it does."""
    with failpoints.armed() as arms:
        deed()
    return [f"{name}=raise@{nth}" for name, hits in sorted(arms.hits.items()) for nth in range(1, hits + 1)]


def killed(point: str, deed: Callable[[], object]) -> None:
    with failpoints.armed(point) as arms, suppress(Killed):
        deed()
    assert arms.acted


def copies(folder: Path) -> Iterator[Path]:
    return (folder / f"replay-{number}" for number in itertools.count())


@KINDS
@pytest.mark.parametrize("at", [4, 5, 8], ids=["filling", "another comes", "full"])
def test_a_rollout_is_stored_once_wherever_storing_it_is_cut_off(
    tmp_path: Path, prioritised: bool, stack: int, steps: int, reset: str, items: tuple[int, int], at: int
) -> None:
    rollouts = history(tmp_path, stack, reset, 10)
    paths = copies(tmp_path)

    def kept(until: int) -> Kept:
        made = Kept(next(paths), prioritised, stack, steps, items)
        for rollout in range(until):
            made.store(rollout, rollouts[rollout])
            made.prioritise(rollout)
        return made

    without, whole = kept(at), kept(at)
    tried = points(partial(whole.store, at, rollouts[at]))
    assert len(tried) >= 18
    for point in tried:
        made = kept(at)
        killed(point, partial(made.store, at, rollouts[at]))
        made.opened()
        assert same(made, whole if made.replay.rollouts > at else without), point
        made.store(at, rollouts[at])
        assert same(made, whole), point
        made.path.unlink()
    without.store(at, rollouts[at])
    killed(tried[0], partial(without.store, at + 1, rollouts[at + 1]))
    without.opened()
    for rollout in range(at + 1, 10):  # and nothing is lost later, where it is joined
        for made in (without, whole):
            made.store(rollout, rollouts[rollout])
        assert same(without, whole)


@KINDS
def test_who_takes_it_up_may_be_killed_too(
    tmp_path: Path, prioritised: bool, stack: int, steps: int, reset: str, items: tuple[int, int]
) -> None:
    rollouts = history(tmp_path, stack, reset, 8)
    made, whole = (Kept(path, prioritised, stack, steps, items) for path in itertools.islice(copies(tmp_path), 2))
    for rollout, blocks in enumerate(rollouts):
        whole.store(rollout, blocks)
        for point in ("record.committed=raise@1", "buffer.removed=raise@1"):  # the second time it is there already
            if made.replay.rollouts <= rollout:
                killed(point, partial(made.store, rollout, blocks))
                for again in points(made.opened):
                    killed(again, made.opened)
                made.opened()
        assert same(made, whole)
        made.prioritise(rollout), whole.prioritise(rollout)


@KINDS
def test_killed_while_it_is_restored_it_is_restored_by_the_next(
    tmp_path: Path, prioritised: bool, stack: int, steps: int, reset: str, items: tuple[int, int]
) -> None:
    rollouts = history(tmp_path, stack, reset, 8)
    whole, *others = (Kept(path, prioritised, stack, steps, items) for path in itertools.islice(copies(tmp_path), 3))
    for rollout in range(6):
        whole.store(rollout, rollouts[rollout])
        whole.prioritise(rollout)
    state = whole.replay.save(tmp_path)
    for made, goes_on in zip(others, (True, False), strict=True):
        trial = Kept(tmp_path / f"trial-{goes_on}", prioritised, stack, steps, items)
        for point in points(partial(trial.replay.restore, tmp_path, state, goes_on=goes_on)):
            if made.opened().empty:
                killed(point, partial(made.replay.restore, tmp_path, state, goes_on=goes_on))
        made.opened()
        assert not made.replay.empty
        for name in ("shown", "rollouts"):
            assert np.array_equal(getattr(made.flushed, name), getattr(whole.flushed, name))
        for one, two in zip(everything(made.replay), everything(whole.replay), strict=True):
            assert np.array_equal(one, two)
        assert np.array_equal(*(kept.replay.sampler.arrays().get("priority", 0) for kept in (made, whole)))


def test_environments_go_on_where_they_were_whoever_is_killed_and_under_whatever_name(tmp_path: Path) -> None:
    """Nothing is lost at a seam: neither after a kill, nor where a run goes on from a checkpoint."""
    rollouts = history(tmp_path, 2, "inside", 8)
    paths = copies(tmp_path)
    whole, restarted, resumed = (Kept(path, False, 2, 3) for path in itertools.islice(paths, 3))
    incarnation = "1.0"
    for rollout, blocks in enumerate(rollouts):
        whole.store(rollout, blocks)
        restarted.store(rollout, blocks)
        resumed.store(rollout, {owner.replace("1.0", incarnation): block for owner, block in blocks.items()})
        restarted.opened()
        if rollout == 2:
            state = resumed.replay.save(tmp_path)
            resumed, incarnation = Kept(next(paths), False, 2, 3), "1.4"
            resumed.replay.restore(tmp_path, state, goes_on=True)
        for made in (restarted, resumed):
            for one, two in zip(everything(made.replay), everything(whole.replay), strict=True):
                assert np.array_equal(one, two)


def test_others_under_the_name_of_who_was_to_go_on_are_told_apart(tmp_path: Path) -> None:
    (first, *_), (_, *other) = history(tmp_path, 1, "inside", 4), history(tmp_path, 1, "inside", 4)
    made = Kept(tmp_path / "made", False, 1, 1)
    made.store(0, first)
    state = made.replay.save(tmp_path)
    again = Kept(tmp_path / "again", False, 1, 1)
    again.replay.restore(tmp_path, state, goes_on=True)
    again.store(1, other[0])
    sample = everything(again.replay)
    assert len(sample.cell) > len(everything(made.replay).cell)
    assert (sample.observation[0, :, -1, 0] == sample.observation[1, :, -1, 0]).all(), "joined to another environment"
    new = {block["observation"][0, 0, -1, 0] for block in other[0].values()}
    assert new <= set(sample.observation[0, :, -1, 0])
