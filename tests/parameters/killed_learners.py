"""Kills the last learner of mode sync at each line of the exchange: `… killed_learners <count> <folder> [local]`.

For each line that the victim reaches, from joining to the end of two steps, all learners are started anew. Their
segments lie in <folder>, because nothing would remove them from /dev/shm if the test itself is killed.
Prints for each line, as JSON, the fingerprints of weights and optimizer that each survivor had after each step. With
`local`, a step is three local steps with exchanges after the second and the third, the fingerprint is of the outer
optimizer, and the victim is killed only after joining.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import mmap
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from actorlearn.address import Shm
from actorlearn.memory.shared import Segment
from actorlearn.optim.outer import Outer
from actorlearn.optim.specs import OuterSettings
from actorlearn.parameters.barrier import barrier_fields, rows_fields
from actorlearn.parameters.consumed import Consumed
from actorlearn.parameters.interface import Exchange, Learner, PeerLost, Stopped
from actorlearn.parameters.modes import make
from actorlearn.parameters.settings import SyncExchangeSettings
from tests import named

SIZE, STEPS = 40, 2
DILOCO = OuterSettings(rule="nesterov", learning_rate=0.7, momentum=0.9)
OPTIMIZER = named.optimizer(name="adam", epsilon=1e-5, clip_norm=0.5)
TRACED = ("allreduce.py", "barrier.py")


def fingerprint(weights: torch.Tensor, exchange: Exchange, outer: Outer | None) -> str:
    whole = hashlib.sha256(weights.numpy().tobytes())
    for tensor in (outer or exchange).state().values():
        whole.update(tensor.numpy().tobytes())
    return whole.hexdigest()


def kill_at(line: int) -> Callable[..., Any]:
    """A trace function that kills this process after this number of lines of the exchange."""
    left = itertools.count(line, -1)

    def trace(frame: FrameType, event: str, _argument: object) -> Callable[..., Any] | None:
        if Path(frame.f_code.co_filename).name not in TRACED:
            return None
        if event == "line" and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def learn(folder: Path, rank: int, learners: int, gone: mmap.mmap, local: bool) -> list[str]:
    """Join, and take the steps; return fingerprints before and after joining and after each step that was reached.

    Each learner begins with other weights; joining gives all of them the victim's.
    """
    victim, joined = learners - 1, False
    weights, gradients = torch.linspace(-1.0, 1.0, SIZE) * (rank + 1), torch.zeros(SIZE)
    settings = SyncExchangeSettings(
        rank=rank,
        learners=learners,
        rendezvous=Shm(path=str(folder / "learners")),
        gradients=Shm(path=str(folder / "gradients")),
        local_steps=2 if local else 1,
    )
    outer, steps = (Outer(DILOCO, weights), 3) if local else (None, 1)
    own = Learner(
        *(OPTIMIZER, weights, gradients, lambda: joined or not gone[0]),
        number=rank,
        consumed=Consumed(learners),
        outer=outer,
    )
    exchange = make(settings, own)
    for tensor in exchange.state().values():
        tensor.add_(rank)
    seen = [fingerprint(weights, exchange, outer)]
    try:
        killing = sys.gettrace()
        sys.settrace(None if local else killing)  # joining is the same
        exchange.join(0, int(rank == victim))
        joined = True
        sys.settrace(killing)
        seen.append(fingerprint(weights, exchange, outer))
        for step in range(STEPS):
            exchange.agree(10, steps)
            for part in range(steps):
                gradients.copy_(torch.sin(torch.arange(SIZE) * (1.0 + rank + learners * step + part)))
                exchange.step(gradients, [0.01])
                if part or steps == 1:  # the first of two local steps is not exchanged
                    seen.append(fingerprint(weights, exchange, outer))
    except (PeerLost, Stopped):  # Stopped: the victim never came, as the supervisor says
        exchange.break_off()
        seen[-1] = fingerprint(weights, exchange, outer)  # the same as before, unless a step is half applied
    exchange.close()
    return seen


def begin(folder: Path, rank: int, learners: int, gone: mmap.mmap, line: int, local: bool) -> tuple[int, int]:
    """Fork one learner; return its process id, and the pipe into which it writes its fingerprints."""
    read, write = os.pipe()
    if child := os.fork():
        os.close(write)
        return child, read
    try:
        if line and rank == learners - 1:
            sys.settrace(kill_at(line))
        seen = learn(folder, rank, learners, gone, local)
        sys.settrace(None)
        os.write(write, json.dumps(seen).encode())
    except BaseException:
        traceback.print_exc()
    os._exit(0)


def run(learners: int, line: int, folder: Path, local: bool) -> list[list[str]]:
    """Run all learners; return the fingerprints of each, and none of a victim that was killed."""
    gone = mmap.mmap(-1, 1)
    folder.mkdir()
    Segment.create(folder / "learners", barrier_fields(learners)).close()
    Segment.create(folder / "gradients", rows_fields(learners, SIZE)).close()
    begun = [begin(folder, rank, learners, gone, line, local) for rank in range(learners)]
    seen = []
    for child, read in reversed(begun):  # the victim first
        with os.fdopen(read) as said:
            seen.append(said.read())
        os.waitpid(child, 0)
        gone[0] = 1
    shutil.rmtree(folder)
    return [json.loads(said) if said else [] for said in reversed(seen)]


def main(learners: int, scratch: Path, local: bool) -> None:
    print(json.dumps(run(learners, 0, scratch / "0", local)))
    for line in itertools.count(1):
        seen = run(learners, line, scratch / str(line), local)
        print(json.dumps(seen), flush=True)
        if seen[-1]:
            return


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]), Path(sys.argv[2]), "local" in sys.argv)
