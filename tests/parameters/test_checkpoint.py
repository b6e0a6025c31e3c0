"""Checkpoints: whole or not there, whatever happens to the process, the disk or the bits."""

from __future__ import annotations

import json
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from actorlearn.parameters import checkpoint, checkpoint_folders
from actorlearn.parameters.checkpoint_folders import (
    CheckpointError,
    choose_to_resume,
    find_common,
    find_common_steps,
    nearest_state,
    read_manifest,
)
from actorlearn.parameters.modes import MODES
from actorlearn.tasks.evaluate import opened
from tests.newest import newest_checkpoint
from tests.parameters.killed_saves import SCENARIOS

TENSORS = {"weights.a": torch.arange(6.0).reshape(2, 3), "optimizer.m": torch.ones(4)}
FILES = ("tensors.safetensors", "frame.npy", "sampler-cell.npy", "manifest.json")


def with_replay(folder: Path) -> dict[str, Any]:
    """Files that a learner with a replay writes beside its tensors."""
    for number, name in enumerate(FILES[1:3], 1):
        (folder / name).write_bytes(bytes(range(256)) * number)
    return {"replay": {"size": 2}}


def save(directory: Path, env_steps: int, which: str = "", keep: int = 5, **state: object) -> Path:
    return checkpoint.save(directory, env_steps, TENSORS, {"which": which, **state}, keep, with_replay)


def damage(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b"{}")


def test_a_saved_checkpoint_is_read_back(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 100, TENSORS, {"updates": 7, "recent": [1.5, -2.0]}, keep=3)
    saved = newest_checkpoint(tmp_path)
    assert saved.state == {"updates": 7, "recent": [1.5, -2.0]}
    assert torch.equal(saved.section("weights")["a"], TENSORS["weights.a"])
    assert set(saved.section("optimizer")) == {"m"}


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    for steps in (0, 5, 10, 200, 1000):
        checkpoint.save(tmp_path, steps, TENSORS, {}, keep=2)
    assert [int(p.name) for p in sorted(tmp_path.iterdir())] == [200, 1000]


def test_a_save_at_the_same_steps_replaces_the_checkpoint(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 5, TENSORS, {"try": 1}, keep=2)
    checkpoint.save(tmp_path, 5, TENSORS, {"try": 2}, keep=2)
    assert newest_checkpoint(tmp_path).state == {"try": 2}


def test_each_of_a_thousand_flipped_bits_is_found(tmp_path: Path) -> None:
    folder, draw = save(tmp_path, 2), random.Random(1)
    assert {path.name for path in folder.iterdir()} == set(FILES)
    for turn in range(1000):
        file = folder / FILES[turn % len(FILES)]
        whole = file.read_bytes()
        data = bytearray(whole)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        file.write_bytes(data)
        with pytest.raises((ValueError, OSError)):
            read_manifest(folder)
        file.write_bytes(whole)
    read_manifest(folder)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("what", ["cut", "longer", "empty", "missing", "a folder", "added"])
def test_a_checkpoint_with_a_changed_missing_or_added_file_is_damaged(tmp_path: Path, name: str, what: str) -> None:
    save(tmp_path, 1, "old")
    file = save(tmp_path, 2, "new") / name
    data = file.read_bytes()
    file.unlink()
    if what == "a folder":
        file.mkdir()
    elif what != "missing":
        file.write_bytes({"cut": data[:-1], "longer": data + b" ", "empty": b"", "added": data}[what])
    if what == "added":
        (file.parent / f"more-{name}").write_bytes(data)
    found = checkpoint_folders.newest(tmp_path)
    assert found.state["which"] == "old"
    (said,) = found.warnings()
    both = [f"{tmp_path.name}/{steps:012d}" for steps in (1, 2)]
    assert said.startswith(f"{both[1]} is damaged, so {both[0]} is used instead: ")
    assert name in said


def test_a_file_of_another_program_does_not_damage_a_checkpoint(tmp_path: Path) -> None:
    (save(tmp_path, 2) / ".nfs0001").touch()
    assert checkpoint_folders.newest(tmp_path).damaged == ()


def test_a_renamed_folder_is_a_damaged_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2).rename(tmp_path / "000000000009")
    found = checkpoint_folders.newest(tmp_path)
    assert found.env_steps == 1
    assert found.damaged == ((f"{tmp_path.name}/000000000009", "its manifest has 2 steps, so the folder was renamed"),)


