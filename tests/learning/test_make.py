"""How learners are made: trainers and measurements prepare their process alike."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from actorlearn.learning.make import make
from tests.learning.made import learning, trainer_settings

TRAINED = """
from unittest import mock
from actorlearn.processes import trainer
with mock.patch.object(trainer, "Worker"), mock.patch.object(trainer, "Segment"), \\
     mock.patch.object(trainer, "Account"), mock.patch.object(trainer, "Rollouts", lambda *_: computed()):
    trainer.run(settings)
"""
MEASURED = """
from types import SimpleNamespace
from actorlearn.tasks import measure
with mock.patch.object(measure, "measured", lambda *_: computed()):
    measure.learn(SimpleNamespace(trainer=settings, environments=2, seconds=0.0))
"""
CODE = """
import sys
from threading import Thread
from unittest import mock
import torch
from tests.learning.made import trainer_settings
settings = trainer_settings()
torch.set_num_threads(2)

def small():
    print(torch.full((1 << 10,), 1e-38).mul_(0.1).count_nonzero().item())

def computed():
    print(torch.get_num_threads())
    small()
    thread = Thread(target=small)
    thread.start()
    thread.join()
    sys.exit()
"""


@pytest.mark.parametrize("of", [TRAINED, MEASURED], ids=["trainer", "measure"])
def test_trainers_and_measurements_compute_alike(of: str) -> None:
    """Torch has one thread, and denormal numbers are zeros, also in threads that are started later.

    Each runs in a process of its own, because these settings stay.
    """
    told = subprocess.run([sys.executable, "-c", CODE + of], capture_output=True, text=True, check=False)
    assert told.stdout == "1\n0\n0\n", told.stderr


def test_a_learner_without_a_replay_has_weights_drawn_from_the_seed() -> None:
    made = make(trainer_settings())
    assert made.minibatches.replay is None
    assert torch.equal(made.weights, learning().weights)  # drawn from the seed
