"""Faults that were first found by hand: rows that were learned twice, stored twice, lost, or counted wrongly."""

from __future__ import annotations

import dataclasses
import itertools
import json
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from actorlearn.algorithms.interface import Batch
from actorlearn.failpoints import Killed
from actorlearn.learning.minibatches import Epochs
from actorlearn.parameters import checkpoint
from actorlearn.parameters.allreduce import Sync
from actorlearn.parameters.alone import Alone
from actorlearn.parameters.asynchronous import Async
from actorlearn.parameters.barrier import SharedBarrier
from actorlearn.parameters.consumed import Position
from actorlearn.parameters.gossip import Gossip
from actorlearn.parameters.interface import PeerLost, Stopped
from launch.topology.load import Topology, parse
from tests.ledger import fibers
from tests.ledger.oracle import stored, times_in, times_used
from tests.ledger.world import BASE, World, topology

TWO: dict[str, Any] = {"learners": {"count": 2}, "total_steps": 180}
# Without running means, a step is the rate times the sign of the slope: it counts rows as `OPTIMIZER` does.
ADAM: dict[str, Any] = {
    "name": "adam",
    "learning_rate": 1.0,
    "learning_rate_final": 1.0,
    "betas": [0.0, 0.0],
    "epsilon": 1e-8,
    "clip_norm": 0.0,
}
DQN: dict[str, Any] = {
    "algorithm": {"name": "dqn", "target_every_steps": 24},
    "replay": {"capacity_steps": 400, "batch_size": 4, "ratio": 1.0, "learning_starts_steps": 12, "save": True},
}


def died(folder: Path, of: Topology, victim: str, arms: str) -> World:
    """Run to the end; the victim dies once, at a failpoint, and is restarted."""
    world = World(folder / "run", of)
    world.victim = victim
    assert world.run(arms=arms) == 0, world.summary
    assert not world.errors
    assert world.summary["deaths"] == 1
    return world


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_rollout_is_learned_once_if_its_trainer_dies_before_freeing_it(tmp_path: Path, mode: str) -> None:
    world = died(tmp_path, topology(mode=mode, **TWO), "trainer-1.0", "update.settled=raise@4")
    assert {row: times for row, times in times_used(world).items() if times != 1} == {}


def test_survivors_of_a_lost_learner_learn_no_minibatch_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = Sync.step, itertools.count(1)

    def step(self: Sync, *arguments: Any) -> Any:
        running = fibers.running()
        if running is not None and running.name == "trainer-1.0" and next(calls) == 9:  # the third of the second batch
            raise Killed
        return original(self, *arguments)

    monkeypatch.setattr(Sync, "step", step)
    ppo = {"name": "ppo", "epochs": 2, "minibatches": 3}
    world = died(tmp_path, topology(mode="sync", algorithm=ppo, **TWO), "trainer-1.0", "")
    assert {row: times for row, times in times_used(world).items() if times != 2} == {}


