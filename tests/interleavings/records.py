"""Records that are replaced whole: the account, what a replay has flushed, and the words that ask for snapshots."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from actorlearn.memory import account
from actorlearn.memory.account import Account, account_fields
from actorlearn.memory.fields import Field
from actorlearn.memory.rollout import Blocks, Rollouts, block_fields, rollouts_fields
from actorlearn.processes.snapshots import Snapshots
from actorlearn.replay.flushed import Flushed, FlushRecord, flushed_fields
from tests.blocks import block_shape
from tests.interleavings.arrays import Words, sleep
from tests.interleavings.code import Done, Process, expect
from tests.interleavings.explore import Scenario


def accounting(*, commits: int = 3, kills: int = 1) -> Scenario:
    """A trainer that commits, may be killed anywhere and continues from its last commit, and a process that reads.

    Invariants: a record is of one commit; for each reader the number of rollouts never goes back.
    """
    words = Words()
    segment: Any = words.create("account", account_fields())
    trainer, other = Account(segment), Account(segment)

    def asked(counted: Account, known: int) -> int:
        learned, counts = counted.read_committed()
        told = {counts.used / 10, *(steps / 100 for steps in counts.dropped.values())}
        expect(told == {learned}, f"rollout {learned}: {counts}")
        expect(learned >= known, f"rollout {learned} after {known}")
        return learned

    def train(learned: int) -> Hashable:
        learned = asked(trainer, 0) if learned < 0 else learned
        if learned == commits:
            return Done()
        trainer.steps.used = 10 * (learned + 1)
        trainer.steps.dropped = dict.fromkeys(account.REASONS, 100 * (learned + 1))
        trainer.rollouts_learned = learned + 1
        trainer.commit()
        return learned + 1

    def ask(state: tuple[int, int]) -> Hashable:
        left, known = state
        return (left - 1, asked(other, known)) if left else Done()

    processes = [Process("trainer", 0, train, mortal=True, again=-1), Process("other", (2, 0), ask)]
    return Scenario("account", words, processes, kills, {"account": "trainer"})


def flushing(*, flushes: int = 3, kills: int = 2) -> Scenario:
    """A trainer that flushes rollouts into its replay, may be killed anywhere, and continues from the last flush.

    Invariant: the valid record is of one flush, and complete.
    """
    words = Words()
    segment: Any = words.create("replay", flushed_fields(2))

    def flush(_state: Any) -> Hashable:
        flushed = Flushed(segment)
        number = flushed.flushes
        now = [np.asarray(word).tolist() for word in flushed.now]
        expect(now == _flushed(number) or not number, f"flush {number} holds {now}")
        if number == flushes:
            return Done()
        shown, owner, following, rollouts = _flushed(number + 1)
        flushed.commit(FlushRecord(np.array(shown), np.array(owner), np.array(following), np.array(rollouts)))
        return 0

    return Scenario(
        "flushes", words, [Process("trainer", 0, flush, mortal=True, again=0)], kills, {"replay": "trainer"}
    )


def _flushed(number: int) -> list[list[Any]]:
    return [[10 * number, 10 * number], [b"%d" % number] * 2, [number, number], [number]]


def holding(kind: type[Rollouts] = Rollouts, *, snapshots: int = 2, kills: int = 1) -> Scenario:
    """A trainer that asks a simulator for snapshots, and may be killed and ask anew.

    Invariant: a snapshot is complete before it is announced, and begins with the rollout that was asked for.
    """
    words = Words()
    segment: Any = words.create("rollouts", rollouts_fields())
    shape = block_shape(horizon=1, envs_per_group=1, observation_shape=())
    member: Any = words.create("member", block_fields(shape))
    member["shape"][:] = (1, 1, 1, 1, 0)
    file: Any = words.create("file", [Field("of", "int64", (1,), 0), Field("over", "int64", (1,), 0)])
    rollouts, blocks = kind(segment), Blocks(member)
    answering = Snapshots("folder", "member", [], rollouts, blocks)

    def train(state: tuple[int, int]) -> Hashable:
        asked, number = state
        if not number:
            if asked == snapshots or file["over"][0]:
                file["over"][0] = 1
                return Done()
            return asked + 1, rollouts.ask(10 * (asked + 1))
        if blocks.held != number:
            sleep()
            return state
        expect(file["of"][0] == 100 * number + 10 * asked, f"snapshot {number} is {file['of'][0]}")
        return asked, 0

    def simulate(_state: Any) -> Hashable:
        if answering.due:
            answering.answer()
        elif file["over"][0]:
            return Done()
        else:
            sleep()
        return 0

    processes = [Process("trainer", (0, 0), train, mortal=True, again=(1, 0)), Process("simulator", 0, simulate)]
    writers = {"rollouts": "trainer", "file.over": "trainer", "member": "simulator", "file.of": "simulator"}
    return Scenario("snapshots", words, processes, kills, writers)
