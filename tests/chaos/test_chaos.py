"""Faults in living runs: small campaigns, and tests that the judge and the census notice violations."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.interface import Batch
from actorlearn.models.make import flatten
from actorlearn.optim.interface import make as make_optimizer
from tests import named
from tests.chaos import census, judge, schedule
from tests.chaos.results import Results
from tests.chaos.rows import BLOCK, PACE_VARIABLE, SIZE, STEP, VARIABLE, Row, Rows
from tests.chaos.schedule import FAULTS, FAULTS_OVER_NODES, MODES
from tests.chaos.stage import Stage, StageError
from tests.chaos.witness import Witness
from tests.runaways import lives
from tests.sizes import ROOT


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rows:
    """Rows of a run in which this process is both a simulator and a trainer."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "rows"))
    monkeypatch.setenv("ACTORLEARN_RUN_ID", "run")
    monkeypatch.setenv("ACTORLEARN_PROCESS", "trainer.0")
    monkeypatch.delenv(PACE_VARIABLE, raising=False)
    monkeypatch.setattr("tests.chaos.rows._own", {})
    return Rows.make(tmp_path / "rows")


@pytest.fixture
def has_stage() -> None:
    """Skip a test on machines that allow no mount namespaces."""
    try:
        with Stage():
            pass
    except StageError as error:
        pytest.skip(str(error))


def test_a_seed_determines_a_campaign() -> None:
    first, again = ([*schedule.trials(1000, 7)] for _ in range(2))
    assert first == again != [*schedule.trials(1000, 8)]
    assert sum(len(trial.faults) for trial in first) == 1000
    tried = {(fault.kind, fault.role) for trial in first for fault in trial.faults}
    assert tried == {(kind, role) for kind, role, _, _ in (*FAULTS, *FAULTS_OVER_NODES)}
    assert {trial.mode.partition("-")[0] for trial in first} == set(MODES)
    assert [*schedule.trials(924, 7)] == first[:11]


def test_a_campaign_can_be_limited_to_some_modes() -> None:
    trials = [*schedule.trials(300, 7, 30, schedule.modes(["nodes"]))]
    assert sum(len(trial.faults) for trial in trials) == 300
    assert {trial.mode for trial in trials} == set(MODES["nodes"])


COUNTS = {"steps_made": 9, "steps_used": 9, "steps_dropped": 0, "steps_in_flight": 0, "dropped_unfinished": 0}
NO_COUNTS = dict.fromkeys(COUNTS)
LOST = "the steps of the run are not known, because node node-1 was lost\n"
KILLED = {"node-1": "node node-1: it has sent nothing for 12 s"}


@pytest.mark.parametrize(
    ("summary", "screen", "lost", "is_unknown", "told"),
    [
        (COUNTS, "", {}, False, ""),
        (COUNTS, "", KILLED, False, ""),
        (NO_COUNTS, LOST, KILLED, True, ""),
        (NO_COUNTS, LOST, {}, True, "lost were {}"),
        (NO_COUNTS, LOST, {"node-1": "node node-1: its agent was stopped"}, True, "lost were"),
        (NO_COUNTS, LOST.replace("node-1", "node-0"), KILLED, True, "lost were"),
        (NO_COUNTS, "", KILLED, True, "does not say why"),
        (COUNTS | {"steps_used": None}, LOST, KILLED, True, "some counts are null"),
        ({}, LOST, KILLED, True, "no counts"),
    ],
)
def test_steps_may_be_unknown_only_of_a_run_that_names_a_lost_node(
    summary: dict[str, int | None], screen: str, lost: dict[str, str], is_unknown: bool, told: str
) -> None:
    answer, found = judge.unknown(summary, screen, lost)
    assert answer is is_unknown and bool(found) == bool(told) and told in "".join(found)