def test_an_update_that_only_other_learners_have_completed_is_not_learned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the hub died with learner 0: learner 2 has made the last step of an update, learner 1 has not."""
    world = World(tmp_path / "run", topology(mode="sync", learners={"count": 3}, total_steps=270))
    step, add, calls, lost = Sync.step, SharedBarrier.add, itertools.count(1), list[int]()
    stepping: set[int] = set()

    def marked(self: Sync, *arguments: Any) -> Any:
        stepping.add(self.learner.number)
        try:
            return step(self, *arguments)
        finally:
            stepping.discard(self.learner.number)

    def added(self: SharedBarrier, *arguments: Any) -> Any:
        found = add(self, *arguments)
        running = fibers.running()
        if running is not None and running.name == "trainer-1.0" and 1 in stepping and next(calls) == 2:
            lost.append(world.turns)
            raise PeerLost
        return found

    def kill(world: World) -> None:
        if lost and world.turns == lost[0] + 1:
            world.kill("trainer-0")

    monkeypatch.setattr(Sync, "step", marked)
    monkeypatch.setattr(SharedBarrier, "add", added)
    world.interfere = kill
    assert world.run() == 0, world.summary
    assert lost and not world.errors and world.summary["deaths"] == 1
    assert {row: times for row, times in times_used(world).items() if times != 1} == {}


@pytest.mark.parametrize("turn", [13, 14, 15])  # a rollout takes three turns: in one case it is complete at the stop
def test_the_first_rollout_after_a_stop_and_a_resume_is_stored(tmp_path: Path, turn: int) -> None:
    world = World(tmp_path / "run", topology(**DQN))

    def stop(world: World) -> None:
        if world.turns == turn:
            world.ask("stop")

    world.interfere = stop
    assert world.run() == 0
    before = sum(stored(world).values())
    assert 0 < before < 90
    seen = len(world.produced)
    assert world.run(resume=True) == 0
    twice = {row: times for row, times in stored(world).items() if times > 1}
    learned = world.trainers[0].members.next
    new = [step.row for step in world.produced[seen:] if step.rollout < learned]
    assert twice == {}
    assert [row for row in new if row not in stored(world)] == []


def test_complete_rollouts_of_a_simulator_that_dies_while_its_trainer_is_away_are_not_lost(tmp_path: Path) -> None:
    world = World(tmp_path / "run", topology())

    def both_die(world: World) -> None:
        if world.turns == 12:
            world.kill("trainer")
        elif world.turns == 14:
            world.kill("simulator-1")

    world.interfere = both_die
    assert world.run() == 0
    used = times_used(world)
    learned = world.trainers[0].members.next
    lost = [step for step in world.produced if step.rollout < learned and step.row not in used]
    assert len(lost) == world.rows[-1]["steps_dropped"]


@pytest.mark.parametrize(
    "place",  # of a rollout: four arrays of the replay's record and one of the account's, and the word of each
    [*(f"record.written@{nth}" for nth in range(16, 21)), "record.committed@7", "record.committed@8"],
)
def test_a_rollout_is_stored_once_if_its_trainer_dies_while_storing_it(tmp_path: Path, place: str) -> None:
    world = died(tmp_path, topology(**DQN), "trainer.0", place.replace("@", "=raise@"))
    assert {row: times for row, times in stored(world).items() if times != 1} == {}


def counted(world: World) -> tuple[int, int, int]:
    """Return the steps produced, used and dropped; the dropped ones are those that the run reports."""
    return len(world.produced), sum(map(bool, times_used(world).values())), world.rows[-1]["steps_dropped"]


@pytest.mark.parametrize("place", ["trainer.published", "members.committed"])
def test_steps_that_a_dead_trainer_learned_and_had_not_committed_are_not_counted_twice(
    tmp_path: Path, place: str
) -> None:
    world = died(tmp_path, topology(), "trainer.0", f"{place}=raise@5")
    learned = world.trainers[0].members.next
    produced = sum(step.rollout < learned for step in world.produced)
    _, used, dropped = counted(world)
    assert produced == used + dropped


def test_a_batch_that_is_ready_when_a_run_is_drained_is_counted(tmp_path: Path) -> None:
    world = World(tmp_path / "run", topology(simulators={"blocks": 4}))

    def stop(world: World) -> None:
        if world.turns == 14:
            world.ask("stop")
            world.frozen = {0}

    world.interfere = stop
    assert world.run() == 0
    produced, used, dropped = counted(world)
    assert produced == used + dropped + world.summary["steps_in_flight"]


def test_stale_rows_of_a_batch_that_is_not_learned_count_as_in_flight_and_not_as_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path / "run", topology())
    original, calls = Alone.agree, itertools.count(1)

    def first_alone_is_fresh(batch: Batch, *_: Any) -> Batch:
        fresh = torch.arange(batch.valid.shape[1]) == 0
        return dataclasses.replace(batch, valid=batch.valid & fresh)

    def agree(self: Alone, *arguments: Any) -> Any:
        if next(calls) == 4:
            world.ask("stop")
            world.frozen = {0}
            raise Stopped
        return original(self, *arguments)

    monkeypatch.setattr(Alone, "agree", agree)
    monkeypatch.setattr("actorlearn.processes.batches.mask_stale", first_alone_is_fresh)
    assert world.run() == 0
    produced, used, dropped = counted(world)
    assert dropped > used
    assert produced == used + dropped + world.summary["steps_in_flight"]


def test_a_resumed_run_counts_the_steps_in_flight_at_its_stop_as_dropped(tmp_path: Path) -> None:
    world = World(tmp_path / "run", topology())

    def stop(world: World) -> None:
        if world.turns == 14:
            world.ask("stop")
            world.frozen = {0}

    world.interfere = stop
    assert world.run() == 0
    in_flight = len(world.produced) - len(times_used(world))
    world.interfere = lambda world: None
    assert in_flight
    assert world.run(resume=True) == 0
    assert world.rows[-1]["steps_dropped"] == in_flight


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "at its end"])
@pytest.mark.parametrize("exchange", [Async, Gossip])
def test_the_last_checkpoint_counts_the_updates_that_other_learners_made_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: type[Async] | type[Gossip], stopped: bool
) -> None:
    world = World(tmp_path / "run", topology(mode=exchange.__name__.lower(), **TWO))
    agree, settle, begun = exchange.agree, exchange.settle, itertools.count(1)

    def agreeing(self: Any, env_steps: int, *arguments: Any) -> Any:
        found = agree(self, env_steps, *arguments)
        if env_steps:  # both learners begin an update, and the second one steps before the first
            if next(begun) == 5 and stopped:
                world.ask("stop")
            for _ in range(2 - self.learner.number):
                fibers.pause()
        return found

    def settling(self: Any) -> None:
        for _ in range(2 * self.learner.number):  # the second one, which has stepped first, counts its update last
            fibers.pause()
        settle(self)

    with monkeypatch.context() as first:
        first.setattr(exchange, "agree", agreeing)
        first.setattr(exchange, "settle", settling)
        assert world.run() == 0, world.summary
    used, updates = world.summary["steps_used"], len(world.applied)
    last = max(world.saved, key=lambda folder: int(folder.name))
    assert int(last.name) == world.summary["env_steps"] == used
    assert checkpoint.load(last).state["updates"] == world.summary["updates"] == updates
    if exchange is Async:
        weights = checkpoint.load(last).section("weights")
        assert len(times_in(world, next(iter(weights.values())))) == used, "the weights have learned from all steps"
    world.topology = msgspec.structs.replace(world.topology, total_steps=used + 60)
    assert world.run(resume=True) == 0, world.summary
    assert world.summary["env_steps"] == world.summary["steps_used"] <= used + 60 + 2 * 12


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("every_steps", [12, 30], ids=["saved after each update", "saved at the stop"])
def test_a_resumed_run_has_the_local_steps_of_all_learners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_steps: int, last: int
) -> None:
    """Learner 0 leaves first, and counts local steps that learner 1 has not merged yet; learner ``last`` saves last."""
    sections = {
        "mode": "async",
        "optimizer": ADAM,
        "learners": {"count": 2, "local_steps": 3},
        "checkpoint": {"every_steps": every_steps, "exact": False},
        "total_steps": 180,
    }
    world = World(tmp_path / "run", parse(json.dumps({**BASE, **sections})))
    agree, made, behind = Async.agree, dict[int, Async](), list[int]()

    def agreeing(self: Async, *arguments: Any) -> Any:
        made[self.learner.number] = self
        found = agree(self, *arguments)
        if found.draining:
            behind.append(sum(exchange.pending for exchange in made.values()))
            for _ in range(3 if self.learner.number == last else 0):
                fibers.pause()
        return found

    def stop(world: World) -> None:
        if world.turns == 12 and not behind:
            world.ask("stop")

    world.interfere = stop
    with monkeypatch.context() as first:
        first.setattr(Async, "agree", agreeing)
        assert world.run() == 0, world.summary
    assert behind == [2, 0], "learner 0 left while learner 1 had two local steps that only this one had"
    assert world.run(resume=True) == 0, world.summary
    found = times_used(world)
    assert {row: times for row, times in found.items() if times != 1} == {}
    assert len(found) == world.summary["steps_used"]


@pytest.mark.parametrize(("exchange", "learners"), [(Alone, 1), (Sync, 2)], ids=["alone", "sync"])
def test_the_first_rollout_is_learned_whole_after_a_stop_within_an_update_a_resume_and_a_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: type[Alone], learners: int
) -> None:
    ppo = {"name": "ppo", "epochs": 2, "minibatches": 3}
    several: dict[str, Any] = {"mode": "sync", **TWO} if learners == 2 else {}
    world = World(tmp_path / "run", topology(algorithm=ppo, **several))
    step, agree, steps = exchange.step, exchange.agree, itertools.count(1)
    agreed: list[int] = []

    def stopping(self: Any, *arguments: Any) -> Any:
        if next(steps) == 13 * learners:  # the first of the third batch
            world.ask("stop")
            if learners == 1:
                fibers.pause()  # so that the order arrives; learners in sync wait anyway
        return step(self, *arguments)

    def dying(self: Any, *arguments: Any) -> Any:
        found = agree(self, *arguments)
        agreed.append(self.learner.number)
        if len(agreed) <= learners:
            raise Killed
        return found

    with monkeypatch.context() as first:
        first.setattr(exchange, "step", stopping)
        first.setattr(Epochs, "finish_s", 0.0)
        first.setattr("actorlearn.parameters.allreduce.ask_after", lambda *_: 1)  # after one step, not after a time
        assert world.run() == 0, world.summary
    seen = len(world.produced)
    assert 1 in times_used(world).values(), "the update was broken off"
    monkeypatch.setattr(exchange, "agree", dying)
    assert world.run(resume=True) == 0, world.summary
    assert world.summary["deaths"] == learners
    used = times_used(world)
    new = [s for s in world.produced[seen:] if s.rollout < world.trainers[s.learner].members.next]
    assert {s.row: used[s.row] for s in new if used[s.row] != 2} == {}


def test_a_restarted_trainer_continues_the_update_that_sigterm_broke_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ppo = {"name": "ppo", "epochs": 2, "minibatches": 3}
    world = World(tmp_path / "run", topology(algorithm=ppo))
    step, steps = Alone.step, itertools.count(1)

    def stopping(self: Alone, *arguments: Any) -> Any:
        if next(steps) == 14:  # the second of the third batch
            world.signal("trainer", 0, signal.SIGTERM)
        return step(self, *arguments)

    monkeypatch.setattr(Alone, "step", stopping)
    monkeypatch.setattr(Epochs, "finish_s", 0.0)
    assert world.run() == 0, world.summary
    assert world.summary["deaths"] == 1
    assert {row: times for row, times in times_used(world).items() if times != 2} == {}


def test_a_restarted_gossip_learner_learns_its_rollout_again_on_adopted_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restarted learner takes its neighbours' weights, which lack its minibatches since the last exchange."""
    ppo = {"name": "ppo", "epochs": 2, "minibatches": 3}
    several: dict[str, Any] = {"learners": {"count": 2, "local_steps": 6}, "total_steps": 180}
    world = World(tmp_path / "run", topology(mode="gossip", algorithm=ppo, **several))
    step, agree = Gossip.step, Gossip.agree
    rollout, taken = [0], list[int]()

    def agreeing(self: Gossip, env_steps: int, optimizer_steps: int, position: Position, *more: Any) -> Any:
        if self.learner.number == 1:
            rollout[0] = position.rollout
        return agree(self, env_steps, optimizer_steps, position, *more)

    def stopping(self: Gossip, *arguments: Any) -> Any:
        if self.learner.number == 1:
            taken.append(rollout[0])
            if len(taken) == 14:  # the second of the third batch
                world.signal("trainer-1", 0, signal.SIGTERM)
        return step(self, *arguments)

    monkeypatch.setattr(Gossip, "agree", agreeing)
    monkeypatch.setattr(Gossip, "step", stopping)
    monkeypatch.setattr(Epochs, "finish_s", 0.0)
    assert world.run() == 0, world.summary
    assert world.summary["deaths"] == 1
    assert [taken.count(each) for each in (1, 2, 3)] == [6, 2 + 6, 6]


