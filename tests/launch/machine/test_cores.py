"""The usable cores, and the order in which they are given out, on machines that a folder like /sys describes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launch.machine.cgroups import Quota
from launch.machine.cores import Cores, boot_id, cores_word, in_turn, usable_cores


def machine(folder: Path, siblings: dict[int, str], nodes: dict[int, str]) -> Path:
    for cpu, text in siblings.items():
        path = folder / f"cpu/cpu{cpu}/topology/thread_siblings_list"
        path.parent.mkdir(parents=True)
        path.write_text(text + "\n")
    for node, text in nodes.items():
        path = folder / f"node/node{node}/cpulist"
        path.parent.mkdir(parents=True)
        path.write_text(text + "\n")
    return folder


def test_whole_cores_come_before_hyper_threads(tmp_path: Path) -> None:
    four = machine(tmp_path, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, {0: "0-3"})
    assert in_turn(range(4), four) == [0, 1, 2, 3]
    neighbours = machine(tmp_path / "b", {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, {0: "0-3"})
    assert in_turn(range(4), neighbours) == [0, 2, 1, 3]


def test_one_node_is_filled_before_the_next(tmp_path: Path) -> None:
    two = machine(tmp_path, {cpu: str(cpu) for cpu in range(4)}, {0: "0,2", 1: "1,3"})
    assert in_turn(range(4), two) == [0, 2, 1, 3]


def test_only_allowed_cores_are_given_out(tmp_path: Path) -> None:
    two = machine(tmp_path, {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, {0: "0-3"})
    assert in_turn({1, 3}, two) == [1, 3]
    assert in_turn({0, 1, 3}, two) == [0, 3, 1]


def test_without_a_description_of_the_machine_cores_are_given_out_by_number(tmp_path: Path) -> None:
    assert in_turn({5, 2}, tmp_path) == [2, 5]


def test_all_cores_that_this_process_may_use_are_given_out() -> None:
    assert sorted(in_turn()) == sorted(os.sched_getaffinity(0))


def test_the_word_for_the_cores_of_a_process_changes_with_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    here = cores_word()
    assert cores_word() == here and boot_id()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {1_000})
    assert cores_word() != here


def test_a_quota_leaves_a_part_of_the_allowed_cores_or_all_of_them() -> None:
    part = Cores(2, Quota(1.5, Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), 1))
    assert (part.usable, part.rationed) == (1.5, True)
    assert str(part) == "1.5 of 2 cores (the quota in cpu.cfs_quota_us)"
    for cores in (Cores(2), Cores(2, Quota(4.0, Path("/sys/fs/cgroup/cpu.max"), 2))):
        assert (cores.usable, cores.rationed, str(cores)) == (2.0, False, "2 cores")
    assert str(Cores(1)) == "1 core"
    assert 0.0 < usable_cores() <= len(os.sched_getaffinity(0))
