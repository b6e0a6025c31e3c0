"""A trainer from its first checkpoint to its summary; a thread plays the other processes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from actorlearn.address import ByLearner, Shm
from actorlearn.memory.rollout import GroupRollout
from actorlearn.memory.shared import Segment
from actorlearn.memory.shared_rollout import message_fields, message_size
from actorlearn.parameters import checkpoint
from actorlearn.parameters.experience import Experience
from actorlearn.parameters.interface import Present
from actorlearn.parameters.mixing import GraphSettings
from actorlearn.parameters.published import Published, weights_fields
from actorlearn.parameters.settings import ExperienceSettings
from actorlearn.processes import checkpoints
from actorlearn.processes.trainer import SKIPS_ALLOWED
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Hello, Order, Released, Report, Saved, Warned
from tests import named
from tests.blocks import block_shape
from tests.learning.made import HORIZON, learning
from tests.newest import newest_checkpoint
from tests.processes.trained import ENVS, STEPS, Scene


def test_rollouts_are_learned_published_counted_reported_and_saved(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.run()
    assert scene.summary["reason"] == "total_steps"
    assert (scene.summary["env_steps"], scene.summary["updates"], scene.summary["steps_used"]) == (
        5 * STEPS,
        5,
        5 * STEPS,
    )
    assert scene.version == 5  # 0 for the first weights, and one for each update
    assert (scene.account.rollouts_learned, scene.account.steps.used) == (5, 5 * STEPS)
    assert [report.row["env_steps"] for report in scene.all(Report)][:5] == [STEPS * n for n in range(1, 6)]
    assert [saved.env_steps for saved in scene.all(Saved)] == [0, 5 * STEPS]
    assert isinstance(scene.said[0], Saved) and isinstance(scene.said[1], Hello)
    state = newest_checkpoint(scene.settings.checkpoints).state
    assert (state["rollouts_learned"], state["account"]["used"]) == (5, 5 * STEPS)
    assert state["weights"] == scene.summary["weights_sha256"]


def test_steps_of_other_learners_are_learned_from_and_counted_apart(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    shape = block_shape(horizon=HORIZON, envs_per_group=ENVS)
    fields = weights_fields(message_size(message_fields(shape, ENVS)))
    for learner in range(2):
        Segment.create(tmp_path / f"experience-{learner}", fields).close()
    shared = ExperienceSettings(
        messages=ByLearner(Shm(f"{tmp_path}/experience")), graph=GraphSettings(), environments=ENVS, shape=shape
    )
    scene.settings = msgspec.structs.replace(scene.settings, experience=shared)
    both = [ProcessId("trainer"), ProcessId("trainer", 1, 1)]
    scene.orders[0] = Order(version=2, members=[scene.member], learners=both)
    neighbour = Experience(shared, 1, 0, lambda: Present(range(2)))

    def played(rollout: int) -> NDArray[np.float32]:
        neighbour.post(rollout, [GroupRollout("simulator-1.0", scene.blocks, 0)], version=rollout)
        return np.ones((HORIZON + 1, ENVS), np.float32)

    scene.rewards = played
    scene.run()
    assert scene.summary["steps_used"] == scene.summary["env_steps"] == scene.account.steps.used == 5 * STEPS
    assert scene.summary["episodes"] == 0 and scene.summary["updates"] == 5
    foreign = [report.row["foreign_steps"] for report in scene.all(Report)]
    assert set(foreign) == {0, STEPS} and foreign[0] == 0  # rollouts posted before the start are not taken
    (tmp_path / "alone").mkdir()
    alone = Scene(tmp_path / "alone")
    alone.run()
    assert alone.summary["weights_sha256"] != scene.summary["weights_sha256"]


def test_a_trainer_saves_at_whole_multiples_and_on_order(tmp_path: Path) -> None:
    scene = Scene(tmp_path, checkpoint_every_steps=2 * STEPS)
    scene.orders[3] = Order(version=2, members=[scene.member], save=1)
    scene.run()
    saved = [(message.env_steps // STEPS, message.order) for message in scene.all(Saved)]
    assert {(0, 0), (2, 0), (5, 1)} <= set(saved)
    assert sum(order == 1 for _, order in saved) >= 2 and (4, 1) in saved  # asked for, due, and the last


def test_saving_by_time_does_not_change_what_is_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SAVING_SHARE", 0)
    hashes = []
    for name, every_s in (("never", None), ("rarely", 1000.0), ("always", 1e-9)):
        (tmp_path / name).mkdir()
        scene = Scene(tmp_path / name, checkpoint_every_s=every_s)
        scene.run()
        saved = [message.env_steps // STEPS for message in scene.all(Saved)]
        assert saved == ([0, 1, 2, 3, 4, 5] if name == "always" else [0, 5])
        hashes.append(scene.summary["weights_sha256"])
    assert len(set(hashes)) == 1


def test_saving_by_time_leaves_most_of_the_time_to_learning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SAVING_SHARE", 10**6)
    scene = Scene(tmp_path, checkpoint_every_s=1e-9)
    scene.run()
    assert [message.env_steps // STEPS for message in scene.all(Saved)] == [0, 5]


def test_a_trainer_that_is_told_to_drain_saves_and_reports_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path, total_steps=10**9)
    scene.orders[2] = Order(version=2, phase="drain", members=[scene.member])
    scene.run()
    assert scene.summary["reason"] == "drained"
    assert scene.all(Saved)[-1].env_steps == scene.summary["env_steps"] >= 2 * STEPS


def test_a_simulator_that_has_gone_is_reported_as_released(tmp_path: Path) -> None:
    scene = Scene(tmp_path, total_steps=10**9)
    scene.orders[2] = Order(version=2, gone=[scene.member])
    scene.last = Order(version=3, phase="drain")
    scene.run()
    assert scene.all(Released)[0].peers == [scene.member.id.socket_id]


def test_an_update_that_is_not_finite_is_skipped_and_too_many_in_a_row_end_the_run(tmp_path: Path) -> None:
    scene = Scene(tmp_path, total_steps=10**9)
    scene.rewards = lambda rollout: np.full((4, 4), np.nan if rollout else 1.0, np.float32)
    with pytest.raises(FloatingPointError, match=f"updates from {SKIPS_ALLOWED + 1} rollouts in a row at"):
        scene.run()
    warned = [message.text for message in scene.all(Warned)]
    assert len(warned) == SKIPS_ALLOWED + 1 and warned[0].startswith(
        "update 2 was skipped because it is not finite: loss nan, gradient norm nan"
    )
    report = scene.all(Report)[-1].row
    steps = (report["steps_used"], report["steps_dropped"], report["dropped_not_finite"])
    assert steps == (STEPS, SKIPS_ALLOWED * STEPS, SKIPS_ALLOWED * STEPS)


def test_steps_of_a_skipped_update_are_dropped_and_those_before_and_after_are_used(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.rewards = lambda rollout: np.full((4, 4), np.nan if rollout == 2 else 1.0, np.float32)
    scene.run()
    counted = {name: scene.summary[name] for name in ("env_steps", "steps_made", "steps_used", "steps_dropped")}
    assert counted == {
        "env_steps": 5 * STEPS,
        "steps_made": 5 * STEPS + scene.summary["steps_in_flight"],
        "steps_used": 4 * STEPS,
        "steps_dropped": STEPS,
    }
    assert scene.account.steps.dropped["not_finite"] == scene.summary["dropped_not_finite"] == STEPS
    saved = newest_checkpoint(scene.settings.checkpoints).state["account"]
    assert (saved["used"], saved["dropped"]["not_finite"]) == (4 * STEPS, STEPS)


def test_the_fresh_steps_of_a_partly_stale_rollout_give_statistics(tmp_path: Path) -> None:
    """Rollouts 0 and 1 together have the observations that are needed. In rollouts 0, 2 and 4, one row is too old."""
    stale, fresh = ENVS, STEPS - ENVS
    model = named.model(name="mlp", hidden_sizes=[4], normalize_observation=True, statistics_rows=STEPS + fresh)
    made = learning(model, max_policy_lag=0, on_policy_lag="drop")
    scene = Scene(tmp_path, made, total_steps=STEPS + 2 * fresh)
    scene.lags = lambda rollout: np.array([1 - rollout % 2, 0, 0, 0])
    scene.run()
    counted = {name: scene.summary[name] for name in ("steps_used", "dropped_statistics", "dropped_stale")}
    assert counted == {
        "steps_used": STEPS + 2 * fresh,
        "dropped_statistics": STEPS + fresh,
        "dropped_stale": 3 * stale,
    }
    number = newest_checkpoint(scene.settings.checkpoints).section("weights")["number"]
    assert number == 2 * STEPS + 3 * fresh, "each step that is not too old is in the statistics"


def test_a_resumed_trainer_continues_its_counts_and_publishes_no_version_twice(tmp_path: Path) -> None:
    first = Scene(tmp_path)
    first.run()
    (tmp_path / "again").mkdir()
    again = Scene(tmp_path / "again", run_dir=str(tmp_path), resume=True, total_steps=8 * STEPS)
    again.run()
    assert (again.summary["env_steps"], again.summary["steps_used"]) == (8 * STEPS, 8 * STEPS)
    assert [message.env_steps for message in again.all(Saved)] == [8 * STEPS]  # that of 5 rollouts is not saved again
    assert again.version == 5 + 1 + 3
    assert again.account.rollouts_learned == 8


def test_the_mean_of_games_restarts_with_another_environment_and_lasts_over_the_next_resume(tmp_path: Path) -> None:
    shop = "actorlearn.envs.pickled:Shop"
    lives = [
        ({"env.id": "Catch", "seed": 1}, 1.0),
        ({"env.id": shop, "env.kwargs": {"file": "here/env.pkl", "sha256": "0a"}, "seed": 1}, 2.0),
        ({"env.id": shop, "env.kwargs": {"file": "moved/env.pkl", "sha256": "0a"}, "seed": 2}, 2.0),
    ]
    found = []
    for life, (depends_on, reward) in enumerate(lives):
        (tmp_path / str(life)).mkdir()
        scene = Scene(tmp_path / str(life), run_dir=str(tmp_path), resume=life > 0, total_steps=(life + 1) * STEPS)
        scene.settings = msgspec.structs.replace(scene.settings, depends_on=depends_on)
        scene.games = True
        scene.rewards = lambda _, reward=reward: np.full((HORIZON + 1, ENVS), reward, np.float32)  # type: ignore[misc]
        scene.run()
        found.append([scene.summary[name] for name in ("episodes", "episodes_in_mean", "episode_return_mean")])
    assert found == [[ENVS, ENVS, HORIZON], [2 * ENVS, ENVS, 2 * HORIZON], [3 * ENVS, 2 * ENVS, 2 * HORIZON]]


def test_a_run_with_stop_at_steps_ends_there_and_its_schedules_go_on_to_total_steps(tmp_path: Path) -> None:
    part = Scene(tmp_path, total_steps=8 * STEPS, stop_at_steps=2 * STEPS)
    part.run()
    assert (part.summary["env_steps"], part.summary["reason"]) == (2 * STEPS, "total_steps")
    (tmp_path / "rest").mkdir()
    rest = Scene(tmp_path / "rest", run_dir=str(tmp_path), resume=True, total_steps=8 * STEPS, stop_at_steps=4 * STEPS)
    rest.run()
    row, whole = rest.all(Report)[-1].row, part.settings.optimizer.learning_rate
    assert part.settings.schedule_progress(16 * STEPS) == 1.0
    shorter = msgspec.structs.replace(part.settings, schedule_steps=4 * STEPS)
    assert [shorter.schedule_progress(n * STEPS) for n in (0, 1, 4, 8)] == [0.0, 0.25, 1.0, 1.0]
    assert (row["env_steps"], row["learning_rate"]) == (4 * STEPS, pytest.approx(whole * (1 - 3 / 8)))


def resumed_without_newest(folder: Path, total_steps: int) -> Scene:
    """A trainer that has ended, lost its newest checkpoint, and then resumed to this number of steps."""
    scene = Scene(folder, checkpoint_every_steps=2 * STEPS)
    scene.run()
    newest = max(scene.settings.checkpoints.glob("[0-9]*"))
    newest.rename(folder / "never saved")
    scene.said.clear()
    scene.settings = msgspec.structs.replace(scene.settings, resume=True, total_steps=total_steps)
    scene.run()
    return scene


def test_steps_that_a_dead_trainer_learned_after_its_checkpoint_are_rolled_back(tmp_path: Path) -> None:
    scene = resumed_without_newest(tmp_path, 6 * STEPS)
    assert scene.summary["dropped_rolled_back"] == STEPS  # of the checkpoint at 4 rollouts, where 5 were learned
    assert scene.account.rollouts_learned == 7
    assert scene.summary["steps_used"] == 6 * STEPS


def test_rolled_back_steps_are_committed_also_if_no_update_follows(tmp_path: Path) -> None:
    scene = resumed_without_newest(tmp_path, 4 * STEPS)
    assert scene.summary["steps_used"] == scene.account.steps.used == 4 * STEPS
    assert scene.summary["dropped_rolled_back"] == scene.account.steps.dropped["rolled_back"] == STEPS


def test_a_checkpoint_that_cannot_be_written_is_warned_of_and_the_run_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = checkpoint.save

    def no_space(*arguments: object, **options: object) -> Path:
        if arguments[1] == 2 * STEPS:
            raise OSError(28, "No space left on device")
        return save(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(checkpoint, "save", no_space)
    scene = Scene(tmp_path, checkpoint_every_steps=STEPS)
    scene.run()
    why = "[Errno 28] No space left on device"
    warned = f"the checkpoint at {2 * STEPS} steps could not be written: {why}; the run continues"
    assert [message.text for message in scene.all(Warned)] == [warned]
    assert [message.env_steps // STEPS for message in scene.all(Saved)] == [0, 1, 3, 4, 5]


def test_rollouts_are_answered_by_the_weights_they_were_opened_with(tmp_path: Path) -> None:
    scene = Scene(tmp_path, blocks=1)
    scene.run()
    published = Published(scene.segments["weights"])
    assert published.env_steps == 5 * STEPS
    assert [report.row["policy_lag_max"] for report in scene.all(Report)][:5] == [0] * 5
