"""Files of processes: snapshots of simulators, states of environments, and settings."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from actorlearn.envs.interface import VectorEnv, empty_row
from actorlearn.envs.make import make as make_envs
from actorlearn.processes import snapshots
from actorlearn.worker import settings as process_settings
from actorlearn.worker.settings import SimulatorSettings, TrainerSettings
from launch.plan.planning import plan
from launch.topology import load
from tests import named
from tests.fuzz.nearly import as_json, edited_bytes, nearly
from tests.fuzz.targets.door import DEEP_JSON, Target, refused
from tests.fuzz.targets.topologies import CARTPOLE
from tests.fuzz.watched import watched
from tests.launch.described import DESCRIPTION
from tests.launch.opened import told
from tests.processes.interrupted import CONFIGURATIONS, Play

# Where simulators stand -----------------------------------------------------------------------------------------------


@cache
def _snapshot() -> bytes:
    """Return the bytes of a simulator's snapshot."""
    folder, random = Path(tempfile.mkdtemp()), np.random.default_rng(0)
    try:
        play = Play(folder, CONFIGURATIONS[0])
        for _ in range(30):
            play.event(random)
        play.interrupted(random)
        return (play.folder / "simulator-0.npz").read_bytes()
    finally:
        shutil.rmtree(folder)


def _standing(data: bytes, folder: Path) -> bool:
    groups = Play(folder, CONFIGURATIONS[0]).simulators[0].groups
    (folder / "simulator-0.npz").write_bytes(data)
    try:
        with watched():
            snapshots.restore(folder / "simulator-0.npz", groups, answers_itself=False)
    except ValueError as error:
        assert all(group.saved_place is None for group in groups)
        return refused(error)
    return True


def _snapshots() -> st.SearchStrategy[bytes]:
    with np.load(io.BytesIO(_snapshot())) as kept:
        right = dict(kept)
    odd = [
        *(np.array(value) for value in (0, -1, 2**62, 0.5, float("nan"), True, "x", b"\xff")),
        *(
            np.zeros(shape, kind)
            for shape in ((0,), (3,), (2, 2), (5, 2, 32), (1, 1, 1, 1))
            for kind in ("i8", "u1", "f4", "U3")
        ),
        np.frombuffer(b"[" * 5_000, np.uint8),
    ]
    one = st.tuples(st.sampled_from(sorted(right)), st.sampled_from([None, *odd]))

    def packed(changes: list[tuple[str, Any]]) -> bytes:
        arrays = right | dict(changes)
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **{name: array for name, array in arrays.items() if array is not None})
        return file.getvalue()

    return st.lists(one, max_size=3).map(packed) | edited_bytes([_snapshot()])


@cache
def _cartpole() -> VectorEnv:
    env = make_envs(named.env(id="CartPole-v1"), [1, 2])
    env.reset(empty_row(env.spec, env.count))
    return env


@cache
def _cartpole_state() -> dict[str, Any]:
    return _cartpole().state()


def _environments(data: bytes, _folder: Path) -> bool:
    state = {**_cartpole_state(), "text": np.frombuffer(data, np.uint8)}
    try:
        with watched():
            _cartpole().restore(state)
    except ValueError as error:
        return refused(error)
    return True


def _environment_texts() -> list[Any]:
    return [json.loads(_cartpole_state()["text"].tobytes())]


# Settings of processes ------------------------------------------------------------------------------------------------


def _settings(data: bytes, folder: Path) -> bool:
    path = folder / "settings.json"
    path.write_bytes(data)
    read = False
    for kind in (SimulatorSettings, TrainerSettings):
        try:
            with watched():
                process_settings.read(path, kind)
            read = True
        except ValueError as error:
            refused(error)
            assert str(path) in str(error)
    return read


@cache
def _instructions() -> list[Any]:
    made = plan(load.parse(CARTPOLE), DESCRIPTION)
    return [msgspec.to_builtins(told(made, process.id)) for process in made.processes]


def targets() -> dict[str, Target]:
    """Return targets for the files of a process."""
    told = _instructions()
    return {
        "standing": Target(_standing, _snapshot(), _snapshots()),
        "environments": Target(
            _environments, as_json(_environment_texts()[0]), nearly(_environment_texts()), hostile=DEEP_JSON
        ),
        "settings": Target(_settings, as_json(told[-1]), nearly(told), hostile=DEEP_JSON),
    }
