"""A learner of a shared store is killed at each failpoint: each of its updates is in each chunk once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from actorlearn.address import Shm
from actorlearn.failpoints import Killed, armed, hit
from actorlearn.memory.shared import Segment
from actorlearn.optim.specs import OptimizerSettings
from actorlearn.parameters.asynchronous import Async
from actorlearn.parameters.consumed import Consumed, Position
from actorlearn.parameters.interface import Carried, Learner
from actorlearn.parameters.settings import AsyncExchangeSettings
from actorlearn.parameters.store import store_fields
from tests import named

PARAMETERS, STATISTICS = 7, 1
ROLLOUTS, MINIBATCHES, STEPS = 4, 2, 10
LEARNERS = 2
RMSPROP = named.optimizer(decay=0.0, accumulator_init=0.0, epsilon=1e-30, clip_norm=0.0)
ADAM = named.optimizer(name="adam", betas=(0.0, 0.0), epsilon=1e-30, clip_norm=0.0)
"""Both optimizers are without memory: a step by a gradient of ones is the learning rate."""
POINTS = ("store.written", "store.committed", "record.written", "record.committed", "driver.passed", "driver.settled")


def rate(learner: int, rollout: int, minibatch: int) -> float:
    """One bit of a float32 for each update, so that a sum of them tells which were made."""
    return 2.0 ** -(1 + minibatch + MINIBATCHES * (rollout + ROLLOUTS * learner))


@dataclass
class Driver:
    """A trainer around an exchange; its account, of rollouts and steps, outlives a kill."""

    path: Path
    learner: int
    optimizer: OptimizerSettings = RMSPROP
    local_steps: int = 1
    account: list[int] | NDArray[np.int64] = field(default_factory=lambda: [0, 0])
    heard: list[list[int]] = field(default_factory=list)
    """The counts that the store gave back to it, at each restart."""
    exchange: Async = field(init=False)

    @property
    def learned(self) -> int:
        return int(self.account[0])

    @property
    def used(self) -> int:
        return int(self.account[1])

    def begin(self) -> None:
        gradients = torch.zeros(PARAMETERS)
        self.exchange = Async(
            AsyncExchangeSettings(store=Shm(path=str(self.path)), local_steps=self.local_steps),
            Learner(
                *(self.optimizer, torch.zeros(PARAMETERS + STATISTICS), gradients),
                number=self.learner,
                consumed=Consumed(LEARNERS),
                carried=Told(self),
            ),
        )
        position = self.exchange.join(0, 0, Position(self.learned, self.used)).position
        assert position is not None and position.rollout == self.learned
        self.account[:] = position

    def learn(self) -> None:
        """Learn a rollout."""
        self.exchange.agree(STEPS, MINIBATCHES, Position(self.learned, self.used))
        self.exchange.merge(torch.tensor([rate(self.learner, self.learned, 0)]), lambda own, theirs: own.add_(theirs))
        for minibatch in range(MINIBATCHES):
            self.exchange.step(torch.ones(PARAMETERS), [rate(self.learner, self.learned, minibatch)])
        hit("driver.passed")
        self.exchange.settle()
        hit("driver.settled")
        self.account[:] = self.learned + 1, self.used + STEPS


class Told(Carried):
    """Counts that a store keeps and gives back to a restarted learner."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def counts(self) -> list[int]:
        return [self.driver.learned, 7]

    def adopt(self, counts: NDArray[np.int64], best: int) -> None:
        self.driver.heard.append(counts[best].tolist())


def run(folder: Path, kill: str, optimizer: OptimizerSettings, local_steps: int) -> tuple[dict[str, int], Any]:
    """Let both learners learn in turn, the first being killed at `kill`; return hits of failpoints, and the drivers."""
    vectors = 1 if optimizer.name == "rmsprop" else 2
    fields = store_fields(PARAMETERS, vectors, STATISTICS, LEARNERS)
    drivers = [
        Driver(Segment.create(folder / "store", fields).path, 0, optimizer, local_steps),
        Driver(folder / "store", 1, optimizer, local_steps),
    ]
    turn = drivers[0]
    with armed(kill, lambda: turn is drivers[0]) as arms:
        for _ in range(ROLLOUTS + 2):  # a killed learner needs one more turn
            for turn in drivers:
                try:
                    if not hasattr(turn, "exchange"):
                        turn.begin()
                    if turn.learned < ROLLOUTS:
                        turn.learn()
                except Killed:
                    turn.exchange.close()
                    del turn.exchange
    return arms.hits, drivers


def bits(sum_: float, learner: int, every: int = 1) -> list[int]:
    """The rollout of each update of a learner that is in a sum; `every`: the distance of the minibatches looked at."""
    whole = int(sum_ * 2 ** (LEARNERS * ROLLOUTS * MINIBATCHES))
    places = [(r, m) for r in range(ROLLOUTS) for m in range(0, MINIBATCHES, every)]
    return [r for r, m in places if whole & int(rate(learner, r, m) * 2 ** (LEARNERS * ROLLOUTS * MINIBATCHES))]


