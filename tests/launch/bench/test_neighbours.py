"""The suite ``neighbours``: its table, its busy processes and quotas, and one real measurement."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import psutil
import pytest

from launch.bench import SUITES, SuiteRequest, shipped
from launch.bench.beside import busy, rationed
from launch.bench.neighbours import ALONE, BESIDE, EVALUATED, OURS, RATIONED, table
from launch.errors import FailedError
from launch.machine.cgroups import Cgroup, quota

suite = import_module("launch.bench.neighbours")
PAAC = shipped("atari/paac.yaml")
SMALL = ("simulators.count=1", "simulators.envs=4", "trainer.threads=1")


def may_ration() -> bool:
    try:
        with rationed(1.5):
            return True
    except FailedError:
        return False


def test_shares_are_relative_to_the_median_rate_without_neighbours() -> None:
    seen = {
        (OURS, ALONE): [1000.0, 900.0, 2000.0],
        (OURS, "strangers"): [500.0, 100.0, 800.0],
        ("loop", ALONE): [10.0],
        ("loop", "strangers"): [5.0, 4.0],
        (OURS, EVALUATED): [600.0],
    }
    assert table(seen) == [
        (OURS, ALONE, "1,000", "100 %", "900", "90 %"),
        (OURS, "strangers", "500", "50 %", "100", "10 %"),
        (OURS, EVALUATED, "600", "60 %", "600", "60 %"),
        ("loop", ALONE, "10", "100 %", "10", "100 %"),
        ("loop", "strangers", "4", "45 %", "4", "40 %"),
    ]


def test_busy_loops_have_the_given_nice_value_and_end_if_their_block_fails() -> None:
    with pytest.raises(RuntimeError), busy(2, 19) as pids:
        loops = [psutil.Process(pid) for pid in pids]
        while not all(loop.cpu_times().user > 0.05 for loop in loops):
            time.sleep(0.01)
        assert [loop.nice() for loop in loops] == [19, 19]
        raise RuntimeError
    assert len(loops) == 2
    assert not any(loop.is_running() for loop in loops)


@pytest.mark.nightly
def test_a_loop_ends_when_its_parent_is_killed() -> None:
    program = "from launch.bench.beside import busy\nwith busy(1, 0) as pids:\n print(*pids, flush=True)\n input()"
    parent = psutil.Popen([sys.executable, "-c", program], stdout=-1, stdin=-1, text=True)
    loop = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    loop.wait(timeout=30)


@pytest.mark.skipif(not may_ration(), reason="no control group can be made here")
def test_rationed_sets_the_quota_of_this_process_and_restores_the_earlier_one() -> None:
    before = quota()
    with pytest.raises(RuntimeError), rationed(0.75) as folder:
        found = quota()
        assert found is not None and found.cores == 0.75
        assert str(os.getpid()) in (folder / "cgroup.procs").read_text().split()
        raise RuntimeError
    assert quota() == before
    assert not folder.exists()


def test_rationed_says_why_no_control_group_can_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    beside = import_module("launch.bench.beside")
    monkeypatch.setattr(beside, "groups", list)
    with pytest.raises(FailedError, match="no cgroup hierarchy with the cpu controller"), rationed(1.5):
        pass
    monkeypatch.setattr(beside, "groups", lambda: [Cgroup(2, tmp_path, tmp_path)])
    with pytest.raises(FailedError, match=r"cpu\.max|No such file"), rationed(1.5):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("refused", [False, True])
def test_every_program_meets_every_neighbour(monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
    now: list[str] = []
    measured: dict[tuple[str, ...], list[str]] = {}

    @contextmanager
    def beside(what: str) -> Iterator[None]:
        now.append(what)
        yield
        now.clear()

    @contextmanager
    def ration(_cores: float) -> Iterator[None]:
        if refused:
            raise FailedError("not root")
        yield

    def ours(request: SuiteRequest, overrides: Sequence[str] = ()) -> list[float]:
        measured.setdefault((OURS, *overrides), []).extend(now)
        return [1.0, 2.0, 3.0]

    def theirs() -> list[float]:
        measured.setdefault(("loop",), []).extend(now)
        return [1.0]

    monkeypatch.setattr(suite, "BESIDE", {what: lambda what=what: beside(what) for what in BESIDE})
    monkeypatch.setattr(suite, "our_rates", ours)
    monkeypatch.setattr(suite, "rationed", ration)
    found = suite.compare("made", SuiteRequest(PAAC, (), 2, 1.0), {"loop": theirs}, ["a note"], {"peers": 1})
    possible = [what for what in BESIDE if not (refused and what == RATIONED)]
    assert measured == {(OURS,): possible * 2, (OURS, *suite.ALWAYS_PLAYING): [], ("loop",): possible * 2}
    assert len(found.rows) == 2 * len(possible) + 1
    assert found.bars["ours, alone"].values == (1.0, 2.0, 3.0) * 2
    assert any("not root" in note for note in found.notes) == refused and "a note" in found.notes
    assert found.as_json()["peers"] == 1


@pytest.mark.system
@pytest.mark.timeout(120)
def test_a_quick_measurement_on_a_small_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "WARMUP_S", 0.5)
    monkeypatch.setattr(suite, "REPORT_S", 0.2)
    found = SUITES["neighbours"].load()(SuiteRequest(shipped("catch.yaml"), SMALL, 1, 1.0))
    assert [row[:2] for row in found.rows] == [
        *((OURS, what) for what in list(BESIDE)[:2]),
        (OURS, EVALUATED),
    ]
    assert all(bar.low > 0.0 for bar in found.bars.values())
    assert not [one for one in psutil.Process().children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]
