"""Segments of shared memory, and the files of a replay that was saved."""

from __future__ import annotations

import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.memory import shared
from actorlearn.memory.fields import Field
from actorlearn.memory.shared import Segment, SegmentError, segment_bytes
from actorlearn.replay.buffer import Replay
from actorlearn.replay.rows import ReplayShape
from tests.fuzz.nearly import as_json, edited_bytes, edited_tree, nearly
from tests.fuzz.targets.door import Target, refused
from tests.fuzz.targets.messages import packed
from tests.fuzz.watched import watched
from tests.replay.buffers import make as make_replay

# Segments -------------------------------------------------------------------------------------------------------------

_FIELDS = [Field("a", "uint8", (3, 5), 0xA5), Field("b", "float32", (7,), float("nan")), Field("c", "int64", (1,), -1)]


def _segment(data: bytes, folder: Path) -> bool:
    (folder / "segment").write_bytes(data)
    try:
        with watched(writable=str(folder)):
            found = Segment.open(folder / "segment")
    except SegmentError as error:
        return refused(error)
    for field in found.fields:
        assert found[field.name].nbytes <= len(data)
    found.close()
    return True


def _segment_file(table: Any) -> bytes:
    """A segment with this field table, whose checksum holds, of the size of the fields of ``_FIELDS``."""
    head = shared.header(packed(table))
    return head.ljust(segment_bytes(_FIELDS), b"\0")[: max(segment_bytes(_FIELDS), len(head))]


# Replays --------------------------------------------------------------------------------------------------------------

_SHAPES = {
    prioritised: ReplayShape(
        **{"rings": 2, "size": 6, "margin": 4, "stack": 1, "observation_shape": (2,), "observation_dtype": "float32"},
        actions=2,
        prioritised=prioritised,
    )
    for prioritised in (False, True)
}


@cache
def _saved_replay(prioritised: bool) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Files of a replay, and its state, as they are in a checkpoint."""
    folder = Path(tempfile.mkdtemp())
    try:
        replay = make_replay(folder, _SHAPES[prioritised], OffPolicySettings(), prioritised)
        first = np.zeros((4, 2), np.bool_)
        first[0] = True
        block = {name: np.zeros((4, 2), np.bool_) for name in ("terminated", "truncated", "life_lost")}
        block |= {"first": first, "observation": np.ones((4, 2, 2), np.float32)}
        block |= {"action": np.ones((4, 2), np.int32), "reward": np.ones((4, 2), np.float32)}
        replay.add("simulator-0.0", 0, block)
        replay.flush()
        (saved := folder / "saved").mkdir()
        state = json.loads(json.dumps(replay.save(saved)))
        return {path.name: path.read_bytes() for path in sorted(saved.iterdir())}, state
    finally:
        shutil.rmtree(folder)


def _replay_files(prioritised: bool) -> list[str]:
    return sorted([*_saved_replay(prioritised)[0], "state"])


def _replay_file(data: bytes, folder: Path) -> bool:
    """Restore a saved replay in which the first byte chooses a file, or the state, and the other bytes replace it."""
    chosen = data[0] if data else 0
    prioritised = chosen >= _PRIORITISED
    files, state = _saved_replay(prioritised)
    names = _replay_files(prioritised)
    which = names[chosen % _PRIORITISED % len(names)]
    if which == "state":
        try:
            state = json.loads(data[1:])
        except (ValueError, RecursionError):
            return False
        if not isinstance(state, dict):
            return False
    for name, content in files.items():
        (folder / name).write_bytes(data[1:] if name == which else content)
    replay = make_replay(folder, _SHAPES[prioritised], OffPolicySettings(), prioritised)
    try:
        with watched():
            replay.restore(folder, state)
    except (ValueError, OSError) as error:
        assert not _draws(replay)
        return refused(error)
    _draws(replay)
    replay.flush()
    return True


def _draws(replay: Replay) -> bool:
    """Draw a minibatch; return False if nothing can be drawn."""
    try:
        replay.sample(3, np.random.default_rng(1))
    except LookupError:
        return False
    return True


_PRIORITISED = 128
"""First bytes from this one on choose a file of a replay with priorities."""


def _replay_inputs(prioritised: bool) -> st.SearchStrategy[bytes]:
    files, state = _saved_replay(prioritised)
    names = _replay_files(prioritised)
    first = {name: bytes([names.index(name) + prioritised * _PRIORITISED]) for name in names}
    by_file = [
        edited_bytes([first[name] + content, *(first[name] + c for c in files.values())])
        for name, content in files.items()
    ]
    headers = st.tuples(st.sampled_from(names), edited_tree(_headers())).map(
        lambda made: first[made[0]] + _npy(made[1])
    )
    values = st.tuples(st.sampled_from(sorted(files)), st.integers(0, 255), st.integers(1, 64)).map(
        lambda made: first[made[0]] + files[made[0]][: -made[2]] + bytes([made[1]]) * made[2]
    )
    odd_state = edited_tree([state]).map(lambda tree: first["state"] + as_json(tree))
    return st.one_of(*by_file) | headers | values | odd_state


def _headers() -> list[Any]:
    shapes = [[2, 3], [2, 9], [2, 9, 2], [2], [1], [], [10**6], [0], [2, -1]]
    kinds = ["<i8", "<f4", "|b1", "|u1", "<f8", "|O", "<U9", "<M8[s]", "<c16", "V8", "<i8,<f4", "<f2"]
    return [
        {"descr": kind, "fortran_order": order, "shape": shape}
        for shape in shapes
        for kind in kinds
        for order in (False, True)
    ]


def _npy(tree: Any) -> bytes:
    """Return a file in numpy's format with this header, and enough bytes for small shapes."""
    told = dict(tree) if isinstance(tree, dict) else tree
    if isinstance(told, dict) and isinstance(told.get("shape"), list):
        told["shape"] = tuple(told["shape"])
    text = repr(told).encode("latin-1", "replace")[:60_000]
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(16 * 40)


def targets() -> dict[str, Target]:
    """Return targets for segments and saved replays."""
    fields = msgspec.to_builtins(_FIELDS)
    return {
        "segment": Target(_segment, _segment_file(fields), nearly([fields], _segment_file)),
        "replay": Target(
            _replay_file,
            bytes([_replay_files(False).index("frame.npy")]) + _saved_replay(False)[0]["frame.npy"],
            _replay_inputs(False) | _replay_inputs(True),
        ),
    }