@pytest.mark.parametrize("manifest", ["", "{", "[]", "[" * 10_000, '{"format": 1}', '{"format": 99, "sha256": {}}'])
def test_a_folder_with_a_damaged_manifest_is_no_checkpoint(tmp_path: Path, manifest: str) -> None:
    (save(tmp_path, 2) / "manifest.json").write_text(manifest)
    with pytest.raises(CheckpointError, match="no valid checkpoint"):
        newest_checkpoint(tmp_path)


def test_the_error_about_a_later_format_names_both_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_folders, "FORMAT", 3)
    save(tmp_path, 2)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="format 3, and this version reads format 2"):
        newest_checkpoint(tmp_path)


def test_a_folder_without_checkpoints_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="none found"):
        newest_checkpoint(tmp_path / "nowhere")


def test_a_run_does_not_restart_at_step_0_because_all_later_checkpoints_are_damaged(tmp_path: Path) -> None:
    for steps in (0, 20, 30):
        save(tmp_path, steps)
    damage(tmp_path / "000000000030")
    assert checkpoint_folders.newest(tmp_path).env_steps == 20
    damage(tmp_path / "000000000020")
    name = tmp_path.name
    said = rf"{name}/000000000030: manifest.*{name}/000000000020: manifest.*remove the damaged ones to start at step 0"
    with pytest.raises(CheckpointError, match=said):
        newest_checkpoint(tmp_path)
    for steps in (20, 30):
        shutil.rmtree(tmp_path / f"{steps:012d}")
    assert checkpoint_folders.newest(tmp_path).env_steps == 0


def test_the_newest_valid_checkpoint_is_kept_although_a_damaged_one_has_more_steps(tmp_path: Path) -> None:
    for steps in (20, 30):
        save(tmp_path, steps, keep=2)
    damage(tmp_path / "000000000030")
    for steps, newest in ((25, 25), (28, 28), (31, 31)):
        save(tmp_path, steps, keep=1)
        assert checkpoint_folders.newest(tmp_path).env_steps == newest
    assert [path.name for path in tmp_path.iterdir()] == ["000000000031"]


def test_a_checkpoint_that_is_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2, "before")
    reading = checkpoint_folders.read_manifest
    calls: list[Path] = []

    def replaced(folder: Path, beat: checkpoint_folders.Beat) -> dict[str, Any]:
        calls.append(folder)
        if len(calls) == 1:
            save(tmp_path, 2, "after")
            raise FileNotFoundError("gone")
        return reading(folder, beat)

    monkeypatch.setattr(checkpoint_folders, "read_manifest", replaced)
    found = checkpoint_folders.newest(tmp_path)
    assert (found.state["which"], found.damaged) == ("after", ())


# Which checkpoint a learner resumes from ------------------------------------------------------------------------------


def taken(root: Path, learner: int, mode: str) -> tuple[str, str]:
    own, shared = choose_to_resume(root, learner, MODES.spec(mode))
    return str(own.path.relative_to(root)), str(shared.path.relative_to(root))


def test_learners_that_share_a_store_resume_from_the_newest_checkpoint_of_any(tmp_path: Path) -> None:
    for directory, steps in (("", 50), ("", 60), ("learner-1", 40), ("learner-3", 70)):
        save(tmp_path / directory, steps)
    newest = "learner-3/000000000070"
    assert taken(tmp_path, 0, "async") == ("000000000060", newest)
    assert taken(tmp_path, 1, "async") == ("learner-1/000000000040", newest)
    assert taken(tmp_path, 2, "async") == ("000000000060", newest)  # it has saved nothing yet
    damage(tmp_path / newest)
    assert taken(tmp_path, 0, "async") == ("000000000060",) * 2
    assert taken(tmp_path, 3, "async") == ("000000000060",) * 2
    for mode in ("alone", "gossip", "sync"):
        assert taken(tmp_path, 1, mode) == ("learner-1/000000000040",) * 2