ONCE = sum(rate(k, r, m) for k in range(LEARNERS) for r in range(ROLLOUTS) for m in range(MINIBATCHES))
MERGED = sum(rate(k, r, 0) for k in range(LEARNERS) for r in range(ROLLOUTS))


def kills(optimizer: OptimizerSettings, local_steps: int, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield a kill and a folder for each time that the first learner comes to each of the points."""
    folder.mkdir()
    hits, drivers = run(folder, "", optimizer, local_steps)
    for driver in drivers:
        driver.exchange.close()
    for name in POINTS:
        for nth in range(1, hits[name] + 1):
            where = folder / f"{name}-{nth}"
            where.mkdir()
            yield f"{name}=raise@{nth}", where


def test_after_a_kill_at_any_failpoint_each_update_is_in_each_chunk_once(tmp_path: Path) -> None:
    tried = 0
    for kill, folder in kills(RMSPROP, 1, tmp_path / "runs"):
        tried += 1
        _, drivers = run(folder, kill, RMSPROP, 1)
        for driver in drivers:
            driver.exchange.pull()
            assert driver.exchange.weights.tolist() == [-ONCE] * PARAMETERS + [MERGED], kill
            assert (driver.learned, driver.used) == (ROLLOUTS, ROLLOUTS * STEPS), kill
            assert driver.exchange.store.env_steps == LEARNERS * ROLLOUTS * STEPS, kill
            assert driver.exchange.store.updates == LEARNERS * ROLLOUTS, kill
            driver.exchange.close()
        for heard in drivers[0].heard:
            assert heard[1] == 7
    assert tried > 80


@pytest.mark.parametrize("local_steps", [2, 3, 5])
def test_local_steps_lost_with_a_killed_learner_are_not_counted_and_no_other_is_lost(
    tmp_path: Path, local_steps: int
) -> None:
    """A rollout that is partly in the store counts as used with all its steps."""
    for kill, folder in kills(ADAM, local_steps, tmp_path / "runs"):
        _, drivers = run(folder, kill, ADAM, local_steps)
        for driver in drivers:
            driver.exchange.agree(0, 0, Position(driver.learned, driver.used), draining=True)
        for driver in drivers:
            driver.exchange.pull()
            assert driver.exchange.store.env_steps == sum(other.used for other in drivers), kill
            assert int(driver.exchange.state()["steps"]) == ROLLOUTS * MINIBATCHES, kill
        *parameters, merged = drivers[0].exchange.weights.tolist()
        assert bits(merged, 0) == [r for r in range(ROLLOUTS)], kill
        seen = [set(bits(-parameter, 0)) for parameter in parameters]
        assert drivers[0].used == STEPS * len(set.union(*seen)), (kill, seen)
        for parameter in parameters:
            assert bits(-parameter, 1) == sorted([*range(ROLLOUTS)] * MINIBATCHES), kill
            assert 0.0 <= -parameter < 1.0, kill  # no carry from a bit that was added twice
        for driver in drivers:
            driver.exchange.close()


def killed(folder: Path, kill: str) -> int:
    """Fork a learner that learns all its rollouts, or is killed; return its exit status."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    account = np.memmap(folder / "account", np.int64, "r+", shape=(2,))
    driver = Driver(folder / "store", 0, account=account)
    with armed(kill):
        driver.begin()
        while driver.learned < ROLLOUTS:
            driver.learn()
    os._exit(0)


def main(folder: Path) -> None:
    """Kill a learner at each point, restart it, and check the store, whose locks the dead learner may have held."""
    seen = dict.fromkeys(POINTS, 0)
    for name in POINTS:
        for nth in range(1, 100):
            where = folder / f"{name}-{nth}"
            where.mkdir()
            Segment.create(where / "store", store_fields(PARAMETERS, 1, STATISTICS, LEARNERS)).close()
            np.zeros(2, np.int64).tofile(where / "account")
            other = Driver(where / "store", 1)
            if ended := killed(where, f"{name}=kill@{nth}"):
                assert ended == -signal.SIGKILL, (name, nth)
                other.begin(), other.learn()  # nothing is locked
                assert killed(where, "") == 0, (name, nth)
            else:
                other.begin()
            while other.learned < ROLLOUTS:
                other.learn()
            assert other.exchange.weights.tolist() == [-ONCE] * PARAMETERS + [MERGED], (name, nth)
            other.exchange.close()
            if not ended:
                break
            seen[name] += 1
    print(sum(seen.values()), min(seen.values()))


@pytest.mark.nightly
@pytest.mark.timeout(180)  # it loads torch, on a machine that may be busy
def test_after_a_sigkill_at_any_failpoint_each_update_is_in_each_chunk_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.parameters.test_killed_async", str(tmp_path)]
    kills, least = map(int, subprocess.check_output(command).split())
    assert kills > 80 and least >= ROLLOUTS


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
