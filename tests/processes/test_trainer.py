"""The trainer's process, apart from what whole runs show (tests/system)."""

from __future__ import annotations

import subprocess
import sys

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
