"""The folder of ``actorlearn run``; its first lines: what is trained, where its files are, and how to watch it."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.commands.run import new_folder, opening
from launch.runs import find
from launch.topology.load import parse


def test_a_run_first_says_what_it_trains_where_and_how_to_watch_it() -> None:
    topology = parse("{env: {id: CartPole-v1}, simulators: {count: 2, envs: 8}, total_steps: 90_000}", ())
    what, files, watch = opening(topology, Path("runs/cart-1"))
    assert what.startswith("cart-1: train a2c on CartPole-v1 to 90,000 steps, 1 learner with 16 environments and ")
    assert files == "files: runs/cart-1"
    assert watch == "watch: `actorlearn top cart-1`, or in a browser `actorlearn desk`; Ctrl-C saves and ends the run"


def test_a_run_that_is_continued_or_kept_elsewhere_says_so(tmp_path: Path) -> None:
    topology = parse("{env: {id: CartPole-v1}}", ())
    what, _, watch = opening(topology, tmp_path / "cart", resumed=True)
    assert what.startswith("cart: continue training a2c on CartPole-v1")
    assert f"`actorlearn top {tmp_path / 'cart'}`" in watch


def test_a_folder_below_the_working_directory_is_shown_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, files, watch = opening(parse("{env: {id: CartPole-v1}}", ()), tmp_path / "runs" / "cart-1", resumed=True)
    assert files == "files: runs/cart-1"
    assert "`actorlearn top cart-1`" in watch


def test_runs_that_are_started_in_the_same_second_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    times = iter(["20260102-030405", "20260102-030405", "20260102-030405", "20260102-030406"])
    monkeypatch.setattr(find, "with_time", lambda name: f"{name}-{next(times)}")
    assert new_folder("cart", None) == Path("runs/cart-20260102-030405")  # still empty: its run is being tried
    assert new_folder("cart", None) == Path("runs/cart-20260102-030406")
    (tmp_path / "own").mkdir()
    assert new_folder("cart", Path("own")) == Path("own")