def test_of_checkpoints_with_equal_steps_the_one_with_the_most_changes_of_a_store_is_taken(tmp_path: Path) -> None:
    for directory, changes in (("", 4), ("learner-1", 6), ("learner-2", 5)):
        save(tmp_path / directory, 60, shared_changes=changes)
    save(tmp_path / "learner-2", 50, shared_changes=7)
    for learner, own in enumerate(("", "learner-1/", "learner-2/")):
        assert taken(tmp_path, learner, "async") == (f"{own}000000000060", "learner-1/000000000060")
    damage(tmp_path / "learner-1" / "000000000060")
    _, shared = choose_to_resume(tmp_path, 0, MODES.spec("async"))
    assert shared.path.parent.name == "learner-2"
    assert "learner-1/000000000060 is damaged" in shared.warnings()[0]


def test_learners_in_sync_resume_from_the_newest_steps_that_all_have_saved(tmp_path: Path) -> None:
    for directory, steps in (("", 0), ("", 50), ("", 60), ("learner-1", 0), ("learner-1", 40), ("learner-1", 50)):
        save(tmp_path / directory, steps)
    assert taken(tmp_path, 0, "sync") == ("000000000050",) * 2
    assert taken(tmp_path, 1, "sync") == ("learner-1/000000000050",) * 2
    damage(tmp_path / "000000000050")
    assert taken(tmp_path, 0, "sync") == ("000000000060",) * 2  # and the other learner takes what this one has
    assert taken(tmp_path, 1, "sync") == ("learner-1/000000000050",) * 2


def test_only_learners_with_the_same_weights_resume_from_each_others_checkpoints(tmp_path: Path) -> None:
    for directory, steps in (("", 0), ("", 50), ("learner-1", 50)):
        save(tmp_path / directory, steps)
    damage(tmp_path / "000000000050")
    assert taken(tmp_path, 0, "sync") == ("learner-1/000000000050",) * 2
    assert (
        "only the checkpoint of step 0 is valid" in choose_to_resume(tmp_path, 0, MODES.spec("sync"))[0].warnings()[-1]
    )
    for mode in ("alone", "gossip"):
        with pytest.raises(CheckpointError, match="only the checkpoint of step 0 is valid"):
            choose_to_resume(tmp_path, 0, MODES.spec(mode))