def test_the_judge_reports_rows_learned_twice_and_rows_not_counted(rows: Rows) -> None:
    rows.kind[:8] = STEP
    rows.origin[:8] = np.arange(8)
    taken, tally = np.arange(8), np.zeros(SIZE, np.float32)
    tally[:5] = 1
    assert judge.exactly_once(rows, taken, tally, 5, "sync", 1) == judge.counted(tally, 5) == []
    assert judge.counted(tally, 6) == ["steps_used is 6, and 5 rows are in the final weights"]
    assert judge.not_more(tally, 6, room=1) == []
    assert judge.not_more(tally, 7, room=1) == ["steps_used is 7, and only 5 rows are in the final weights"]
    tally[2] = 2
    (twice,) = judge.exactly_once(rows, taken, tally, 5, "sync", 1)
    assert twice.startswith("1 rows in more than 1 surviving gradients: 2 of")
    tally[2], tally[9] = 1, 1
    (stranger,) = judge.exactly_once(rows, taken, tally, 6, "sync", 1)
    assert stranger.startswith("1 rows learned from that nobody stepped from: 9 of")


def test_no_row_gets_the_number_of_another(rows: Rows) -> None:
    others = [Rows(rows.folder) for _ in range(3)]
    dealt = [one.next() for _ in range(3 * BLOCK) for one in (rows, *others)]
    assert len(set(dealt)) == len(dealt) and max(dealt) < 16 * BLOCK


def played(count: int) -> tuple[np.ndarray, list[int], list[bool]]:
    """Observations of one environment, their numbers, and which begin games."""
    env = Row()
    shown, first = [env.reset(seed=3)[0]], [True]
    while len(shown) < count:
        observation, _, terminated, truncated, _ = env.step(1)
        shown.append(observation)
        first.append(False)
        if terminated or truncated:
            shown.append(env.reset()[0])
            first.append(True)
    return np.stack(shown), list(range(len(shown))), first


def batch_of(observation: np.ndarray, first: list[bool]) -> Batch:
    flags = torch.tensor(first)[:, None]
    nothing = torch.zeros(len(first) - 1, 1)
    return Batch.plain(
        observation=torch.from_numpy(observation)[:, None],
        action=nothing.long(),
        reward=nothing + 0.25,
        first=flags,
        valid=~flags[1:],
    )


def test_a_weight_counts_the_gradients_that_its_row_was_in(rows: Rows) -> None:
    observation, numbers, first = played(30)
    network = Witness((32,), {"logits": 4, "value": 1})
    weights, gradients = flatten(network)
    optimizer = make_optimizer(
        named.optimizer(name="rmsprop", decay=0.0, epsilon=1e-30, centered=False, clip_norm=0.0), weights
    )
    algorithm = A2C(named.algorithm(name="a2c", horizon=len(first) - 1))

    def learn(until: int) -> None:
        batch = batch_of(observation[: until + 1], first[: until + 1])
        outputs = {name: out[:, None] for name, out in network(batch.observation[:, 0]).items()}
        gradients.zero_()
        torch.autograd.backward(algorithm.loss(outputs, batch, 0.0)[0])
        optimizer.step(weights, gradients, 1.0)

    learn(len(first) - 1)
    learn(10)
    expected = np.zeros(SIZE)
    for number in numbers[:-1]:
        expected[number] = 0 if first[number + 1] else 1 + (number < 10)
    assert np.array_equal(-weights.numpy(), expected)
    assert np.array_equal(rows.gradients, expected)
    made = np.flatnonzero(rows.kind)
    assert made.tolist() == numbers
    assert rows.origin[numbers[1]] == numbers[0]


def test_the_network_reports_a_damaged_row(rows: Rows) -> None:
    observation, _, _ = played(4)
    observation[2, 5] ^= 1
    network = Witness((32,), {"logits": 4, "value": 1})
    with pytest.raises(ValueError, match="damaged observation"):
        network(torch.from_numpy(observation))
    assert "damaged observation" in (rows.folder / "damaged").read_text()


