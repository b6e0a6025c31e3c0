"""Value learning that is restored at any rollout, or within a pass, continues bit for bit.

The test plays the simulators: the blocks of one history, which come again after a restore under other names.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from actorlearn.address import Shm
from actorlearn.learning.make import make
from actorlearn.learning.secondary import LearningWithSecondary
from actorlearn.memory.account import Account, account_fields
from actorlearn.memory.rollout import Blocks, BlockShape, Rollouts, make_segment, rollouts_fields
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.parameters import checkpoint
from actorlearn.parameters.interface import Stopped
from actorlearn.parameters.published import weights_fields
from actorlearn.processes.batches import Gatherer
from actorlearn.processes.members import RolloutMembers
from actorlearn.replay.rows import ReplayShape, replay_fields
from actorlearn.replay.settings import ReplaySettings
from actorlearn.wire.messages import Member
from actorlearn.worker.settings import TrainerReplay
from tests import named
from tests.identities import peer
from tests.learning.made import pass_over, trainer_settings
from tests.learning.replayed import source
from tests.newest import newest_checkpoint
from tests.replay.ledger import ENVS, LedgerEnv, Simulated

HORIZON, ROLLOUTS = 5, 9
CASES: dict[str, dict[str, Any]] = {
    "uniform": {},
    "prioritised": {"numbers": {"prioritised": True}, "algorithm": {"n_step": 3, "double": True}, "reset": "wait"},
    "stacks": {"stack": 3, "algorithm": {"n_step": 2, "target_every_steps": 7}},
    "secondary": {"numbers": {"secondary_batch_size": 8}},
    "rainbow": {
        "stack": 2,
        "numbers": {"prioritised": True, "secondary_batch_size": 3},
        "algorithm": {"name": "c51", "n_step": 3, "double": True, "dueling": True},
        "model": {"noisy": 0.5},
    },
    "numbers": {"algorithm": {"name": "sac"}, "actions": (2,)},
}


class Course:
    """A learner of one case, and simulators that play one history to it, from a rollout on."""

    def __init__(self, folder: Path, case: dict[str, Any], history: list[dict[str, np.ndarray]], incarnation: int = 0):
        folder.mkdir()
        self.history, stack = history, case.get("stack", 1)
        observations: dict[str, Any] = {"observation_shape": (stack, 3), "observation_dtype": "float32"}
        observations["actions"] = case.get("actions", 4)
        numbers = ReplaySettings(
            **{"batch_size": 4, "ratio": 2.0, "learning_starts_steps": 10, "save": True} | case.get("numbers", {})
        )
        shape = ReplayShape(
            rings=ENVS, size=24, margin=HORIZON + 1, stack=stack, prioritised=numbers.prioritised, **observations
        )
        paths = {name: Shm(str(folder / name)) for name in ("replay", "secondary")}
        Segment.create(folder / "replay", replay_fields(shape)).close()
        settings, chosen = trainer_settings(), {"name": "dqn", "horizon": HORIZON} | case.get("algorithm", {})
        if chosen["name"] != "sac":
            chosen = {"target_every_steps": 20} | chosen
        policy = msgspec.structs.replace(
            settings.policy,
            **observations,
            algorithm=named.algorithm(**chosen),
            model=named.model(name="mlp", hidden_sizes=[8], **case.get("model", {})),
        )
        stored = TrainerReplay(segment=paths["replay"], shape=shape, settings=numbers, secondary=paths["secondary"])
        Segment.create(folder / "secondary", weights_fields(1)).close()
        settings = msgspec.structs.replace(
            settings, policy=policy, replay=stored, rollout_steps=HORIZON * ENVS, id=settings.id.again(incarnation)
        )
        self.learner, self.rollouts_learned, self.used = make(settings), 0, 0
        self.folder, self.peer, self.block = folder, f"simulator-0.{incarnation}", {**observations}

    def begin(self) -> None:
        """Admit the simulator from the rollout that is to be learned next."""
        shape = BlockShape(groups=1, blocks=2, horizon=HORIZON, envs_per_group=ENVS, **self.block)
        path = self.folder / self.peer
        self.blocks = Blocks(make_segment(path, shape))
        words = (Segment.create(self.folder / "rollouts", rollouts_fields()), account_fields())
        account = Account(Segment.create(self.folder / "account", words[1]))
        rollouts = Rollouts(words[0])
        self.members = RolloutMembers(rollouts, account, Episodes(), 2)
        self.gatherer = Gatherer(rollouts, "cpu", replayed=source(self.learner))
        self.blocks.mark_ready()
        member = Member(id=peer(self.peer), segment=Shm(str(path)))
        self.members.follow([member], [])
        account.rollouts_learned = self.rollouts_learned
        self.members.open_next()

    def learn(self, going_on: Callable[[], bool] = lambda: True) -> dict[str, Any]:
        """Play and learn one rollout; return the metrics and the learner's tensors."""
        rollout = self.rollouts_learned
        for name, rows in self.history[rollout].items():
            column = self.blocks.block(name, 0, rollout)
            column[:] = rows.reshape(*rows.shape, *[1] * (column.ndim - rows.ndim))
        self.blocks.mark_completed(0, rollout)
        parts = self.members.parts()
        assert parts
        gathered = self.gatherer.gather(rollout, parts, version=0)
        batch = gathered.batch
        self.learner.minibatches.store(rollout, parts)
        told = pass_over(self.learner, batch, self.used, rollout, going_on)
        self.rollouts_learned, self.used = rollout + 1, self.used + gathered.steps
        self.members.account.rollouts_learned = self.rollouts_learned
        self.members.open_next()
        return {**told, **{name: tensor.clone() for name, tensor in self.learner.tensors().items()}}

    def save(self, directory: Path) -> None:
        state = {"rollouts_learned": self.rollouts_learned, "used": self.used}
        checkpoint.save(directory, self.rollouts_learned, self.learner.tensors(), state, 1, self.learner.save)

    def restore(self, directory: Path, goes_on: bool = True) -> None:
        saved = newest_checkpoint(directory)
        self.learner.restore(saved, goes_on)
        self.rollouts_learned, self.used = saved.state["rollouts_learned"], saved.state["used"]