def test_steps_lost_when_all_learners_die_are_counted(tmp_path: Path) -> None:
    world = World(tmp_path / "run", topology(mode="sync", checkpoint={"every_steps": 100_000}, **TWO))

    def all_die(world: World) -> None:
        if world.turns == 20:
            world.kill("trainer-0")
            world.kill("trainer-1")

    world.interfere = all_die
    assert world.run() == 0
    used = times_used(world)
    lost = [
        step
        for step in world.produced
        if step.row not in used and step.rollout < world.trainers[step.learner].members.next
    ]
    assert lost
    assert world.rows[-1]["steps_dropped"] == len(lost)


@pytest.mark.parametrize("commits", [22, 27, 32])  # within an epoch of twelve: four minibatches, three chunks
def test_a_simulator_that_dies_while_its_trainer_is_away_changes_no_minibatch(tmp_path: Path, commits: int) -> None:
    ppo = {"name": "ppo", "minibatches": 4, "epochs": 1}
    world = World(tmp_path / "run", topology(mode="async", algorithm=ppo, **TWO))
    world.victim = "trainer-0.0"
    seen: list[bool] = []

    def simulator_dies_too(world: World) -> None:
        seen.append(world.present("trainer-0") is not None)
        if seen[-2:] == [True, False] and seen.count(False) - seen.index(True) == 1:
            own = [process.name for process in world.runner.table.listed if process.id.learner == 0]
            world.kill([name for name in own if name.startswith("simulator")][1])

    world.interfere = simulator_dies_too
    assert world.run(arms=f"store.committed=raise@{commits}") == 0, world.summary
    assert world.summary["deaths"] == 2
    assert {row: times for row, times in times_used(world).items() if times != 1} == {}


@pytest.mark.parametrize("commits", [16, 24])  # within an epoch of twelve: four minibatches, three chunks
def test_a_restarted_trainer_drops_the_same_stale_rows_of_its_rollout(tmp_path: Path, commits: int) -> None:
    ppo = {"name": "ppo", "minibatches": 4, "epochs": 1, "max_policy_lag": 0, "on_policy_lag": "drop"}
    world = World(tmp_path / "run", topology(mode="async", algorithm=ppo, **TWO))
    world.victim = "trainer-0.0"
    assert world.run(arms=f"store.committed=raise@{commits}") == 0, world.summary
    assert world.summary["deaths"] == 1
    assert len(times_used(world)) == world.summary["steps_used"]