def test_a_stage_fills_only_its_own_shared_memory_and_leaves_nothing(has_stage: None) -> None:
    before = os.statvfs("/dev/shm").f_bavail
    with Stage() as stage:
        folder = stage.folder
        stage.fill(stage.shared)
        assert os.statvfs(stage.shared).f_bavail == 0
        assert os.statvfs("/dev/shm").f_bavail > before / 2
        stage.free(stage.shared)
        assert os.statvfs(stage.shared).f_bavail > 0
        done = subprocess.run(stage.command(["df", "/dev/shm"]), capture_output=True, text=True, check=True)
        assert "393216" in done.stdout  # KiB
        pid = stage.holder
    assert not folder.exists() and not lives(pid)


def campaign(results: Path, faults: int, each: int, jobs: int) -> set[str]:
    """Run a campaign, which must find no violations; return the modes of its runs."""
    numbers = {"faults": faults, "each": each, "jobs": jobs, "seed": 2877}
    arguments = [word for name, number in numbers.items() for word in (f"--{name}", str(number))]
    command = [sys.executable, "-m", "tests.chaos", *arguments, "--results", str(results)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    records = Results(results).records
    assert sum(record["kind"] == "fault" for record in records) == faults
    return {record["mode"].partition("-")[0] for record in records}


@pytest.mark.system
@pytest.mark.smoke
@pytest.mark.timeout(300)
def test_eight_faults_leave_nothing_lost_and_nothing_behind(tmp_path: Path, has_stage: None) -> None:
    assert len(campaign(tmp_path / "r", faults=8, each=8, jobs=1)) == 1


@pytest.mark.system
@pytest.mark.timeout(900)
def test_sixty_faults_leave_nothing_lost_and_nothing_behind(tmp_path: Path, has_stage: None) -> None:
    """Five runs, one of each mode and one over nodes, two at a time: of a campaign whose heavy faults are few."""
    assert campaign(tmp_path / "r", faults=60, each=12, jobs=2) == set(MODES)


def survivors(*fds: str) -> dict[str, census.Survivor]:
    return {name: census.Survivor(fds, threads=1, deleted=0, zombies=0) for name in ("supervisor 6", "trainer 7")}


SEGMENT, WAKEUP = "/dev/shm/actorlearn-0-a/simulator-1.0", "/tmp/s/simulator-1.wakeup"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (["socket"], ["socket", "socket"], "1: more of ['socket']"),
        ([SEGMENT], [f"{SEGMENT} (deleted)"], "0: more of"),
        ([WAKEUP], [WAKEUP, f"{WAKEUP} (deleted)"], "more than one descriptor"),
        (["pipe"], ["pipe", SEGMENT, SEGMENT], "more than one descriptor"),
        (["pipe"], ["pipe", SEGMENT, f"{WAKEUP} (deleted)"], ""),
        ([SEGMENT, SEGMENT], [SEGMENT, SEGMENT], ""),
    ],
)
def test_a_survivor_may_open_each_segment_and_wakeup_once(before: list[str], after: list[str], told: str) -> None:
    found = census.grown(survivors(*before), survivors(*after))
    assert bool(found) == bool(told) and told in "".join(found)


@pytest.mark.parametrize(("scored_ns", "told"), [(0, True), (2_000_000_000, False)])
def test_an_earlier_best_checkpoint_may_stay_only_until_the_next_save(
    tmp_path: Path, scored_ns: int, told: bool
) -> None:
    for steps in (10, 20, 30):
        (tmp_path / "checkpoints" / f"{steps:012d}").mkdir(parents=True)
        (tmp_path / "checkpoints" / f"{steps:012d}" / "manifest.json").touch()
        os.utime(tmp_path / "checkpoints" / f"{steps:012d}" / "manifest.json", ns=(1_000_000_000, 1_000_000_000))
    best = tmp_path / "checkpoints" / "best.json"
    best.write_text('{"env_steps": 25}')
    os.utime(best, ns=(scored_ns, scored_ns))
    run: Any = SimpleNamespace(folder=tmp_path)
    assert bool(census.files_left(run, keep=2, learners=1)) == told
