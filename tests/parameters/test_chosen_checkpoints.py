"""The checkpoint that a user names: newest, best, or by its steps; and what becomes of newer ones at a resume."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from actorlearn.parameters import checkpoint
from actorlearn.parameters.checkpoint_folders import (
    CheckpointError,
    choose_to_resume,
    directories,
    directory_of,
    find_common_steps,
    folders,
)
from actorlearn.parameters.chosen_checkpoints import (
    Best,
    best_of_each,
    choose,
    choose_of_all,
    newer_set_aside,
    read_at,
    read_best,
    write_best,
)
from actorlearn.parameters.modes import ASYNC
from actorlearn.tasks.evaluate import opened


def save(directory: Path, env_steps: int, **state: Any) -> None:
    checkpoint.save(directory, env_steps, {"weights.a": torch.ones(1)}, state, keep=10)


def test_a_checkpoint_is_chosen_by_its_steps_and_a_missing_one_lists_those_that_are_there(tmp_path: Path) -> None:
    for steps in (0, 1500, 3000):
        save(tmp_path, steps)
    assert choose(tmp_path, read_at("newest")).env_steps == 3000
    assert [choose(tmp_path, read_at(text)).env_steps for text in ("1500", "1_500", "1,500")] == [1500] * 3
    for at in (1501, "bets"):
        with pytest.raises(ValueError, match=rf"^at {at}: .* write newest, .*: 0, 1_500, 3_000$"):
            choose(tmp_path, at)
    (tmp_path / "000000001500" / "manifest.json").write_bytes(b"{}")
    with pytest.raises(CheckpointError, match=r"/000000001500 is damaged: manifest\.json"):
        choose(tmp_path, 1500)  # an older one would not be what was asked for


def test_a_learner_without_a_checkpoint_of_these_steps_takes_the_nearest_except_in_sync(tmp_path: Path) -> None:
    for directory, steps in (("", 100), ("", 200), ("learner-1", 110), ("learner-1", 200), ("learner-2", 50)):
        save(tmp_path / directory, steps)
    chosen = choose_of_all(tmp_path, 100, in_step=False)
    assert {learner: int(folder.name) for learner, folder in chosen.items()} == {0: 100, 1: 110, 2: 50}
    with pytest.raises(ValueError, match="at 200: .*: none yet$"):
        choose_of_all(tmp_path, 200, in_step=True)
    assert set(opened(tmp_path, 50, 100)[0]) == {"trainer-0", "trainer-1", "trainer-2"}


def test_learners_of_a_store_continue_from_no_newer_weights_than_the_chosen_checkpoint(tmp_path: Path) -> None:
    """In mode async all learners take the newest weights of any."""
    for directory, steps in (("", 100), ("", 200), ("learner-1", 90), ("learner-1", 110)):
        save(tmp_path / directory, steps)
    chosen = choose_of_all(tmp_path, 100, in_step=False, central=True)
    assert {learner: int(folder.name) for learner, folder in chosen.items()} == {0: 100, 1: 90}
    with newer_set_aside(chosen):
        assert [choose_to_resume(tmp_path, learner, ASYNC)[1].env_steps for learner in (0, 1, 2)] == [100] * 3


def test_learners_of_a_store_do_not_go_back_to_before_the_first_checkpoint_of_one_of_them(tmp_path: Path) -> None:
    """It would take the weights of another learner, and nobody would know how many steps it had used until then."""
    kept = {"": (100, 200, 300), "learner-1": (90, 190), "learner-2": (130, 230), "learner-3": (210, 310)}
    for directory, steps in kept.items():
        for each in steps:
            save(tmp_path / directory, each)
    (tmp_path / "learner-4").mkdir()  # it has counted nothing
    write_best(tmp_path, Best(150, 1.0, "training"))
    for at, late in (
        (100, "learner 2 (first at 130 steps), learner 3 (first at 210 steps)"),
        (200, "learner 3 (first at 210 steps)"),
        ("best", "learner 3 (first at 210 steps)"),
    ):
        said = f"^at {at}: .*: {re.escape(late)}; write newest instead of {at}, or .*: 300; if .* move"
        with pytest.raises(ValueError, match=said):
            choose_of_all(tmp_path, at, in_step=False, central=True)
    chosen = choose_of_all(tmp_path, 300, in_step=False, central=True)
    assert {learner: int(folder.name) for learner, folder in chosen.items()} == {0: 300, 1: 190, 2: 230, 3: 210}
    shutil.move(tmp_path / "learner-3", tmp_path.parent / "learner-3")  # as the error says
    assert choose_of_all(tmp_path, "best", in_step=False, central=True).keys() == {0, 1, 2}
    chosen = choose_of_all(tmp_path, 100, in_step=False)  # without central weights each has its own, also a newer one
    assert {learner: int(folder.name) for learner, folder in chosen.items()} == {0: 100, 1: 90, 2: 130}


def test_learners_in_sync_that_lost_one_can_be_resumed_at_their_own_checkpoints(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "learner-1"):
        save(directory, 100, learners=[0, 1])
    for steps in (900, 1000):
        save(tmp_path, steps, learners=[0])
    write_best(tmp_path, Best(950, 1.0, "training"))
    for directory in (tmp_path, tmp_path / "learner-1"):  # it has come back
        save(directory, 1100, learners=[0, 1])
    save(tmp_path / "learner-2", 1100, learners=[0, 1, 2])
    save(tmp_path, 1050, learners=[0])
    for at, steps in ((900, 900), ("best", 1000)):
        chosen = choose_of_all(tmp_path, at, in_step=True)
        assert {learner: int(folder.name) for learner, folder in chosen.items()} == {0: steps, 1: 100}
    with newer_set_aside(chosen):
        assert not folders(tmp_path / "learner-2"), "a learner with newer ones only begins from the first learner's"
        assert find_common_steps([tmp_path, tmp_path / "learner-1"]) == {100}


def test_the_best_score_is_kept_if_only_a_learner_other_than_the_first_has_its_checkpoint(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "learner-1"):
        save(directory, 500, learners=[0, 1])
    save(tmp_path / "learner-1", 900, learners=[1])
    write_best(tmp_path, Best(890, 1.0, "evaluation"))
    with newer_set_aside(choose_of_all(tmp_path, "best", in_step=True)):
        assert read_best(tmp_path) is not None


def test_a_best_score_newer_than_the_named_checkpoint_is_moved_even_if_a_peers_is_newer(tmp_path: Path) -> None:
    """In mode gossip, learners save at different steps, and the nearest checkpoint of another learner may be newer."""
    for directory, steps in (("", 500), ("", 600), ("learner-1", 540)):
        save(tmp_path / directory, steps)
    write_best(tmp_path, Best(530, 1.0, "evaluation"))
    with newer_set_aside(choose_of_all(tmp_path, 500, in_step=False)):
        assert read_best(tmp_path) is None


def test_a_first_learner_that_has_only_newer_checkpoints_keeps_none_of_them(tmp_path: Path) -> None:
    """It was lost while the other went on, and came back; its older ones were removed since."""
    save(tmp_path / "learner-1", 900, learners=[1])
    for directory in (tmp_path, tmp_path / "learner-1"):
        save(directory, 1100, learners=[0, 1])
    write_best(tmp_path, Best(1000, 1.0, "training"))
    chosen = choose_of_all(tmp_path, 900, in_step=True)
    with newer_set_aside(chosen):
        left = [
            path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("**/*[0-9]") if "aside" not in str(path)
        ]
        assert sorted(left) == ["learner-1", "learner-1/000000000900"]
        assert read_best(tmp_path) is None


def test_newer_checkpoints_are_set_aside_and_come_back_if_the_run_cannot_be_resumed(tmp_path: Path) -> None:
    for directory, steps in (("", 100), ("", 200), ("", 300), ("learner-1", 100), ("learner-1", 300)):
        save(tmp_path / directory, steps)
    chosen = choose_of_all(tmp_path, 100, in_step=True)
    with pytest.raises(ZeroDivisionError), newer_set_aside(chosen):
        assert find_common_steps([tmp_path, tmp_path / "learner-1"]) == {100}
        raise ZeroDivisionError
    assert find_common_steps([tmp_path, tmp_path / "learner-1"]) == {100, 300}
    with newer_set_aside(chosen):
        pass
    save(tmp_path, 300)
    with newer_set_aside(chosen):
        pass
    assert sorted(path.name for path in (tmp_path / "aside").iterdir()) == [
        "000000000200",
        "000000000300",
        "000000000300-2",
    ]


def test_folders_of_learners_that_left_are_set_aside_and_come_back_if_the_resume_fails(tmp_path: Path) -> None:
    for directory, steps in (("", 100), ("", 200), ("learner-1", 100), ("learner-1", 200)):
        save(tmp_path / directory, steps)
    before = sorted(tmp_path.rglob("*"))
    chosen = choose_of_all(tmp_path, 100, in_step=True)
    with pytest.raises(ZeroDivisionError), newer_set_aside(chosen, [tmp_path / "learner-1"]):
        assert sorted(directories(tmp_path)) == [0]
        raise ZeroDivisionError
    assert sorted(tmp_path.rglob("*")) == before
    for name in ("learner-1", "learner-1-2"):
        with newer_set_aside({}, [tmp_path / "learner-1"]):
            pass
        assert (tmp_path / "aside" / name / "000000000200").is_dir()
        save(tmp_path / "learner-1", 200)


@pytest.mark.parametrize(("at", "meant"), [("bst", "best"), ("last", "newest"), ("Latest", "newest"), ("7", "")])
def test_the_error_about_a_mistyped_checkpoint_suggests_the_right_name(tmp_path: Path, at: str, meant: str) -> None:
    save(tmp_path, 100)
    hint = f"did you mean {meant}? Otherwise " if meant else ""
    with pytest.raises(ValueError) as raised:
        choose(tmp_path, at)
    assert str(raised.value).startswith(f"at {at}: no such checkpoint is kept; {hint}write newest, best, or the steps")


def test_the_best_checkpoint_is_the_first_one_saved_after_the_best_score(tmp_path: Path) -> None:
    for directory, steps in (("", 100), ("", 200), ("", 300), ("learner-1", 100), ("learner-1", 210)):
        save(tmp_path / directory, steps)
    with pytest.raises(ValueError, match="at best: no checkpoint has been scored yet; write newest, best, or"):
        choose(tmp_path, "best")
    write_best(tmp_path, Best(150, 3.0, "evaluation"))
    assert choose(tmp_path, "best").env_steps == 200
    assert choose(tmp_path / "learner-1", "best").env_steps == 210
    assert [folder.name for folder in choose_of_all(tmp_path, "best", in_step=False).values()] == [
        "000000000200",
        "000000000210",
    ]
    with pytest.raises(ValueError, match="at best: no checkpoint is as new as the best score, of 150 steps"):
        choose_of_all(tmp_path, "best", in_step=True)  # no steps that both have
    with newer_set_aside(choose_of_all(tmp_path, 200, in_step=False)):
        assert choose(tmp_path, "best").env_steps == 200  # the score is of weights that stay
    with newer_set_aside(choose_of_all(tmp_path, 100, in_step=False)):
        assert read_best(tmp_path) is None
    (tmp_path / "best.json").write_text("{")
    assert read_best(tmp_path) is None


def test_a_checkpoint_that_the_first_learner_did_not_live_to_save_is_that_of_the_next_one_that_has_it(
    tmp_path: Path,
) -> None:
    for directory, steps in (("", 100), ("", 200), ("learner-1", 100), ("learner-1", 500), ("learner-2", 460)):
        save(tmp_path / directory, steps)
    write_best(tmp_path, Best(450, 3.0, "evaluation"))
    for at in ("best", 500):
        chosen = choose_of_all(tmp_path, at, in_step=False)
        assert [(learner, int(folder.name)) for learner, folder in chosen.items()] == [(1, 500), (0, 200), (2, 460)]
    assert next(iter(choose_of_all(tmp_path, 460, in_step=False))) == 2
    assert next(iter(choose_of_all(tmp_path, 100, in_step=False))) == 0
    with newer_set_aside(choose_of_all(tmp_path, "best", in_step=False)):
        assert read_best(tmp_path) == Best(450, 3.0, "evaluation")
    said = "^at best: no checkpoint is as new as the best score, of 450 steps; write newest, best, or"
    with pytest.raises(ValueError, match=said):
        choose(tmp_path, "best")


def test_learners_in_sync_also_keep_the_best_checkpoint_that_all_of_them_have(tmp_path: Path) -> None:
    for directory, steps in (("", 200), ("", 300), ("learner-1", 100), ("learner-1", 200), ("learner-1", 300)):
        save(tmp_path / directory, steps)
    assert best_of_each(tmp_path, in_step=True) == []
    write_best(tmp_path, Best(100, 3.0, "training"))
    kept = {False: [(0, 200), (1, 100)], True: [(0, 200), (1, 100), (1, 200)]}
    for in_step, expected in kept.items():
        found = best_of_each(tmp_path, in_step)
        assert sorted(found) == sorted(directory_of(tmp_path, k) / f"{steps:012d}" for k, steps in expected)


def test_what_learners_with_central_weights_keep_is_what_they_resume_from_at_the_best(tmp_path: Path) -> None:
    for directory, steps in (("", 200), ("", 300), ("learner-1", 100), ("learner-1", 180), ("learner-1", 250)):
        save(tmp_path / directory, steps)
    write_best(tmp_path, Best(190, 3.0, "evaluation"))
    kept = best_of_each(tmp_path, in_step=False, central=True)
    assert {*choose_of_all(tmp_path, "best", in_step=False, central=True).values()} <= {*kept}
    assert directory_of(tmp_path, 1) / f"{180:012d}" in kept


def test_a_score_of_an_evaluation_is_better_than_any_of_training() -> None:
    trained, played = Best(10, 9.0, "training"), Best(5, 1.0, "evaluation")
    assert trained.beats(None) and played.beats(trained) and not trained.beats(played)
    assert Best(6, 2.0, "evaluation").beats(played) and not Best(6, 1.0, "evaluation").beats(played)
