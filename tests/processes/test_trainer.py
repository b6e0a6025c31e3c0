"""The trainer's process, apart from what whole runs show (tests/system)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from actorlearn.processes.trainer import Trainer

CODE = """
import types
import torch
from actorlearn.processes import trainer

class Looks:
    def __init__(self, settings):
        pass

    def run(self):
        small = torch.full((1 << 20,), 1e-38).mul_(0.1)  # one half by each thread
        print(small.count_nonzero().item())

trainer.Trainer = Looks
trainer.run(types.SimpleNamespace(threads=2))
"""


def test_numbers_too_small_to_be_normal_are_zeros_in_all_threads() -> None:
    """Its own process, because that is how threads are from then on."""
    told = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert told.stdout == "0\n"


def test_a_checkpoint_that_cannot_be_written_is_told_and_the_one_before_stays(tmp_path: Path) -> None:
    said: list[str] = []
    learning = SimpleNamespace(tensors=dict, beat=lambda: None)
    control = SimpleNamespace(send=lambda message: said.append(type(message).__name__))
    trainer = SimpleNamespace(
        **{"env_steps": 10, "saved_at": -1, "saves_done": 0, "checkpoints": tmp_path, "learning": learning},
        **{"settings": SimpleNamespace(checkpoint_keep=3), "worker": SimpleNamespace(control=control)},
        **{"_state": lambda: {"env_steps": 10}, "_warn": said.append, "_say_saved": lambda path: said.append("Saved")},
        **{"_more": lambda folder: {"replay": folder.name}, "_spared": set, "goes_on_from": ""},
        **{"_acted_by": lambda: ({}, {}), "gathering": SimpleNamespace(close=lambda: None, complaint=str)},
    )
    Trainer._save(trainer)  # type: ignore[arg-type]

    def no_space(_folder: Path) -> dict[str, str]:
        raise OSError(28, "No space left on device")

    trainer.env_steps, trainer._more = 20, no_space
    Trainer._save(trainer)  # type: ignore[arg-type]
    warned = "checkpoint at 20 steps not written: [Errno 28] No space left on device; the run goes on"
    assert said == ["Saved", warned]
    assert trainer.saved_at == 20  # tried again when the next one is due
    assert [path.name for path in tmp_path.iterdir()] == ["000000000010"]
