"""Mode sync: learners learn as one learner with all their environments, and survive kills and restarts."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actorlearn.address import Shm
from actorlearn.memory.shared import Segment
from actorlearn.parameters.allreduce import ASK_EVERY, Sync, ask_after
from actorlearn.parameters.alone import Alone
from actorlearn.parameters.barrier import barrier_fields, rows_fields
from actorlearn.parameters.consumed import Consumed, Position
from actorlearn.parameters.interface import Carried, Learner
from actorlearn.parameters.settings import AloneExchangeSettings, SyncExchangeSettings
from tests.examples import examples
from tests.parameters import sync_learner as program

pytestmark = pytest.mark.timeout(180)  # each learner loads torch, on a machine that may be busy


def barrier(folder: Path, learners: int, generation: int = 0) -> str:
    with suppress(FileExistsError):
        Segment.create(folder / "gradients", rows_fields(learners, program.PARAMETERS + program.STATISTICS))
    return str(Segment.create(folder / f"learners.{generation}", barrier_fields(learners)).path)


def begin(scenario: str, rank: int, learners: int, paths: Sequence[str]) -> subprocess.Popen[bytes]:
    arguments = [scenario, str(rank), str(learners), *paths]
    command = [sys.executable, "-W", "error", "-m", "tests.parameters.sync_learner", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def told(process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    output, _ = process.communicate()
    return [json.loads(line) for line in output.splitlines()]


def run(scenario: str, learners: int, paths: Sequence[str]) -> list[list[dict[str, Any]]]:
    processes = [begin(scenario, rank, learners, paths) for rank in range(learners)]
    lines = [told(process) for process in processes]
    assert [process.returncode for process in processes] == [0] * learners
    return lines


@pytest.mark.nightly
def test_two_learners_learn_as_one_learner_with_the_environments_of_both(tmp_path: Path) -> None:
    first, second = run("learn", 2, [barrier(tmp_path, 2)])
    weights = program.start()
    alone = Alone(AloneExchangeSettings(), Learner(program.OPTIMIZER, weights, torch.zeros(program.PARAMETERS)))
    for update in range(program.UPDATES):
        for rank in range(2):
            program.combine(weights[program.PARAMETERS :], torch.tensor([rank + 1.0, float(update)]))
        gradient = program.gradient(weights, slice(0, program.ROWS), update)
        stepped = alone.step(gradient, [program.RATE], usable=update != program.UNUSABLE)
        for lines in (first, second):
            assert lines[update]["taken"] == stepped.taken == (update != program.UNUSABLE)
            if stepped.taken:
                assert lines[update]["norm"] == pytest.approx(stepped.norm, rel=1e-5)
    assert first[-1] == second[-1]  # bit for bit
    torch.testing.assert_close(torch.tensor(first[-1]["weights"]), weights, rtol=1e-5, atol=1e-6)
    assert (first[-1]["env_steps"], first[-1]["updates"]) == (30 * program.UPDATES, program.UPDATES)
    # Learner 1 drained: neither learned the last batch.
    assert first[-2] == second[-2] == {"env_steps": 240, "updates": 8, "draining": True, "idle": 0}
    # It was told to in the middle of a batch: both broke it off at the same step.
    assert first[-5] == second[-5]
    assert 2 * ASK_EVERY < first[-5]["broken_off"] <= 3 * ASK_EVERY
    assert first[-3] == second[-3] == {"sockets": 0}
    numbers = first[-4]
    assert numbers["straggler"] in (0, 1) and 0.0 < numbers["straggler_share"] <= 1.0
    assert numbers["learner_wait_s"] > 0.0


@pytest.mark.parametrize(
    ("calls", "seconds", "expected"), [(8, 0.1, 8), (8, 1e-9, 8), (8, 2.0, 4), (4, 8.0, 1), (1, 75.0, 1), (1, 0.2, 5)]
)
def test_learners_ask_whether_another_ends_once_a_second_or_after_each_longer_step(
    calls: int, seconds: float, expected: int
) -> None:
    assert ask_after(calls, seconds) == expected


@pytest.mark.nightly
def test_survivors_of_a_killed_learner_bring_the_newest_weights_to_the_next_generation(tmp_path: Path) -> None:
    paths = [barrier(tmp_path, 3, generation) for generation in range(2)]
    learners = [begin("lose", rank, 3, paths) for rank in range(3)]
    learners[2].communicate()
    assert learners[2].returncode == -9
    newcomer = begin("lose", 2, 3, paths[1:])
    survivors, new = [told(learner) for learner in learners[:2]], told(newcomer)
    assert [learners[0].returncode, learners[1].returncode, newcomer.returncode] == [0, 0, 0]
    for lines in survivors:
        assert [line["update"] for line in lines[:2]] == [0, 1]
        assert "learners [2] are gone" in lines[2]["lost"]
    for lines in (*(lines[3:] for lines in survivors), new):
        said = [[2, 0], [2, 1], [0, 2]]  # updates and rank of each
        assert lines[0] == {"joined": 2, "beside": [0.0, 0.0, 0.0], "own": [0.0, 0.0], "said": said, "best": 0}
        assert [line["update"] for line in lines[1:3]] == [2, 3]
        assert lines[3] == new[3]  # weights, bit for bit
    assert (new[3]["env_steps"], new[3]["updates"]) == (60 * 4, 4)
    assert survivors[0][-1]["ended"] == "Stopped"
    assert survivors[1][-1]["ended"] == new[-1]["ended"] == "PeerLost"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("local", [[], ["local"]])
@pytest.mark.parametrize("learners", [2, 3])
def test_after_a_kill_at_any_line_all_other_learners_have_the_same_whole_steps(
    learners: int, local: list[str], tmp_path: Path
) -> None:
    """Two learners each sum whole gradients, three a part each. Local steps are undone back to the last exchange."""
    command = [sys.executable, "-m", "tests.parameters.killed_learners", str(learners), str(tmp_path), *local]
    runs = [json.loads(line) for line in subprocess.check_output(command).splitlines()]
    unkilled, killed = runs[0], runs[1:-1]
    assert [seen[1:] for seen in unkilled] == [unkilled[0][1:]] * learners == [seen[1:] for seen in runs[-1]]
    for line, (*survivors, victim) in enumerate(killed, 1):
        assert victim == [] and survivors == [seen[: len(survivors[0])] for seen in unkilled[:-1]], line
    assert {len(first) for first, *_ in killed} == set(range(1, 7 if local else 5))  # not joined, joined, exchanges


@pytest.mark.nightly
def test_weights_that_differ_are_an_error_that_names_the_learners(tmp_path: Path) -> None:
    for lines in run("differ", 2, [barrier(tmp_path, 2)]):
        assert "the weights of the learners differ after update 1; their hashes: learner 0: " in lines[-1]["differ"]


@pytest.mark.nightly
def test_a_learner_with_fewer_steps_left_takes_part_in_the_steps_of_the_others(tmp_path: Path) -> None:
    """It has no part in the mean until its own steps begin; all learners end together."""
    first, second = run("differ_in_steps", 2, [barrier(tmp_path, 2)])
    assert (first[0], second[0]) == ({"idle": 1}, {"idle": 0})
    assert first[1:] == second[1:]
    weights = program.start()
    alone = Alone(AloneExchangeSettings(), Learner(program.OPTIMIZER, weights, torch.zeros(program.PARAMETERS)))
    for step, (gradient, mean) in enumerate(((1.0, 1.0), (0.5, 10.5))):
        alone.step(torch.full((program.PARAMETERS,), gradient), [program.RATE])
        # Both take learner 0's state of the algorithm on joining; the mean is that of the learners that step.
        assert first[1 + 2 * step] == {"mean": [mean, mean], "own_state": [0.0, 0.0]}
        assert first[2 + 2 * step] == {"weights": weights.tolist(), "state": alone.state()["mean"].tolist()}
    assert first[5] == {"positions": [[1, 10], [1, 10]]}


def test_local_steps_that_are_broken_off_leave_the_state_of_the_last_exchange(tmp_path: Path) -> None:
    """A learner changes its state after each step, also after the step at which weights are exchanged."""
    state, weights = torch.zeros(2), program.start()
    own = Learner(program.OPTIMIZER, weights, torch.zeros(program.PARAMETERS), state=state)
    path = barrier(tmp_path, 1)
    places = {"rendezvous": Shm(path=path), "gradients": Shm(path=str(tmp_path / "gradients"))}
    exchange = Sync(SyncExchangeSettings(rank=0, learners=1, local_steps=2, **places), own)
    exchange.join(0, 0)
    exchange.agree(10, 6)
    for step in range(1, 4):
        exchange.step(torch.ones(program.PARAMETERS), [program.RATE])
        state.fill_(step)
    exchange.break_off()
    exchange.close()
    assert state.tolist() == [2.0, 2.0]


class Follows(Carried):
    """A target network that follows the weights of its own learner."""

    def __init__(self, number: int) -> None:
        self.target = torch.full((3,), float(number))

    @property
    def shared_tensors(self) -> list[torch.Tensor]:
        return [self.target]


@pytest.mark.parametrize(
    ("local_steps", "updates", "expected"), [(2, (4, 4), (0.0, 1.0)), (2, (4, 3), (0.0, 0.0)), (1, (4, 4), (0.0, 0.0))]
)
def test_with_local_steps_a_learner_with_as_many_updates_keeps_its_target_network(
    tmp_path: Path, local_steps: int, updates: tuple[int, int], expected: tuple[float, float]
) -> None:
    """Target networks that follow local steps differ, so a resume is exact only if each learner keeps its own."""
    path, beside = barrier(tmp_path, 2), [Follows(number) for number in range(2)]
    places = {"rendezvous": Shm(path=path), "gradients": Shm(path=str(tmp_path / "gradients"))}

    def join(rank: int) -> None:
        learner = Learner(
            *(program.OPTIMIZER, program.start(), torch.zeros(program.PARAMETERS)),
            number=rank,
            consumed=Consumed(2),
            carried=beside[rank],
        )
        exchange = Sync(SyncExchangeSettings(rank=rank, learners=2, local_steps=local_steps, **places), learner)
        exchange.join(10 * updates[rank], updates[rank])
        exchange.close()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(join, range(2)))
    assert [each.target.tolist() for each in beside] == [[number] * 3 for number in expected]


class Member:
    """A learner of a `Training`; its statistics have the number of the newest update."""

    def __init__(self, number: int, learners: int) -> None:
        self.number, self.weights, self.consumed = number, torch.zeros(3), Consumed(learners)
        self.env_steps = self.updates = 0
        self.exchange: Sync | None = None
        self.save()

    def save(self) -> None:
        self.saved = self.weights.clone(), self.consumed.table.copy(), self.env_steps, self.updates

    def restore(self) -> None:
        weights, table, self.env_steps, self.updates = self.saved
        self.weights.copy_(weights)
        self.consumed.restore(table)

    @property
    def position(self) -> Position:
        return self.consumed.position(self.number) or Position()

    @property
    def newest(self) -> int:
        return int(self.weights[2])

    def join(self, rank: int, learners: int, folder: Path) -> None:
        own = Learner(program.OPTIMIZER, self.weights, torch.zeros(2), number=self.number, consumed=self.consumed)
        places = {"rendezvous": Shm(f"{folder}/learners"), "gradients": Shm(f"{folder}/gradients")}
        self.exchange = Sync(SyncExchangeSettings(rank=rank, learners=learners, **places), own)
        self.env_steps, self.updates, _ = self.exchange.join(self.env_steps, self.updates, self.position)

    def learn(self, update: int) -> None:
        assert self.exchange is not None
        agreed = self.exchange.agree(10, 1, self.position)
        self.exchange.merge(torch.tensor([float(update)]), lambda own, others: own.copy_(others))
        self.exchange.step(torch.ones(2), [program.RATE])
        self.exchange.settle()
        self.env_steps, self.updates = agreed.env_steps, agreed.updates

    def close(self) -> None:
        if self.exchange is not None:
            self.exchange.close()


class Training:
    """Learners in mode sync, as threads; each may be lost, and return from its own newest checkpoint."""

    def __init__(self, learners: int, folder: Path, threads: ThreadPoolExecutor) -> None:
        self.members = [Member(number, learners) for number in range(learners)]
        self.living, self._folder, self._threads = list(self.members), folder, threads
        self._updates = self._generations = 0
        self.going_on: int | None = None
        """Newest update of the learners that have learned since they were restored; None if none of them lives."""
        self.join()

    def all(self, do: Callable[[int, Member], None]) -> None:
        list(self._threads.map(do, *zip(*enumerate(self.living), strict=True)))

    def join(self) -> None:
        """Have the living learners join each other, and compare what they take with what they should."""
        newest = max(self.living, key=lambda each: (each.updates, -each.number)).newest
        expected = newest if self.going_on is None else self.going_on
        self._generations += 1
        folder, learners = self._folder / str(self._generations), len(self.living)
        folder.mkdir()
        Segment.create(folder / "learners", barrier_fields(learners)).close()
        Segment.create(folder / "gradients", rows_fields(len(self.members), 3)).close()
        self.all(lambda rank, member: member.join(rank, learners, folder))
        assert [member.newest for member in self.living] == [expected] * learners
        assert len({(member.env_steps, member.updates, member.consumed.table.tobytes()) for member in self.living}) == 1

    def do(self, what: str, number: int) -> None:
        member = self.members[number]
        if what == "update" and self.living:
            self._updates += 1
            self.all(lambda _, each: each.learn(self._updates))
            self.going_on = self._updates
        elif what == "save" and member in self.living:
            member.save()
        elif what in ("lose", "return") and (member in self.living) == (what == "lose"):
            for each in self.living:
                each.close()
            others = [each for each in self.living if each is not member]
            if what == "return":
                member.restore()
                others = sorted([*others, member], key=lambda each: each.number)
            self.living = others
            if others:
                self.join()
            else:
                self.going_on = None


HAPPENINGS = st.tuples(st.sampled_from(["update", "update", "save", "lose", "return"]), st.integers(0, 2))
ALL_LOST = [*(("update", 0), ("update", 0), ("save", 2)), *(("lose", 2), ("lose", 1), ("lose", 0))]
"""Learner 2 has saved two updates, the others none."""
BEHIND = [*ALL_LOST, ("return", 0), ("update", 0)]
"""Learner 0 has returned from before these updates, and learned since."""


@settings(max_examples=examples(100), deadline=None)
@example([*BEHIND, ("return", 2)])
@example([*BEHIND, ("return", 1), ("lose", 0), ("return", 2)])
@example([*ALL_LOST, ("return", 0), ("return", 2)])
@given(st.lists(HAPPENINGS, max_size=14))
def test_a_learner_that_returns_from_a_checkpoint_never_replaces_what_others_have_learned_since(
    history: list[tuple[str, int]],
) -> None:
    """If all learners have returned and none has learned since, all take the weights with the most updates."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(3) as threads:
        training = Training(3, Path(folder), threads)
        for what, number in history:
            training.do(what, number)
        for member in training.living:
            member.close()