def history(folder: Path, case: dict[str, Any]) -> list[dict[str, np.ndarray]]:
    game = Simulated(folder, LedgerEnv(case.get("stack", 1), 3), HORIZON, case.get("reset", "inside"), 0)
    return [{name: column.copy() for name, column in game.play()[1].items()} for _ in range(ROLLOUTS)]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[] if name == "uniform" else pytest.mark.nightly)
        for name, case in CASES.items()
    ],
)
def test_a_learner_restored_at_any_minibatch_continues_bit_for_bit(tmp_path: Path, case: dict[str, Any]) -> None:
    rollouts = history(tmp_path, case)
    whole, said, places = Course(tmp_path / "whole", case, rollouts), [], []

    def going_on() -> bool:
        """Save within a pass, as a learner does that is told to end there."""
        calls = len(places)
        if calls % 2 == 1:
            places.append(tmp_path / f"{whole.rollouts_learned}-among")
            whole.save(places[-1])
        else:
            places.append(tmp_path)
        return True

    whole.begin()
    for rollout in range(ROLLOUTS):
        said.append(whole.learn(going_on))
        whole.save(tmp_path / f"{rollout + 1}-over")
    saves = sorted({place for place in places if place != tmp_path} | set(tmp_path.glob("*-over")))
    assert (
        sum("among" in place.name for place in saves) >= 4 and sum("over" in place.name for place in saves) == ROLLOUTS
    )
    for number, place in enumerate(saves):
        again = Course(tmp_path / f"again-{number}", case, rollouts, incarnation=1 + number)
        again.restore(place)
        again.begin()
        for rollout in range(again.rollouts_learned, min(again.rollouts_learned + 3, ROLLOUTS)):
            for name, value in again.learn().items():
                before = said[rollout][name]
                if name.endswith("minibatches"):  # a pass that was broken off reports those that were left
                    continue
                assert torch.equal(value, before) if isinstance(value, torch.Tensor) else value == before, (place, name)
    assert sum(not torch.equal(said[-1][n], said[-2][n]) for n in said[0] if n.startswith("weights")) > 0


def test_if_simulators_begin_anew_a_rollout_that_was_not_learned_is_stored_again(tmp_path: Path) -> None:
    """A trainer that is told to end within a pass has stored a rollout, and not learned it. Another one replaces it."""
    rollouts = history(tmp_path, {})
    made = Course(tmp_path / "made", {}, rollouts)
    made.begin()
    for _ in range(4):
        made.learn()
    with pytest.raises(Stopped):
        made.learn(lambda: False)
    assert (made.rollouts_learned, source(made.learner).replay.rollouts) == (4, 5)
    made.save(tmp_path / "saved")
    for goes_on in (False, True):
        other = [{**block, "reward": block["reward"] + 100} for block in rollouts]
        again = Course(tmp_path / f"again-{goes_on}", {}, other, incarnation=1)
        again.restore(tmp_path / "saved", goes_on)
        assert source(again.learner).replay.rollouts == 4 + goes_on
        again.begin()
        again.learn()
        stored = source(again.learner).replay.sample(500, np.random.default_rng(0)).reward
        assert (stored == 1.0).any() and source(again.learner).replay.rollouts == 5


def test_a_restarted_trainer_takes_the_random_numbers_of_its_checkpoint(tmp_path: Path) -> None:
    """Its replay, in shared memory, is newer."""
    made = Course(tmp_path / "made", {"numbers": {"save": False, "secondary_batch_size": 8}}, history(tmp_path, {}))
    made.begin()
    for _ in range(4):
        made.learn()
    made.save(tmp_path / "saved")
    again = make(msgspec.structs.replace(made.learner.settings, id=made.learner.settings.id.again(7)))
    again.restore(newest_checkpoint(tmp_path / "saved"))
    assert isinstance(again, LearningWithSecondary) and isinstance(made.learner, LearningWithSecondary)
    pairs = (again, made.learner), (again.secondary, made.learner.secondary)
    for one, two in pairs:
        assert source(one).random.bit_generator.state == source(two).random.bit_generator.state
    assert source(again).replay.rollouts == 4