# Saves that fail ------------------------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("how", ["operations", pytest.param("strace", marks=pytest.mark.slow)])
def test_a_kill_at_any_point_of_a_save_leaves_the_old_or_the_new_checkpoint(
    tmp_path: Path, scenario: str, how: str
) -> None:
    if how == "strace" and not shutil.which("strace"):
        pytest.skip("strace is not installed")
    command = [sys.executable, "-m", "tests.parameters.killed_saves", scenario, how, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot be traced" in done.stderr:
        pytest.skip("strace may not attach to a process here")
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["wrong"] is None
    assert counts["killed"] > 20 and counts["old"] > 0 and counts["new"] > 0


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the kernel refuse each write beyond this size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_save_without_space_at_any_write_leaves_the_checkpoint_before_and_no_other_file(tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in save(tmp_path, 1, "old").iterdir()}
    failed = 0
    for size in range(0, 1200, 25):
        for env_steps in (1, 2):
            try:
                with files_of_at_most(size):
                    save(tmp_path, env_steps, "new")
            except OSError:
                failed += 1
                assert [path.name for path in tmp_path.iterdir()] == ["000000000001"]
                assert {path.name: path.read_bytes() for path in (tmp_path / "000000000001").iterdir()} == before
    assert failed > 20
    assert newest_checkpoint(tmp_path).state["which"] == "new"


@pytest.mark.parametrize("name", ["flush", "put_in_place", "save_file", "seal"])
def test_a_failed_save_leaves_the_checkpoint_before_and_no_partial_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    save(tmp_path, 1, "old")

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(checkpoint, name, broken)
    with pytest.raises(OSError, match="Input/output error"):
        save(tmp_path, 2, "new")
    whole = ["000000000001", "000000000002"] if name == "flush" else ["000000000001"]  # it was in place by then
    assert sorted(path.name for path in tmp_path.iterdir()) == whole
    monkeypatch.undo()
    save(tmp_path, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [*whole, "000000000003"]


# Checkpoints of a run at work -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_checkpoint_removed_or_replaced_before_it_is_opened_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """This happens when `eval` reads a run that keeps one checkpoint."""
    save(tmp_path, 2, "before")
    reading = checkpoint.load_file
    calls: list[Path] = []

    def overtaken(path: Path) -> dict[str, torch.Tensor]:
        calls.append(path)
        if len(calls) == 1:
            save(tmp_path, 2 if how == "replaced" else 3, "after", keep=1)
        return reading(path)

    monkeypatch.setattr(checkpoint, "load_file", overtaken)
    assert newest_checkpoint(tmp_path).state["which"] == "after"
    calls.clear()
    found, warnings = opened(tmp_path, None)
    assert found["trainer-0"].state["which"] == "after" and warnings == []


def test_a_checkpoint_that_can_never_be_opened_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 2)

    def refused(_: Path) -> dict[str, torch.Tensor]:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(checkpoint, "load_file", refused)
    with pytest.raises(OSError, match="Input/output error"):
        newest_checkpoint(tmp_path)


# Checkpoints of learners in sync --------------------------------------------------------------------------------------


def steps_of_all(root: Path) -> list[int] | None:
    found = find_common([root, root / "learner-1"])
    return None if found is None else [own.env_steps for own in found]


def test_learners_in_sync_resume_from_the_newest_undamaged_steps_that_all_have(tmp_path: Path) -> None:
    assert steps_of_all(tmp_path) is None
    for directory, steps in (("", 0), ("learner-1", 0)):
        save(tmp_path / directory, steps)
    assert steps_of_all(tmp_path) == [0, 0]
    save(tmp_path, 40)
    assert steps_of_all(tmp_path) == [0, 0]  # interrupted between two learners' first saves
    save(tmp_path, 45)
    assert steps_of_all(tmp_path) is None  # and not step 0
    for directory, steps in (("learner-1", 40), ("", 50), ("learner-1", 50), ("", 60)):
        save(tmp_path / directory, steps)
    assert steps_of_all(tmp_path) == [50, 50]
    damage(tmp_path / "learner-1" / "000000000050")
    assert steps_of_all(tmp_path) == [40, 40]
    damage(tmp_path / "000000000040")
    assert steps_of_all(tmp_path) is None


def test_learners_in_sync_do_not_go_back_to_the_checkpoint_of_a_learner_they_lost(tmp_path: Path) -> None:
    for steps, learners in ((0, []), (100, [0, 1])):
        for directory in (tmp_path, tmp_path / "learner-1"):
            save(directory, steps, learners=learners)
    for steps in (900, 1000):
        save(tmp_path, steps, learners=[0])
    assert steps_of_all(tmp_path) is None
    assert taken(tmp_path, 0, "sync") == ("000000001000",) * 2
    assert taken(tmp_path, 1, "sync") == ("learner-1/000000000100",) * 2
    save(tmp_path, 1100, learners=[0, 1])  # learner 1 has come back, but the run was killed before it saved
    assert steps_of_all(tmp_path) is None
    assert taken(tmp_path, 0, "sync") == ("000000001000",) * 2
    save(tmp_path / "learner-1", 1100, learners=[0, 1])
    assert steps_of_all(tmp_path) == [1100, 1100]


def test_the_newest_checkpoints_that_all_learners_have_are_kept_until_all_have_newer_ones(tmp_path: Path) -> None:
    both = [tmp_path, tmp_path / "learner-1"]

    def saved(directory: Path, env_steps: int) -> list[int]:
        newest = lambda: {max(find_common_steps(both), default=-1)}  # noqa: E731
        checkpoint.save(directory, env_steps, TENSORS, {}, 1, spared=newest)
        return sorted(int(path.name) for path in directory.iterdir() if path.name.isdecimal())

    assert saved(both[0], 40) == [40]
    assert saved(both[1], 40) == [40]
    assert saved(both[0], 50) == [40, 50]
    assert saved(both[0], 55) == [40, 55]
    assert saved(both[1], 50) == [40, 50]
    assert saved(both[1], 55) == [55]
    assert saved(both[0], 60) == [55, 60]


def test_the_counts_of_a_learner_that_has_left_are_those_of_its_nearest_undamaged_checkpoint(tmp_path: Path) -> None:
    for env_steps in (0, 100, 200):
        checkpoint.save(tmp_path, env_steps, {}, {"n": env_steps}, keep=3)
    assert nearest_state(tmp_path, 140) == (100, {"n": 100}) and nearest_state(tmp_path, 900)[0] == 200
    (tmp_path / "000000000100" / "manifest.json").write_text("{}")
    assert nearest_state(tmp_path, 140) == (200, {"n": 200})
    assert nearest_state(tmp_path / "none", 140) == (0, {})
