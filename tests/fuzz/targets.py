"""What reads bytes that somebody else has written: a door each, with the errors it may raise and inputs nearly right.

A target's ``read`` takes the bytes and says whether they were read, or refused as its door refuses; whatever else it
raises is a fault found. Used by the gated tests, and by ``by_hand.py``, which runs for as long as one likes.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
import yaml
from hypothesis import strategies as st

from actorlearn.address import Shm
from actorlearn.envs.interface import VectorEnv
from actorlearn.envs.make import make as make_envs
from actorlearn.memory import shared
from actorlearn.memory.fields import Field
from actorlearn.memory.shared import Segment, SegmentError, segment_bytes
from actorlearn.parameters import checkpoint, checkpoint_folders
from actorlearn.parameters.checkpoint_folders import CheckpointError
from actorlearn.processes import snapshots
from actorlearn.replay.nstep import NStep
from actorlearn.replay.rows import ReplayShape
from actorlearn.wire import messages
from actorlearn.wire.messages import MessageError
from actorlearn.worker import settings as process_settings
from actorlearn.worker.settings import SimulatorSettings, TrainerSettings
from launch.plan.plan import plan
from launch.topology import load, reference, sources, strict_yaml
from launch.topology.load import TopologyError
from tests import named, odd_messages
from tests.fuzz.nearly import as_json, edited_bytes, edited_tree, nearly
from tests.fuzz.watched import watched
from tests.identities import process, trainer
from tests.launch.described import DESCRIPTION
from tests.launch.opened import told
from tests.processes.interrupted import CONFIGURATIONS, Play
from tests.replay.buffers import make as make_replay

CARTPOLE = "env: {id: CartPole-v1}\nmodel: {name: mlp}\nalgorithm: {name: a2c}\n"
reference.page()  # what the types say of keys is found out once, by evaluating annotations, and not from any bytes


@dataclass(frozen=True)
class Target:
    """One door."""

    read: Callable[[bytes, Path], bool]
    """Takes the bytes, and a folder to itself."""
    right: bytes
    """That are read."""
    inputs: st.SearchStrategy[bytes]
    call_bound: Callable[[int], int] = lambda size: 20_000 + 50 * size
    """Function calls that reading so many bytes may take."""
    peak_bound: Callable[[int], int] = lambda size: 4 * size + (1 << 20)
    """Bytes that reading may allocate."""
    hostile: tuple[bytes, ...] = ()
    """Inputs that are large for what they say, or deep."""


def refused(error: Exception, printable: bool = False) -> bool:
    """False; what a person is told is no longer than it need be, and can be printed where it is printed as it is."""
    said = str(error)
    assert said, repr(error)
    assert len(said) <= 4_000, said[:4_100]
    assert not printable or said.isprintable()
    return False


# Messages -------------------------------------------------------------------------------------------------------------


def _message(receiver: str) -> Callable[[bytes, Path], bool]:
    def read(data: bytes, _folder: Path) -> bool:
        try:
            with watched():
                message = messages.decode(data, receiver)
        except MessageError as error:
            return refused(error)
        assert messages.decode(messages.encode(message), receiver) is not None
        return True

    return read


def _messages() -> list[Any]:
    made = [msgspec.msgpack.decode(body) for body in itertools.islice(odd_messages.bodies(7), 60)]
    member = messages.Member(id=process("simulator-0", 2), segment=Shm("/dev/shm/x/simulator-0"))
    order = messages.Order(version=3, members=[member], learners=[trainer("trainer-0")], leaving=["simulator-0.2"])
    reply = messages.Reply(ok=True, text="done", data={"processes": [{"name": "trainer", "busy": 0.5}]})
    return [*made, *(msgspec.msgpack.decode(messages.encode(m)) for m in (order, messages.Refused(reason="x"), reply))]


def _packed(tree: Any) -> bytes:
    """A tree in MessagePack; what it has no form for is bytes that are none."""
    try:
        return msgspec.msgpack.encode(tree)
    except (OverflowError, UnicodeEncodeError):
        return b"\xc1"


_UNDERSTOOD: dict[str, messages.Message] = {
    "supervisor": messages.Applied(order=1),
    "child": messages.Order(version=1),
    "command line": messages.Reply(ok=True, text="done"),
}
_deep = 60_000 * b"\x91"
_pairs = b"".join(b"\xa3%03d\x01" % n for n in range(1000))
_HOSTILE_MESSAGES = (
    *(_deep, b"\xdd\x7f\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\x90" * messages.LIMIT_BYTES),
    b"\x82\xa4type\xa6Report\xa3row\xde\x03\xe8" + _pairs,
    b"\x82\xa4type\xa6Report\xa3row\xdf\x00\x01\x00\x00" + b"".join(b"\xa4%04x\x01" % n for n in range(0x9000)),
    b"\x82\xa4type\xdb\x00\x03\xff\x00" + b"x" * 0x3FF00,
    b"\xdb\x00\x03\xff\x00" + "\U0010ffff".encode() * 0xFFC0,
)

# Topologies and overrides ---------------------------------------------------------------------------------------------


def _topology(data: bytes, _folder: Path) -> bool:
    try:
        with watched():
            made = load.parse(data)
    except TopologyError as error:
        return refused(error, printable=True)
    assert load.parse(load.dump(made)) == made
    return True


def _overrides(data: bytes, _folder: Path) -> bool:
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    try:
        with watched():
            load.parse(CARTPOLE, lines)
    except TopologyError as error:
        return refused(error, printable=True)
    return True


def _strict(data: bytes, _folder: Path) -> bool:
    try:
        with watched():
            strict_yaml.read(data, "text")
    except TopologyError as error:
        return refused(error, printable=True)
    return True


@cache
def _topologies() -> list[Any]:
    files = sorted(sources.examples().rglob("*.yaml"))
    return [strict_yaml.read(path.read_bytes(), path.name).value for path in files]


def _flow(tree: Any) -> bytes:
    """A tree as YAML in flow style, as a person does not write it."""
    return yaml.dump(tree, default_flow_style=True, allow_unicode=True, sort_keys=False).encode("utf-8", "replace")


def _override_lines(tree: Any) -> bytes:
    lines = []
    for section, inside in tree.items() if isinstance(tree, dict) else ():
        pairs = inside.items() if isinstance(inside, dict) else [("", inside)]
        lines += [f"{section}.{key}={json.dumps(value)}".replace(".=", "=") for key, value in pairs]
    return "\n".join(lines).encode("utf-8", "replace")


_HOSTILE_TOPOLOGIES = (
    *(b"[" * 200_000, b"{a: " * 50_000, b"- " * 100_000, b"? " * 100_000, b"a: " + b"9" * 50_000),
    b"a: &a [x, x, x, x, x, x, x, x, x]\n"
    + b"".join(b"%c: &%c [*%c, *%c]\n" % (n, n, n - 1, n - 1) for n in range(98, 120)),
    *(
        b"a: !!python/object/apply:os.system ['true']\n",
        b'"' + b"\\x00" * 60_000,
        b"'" + b"\n" * 200_000,
        b"\x00" * 1_000,
    ),
    b"".join(b"k%d: 1\n" % n for n in range(20_000)),
)


def _of_yaml(size: int) -> int:
    """PyYAML keeps a list of the line breaks of a text in quotes: 16 bytes of memory for one of the text."""
    return 20 * size + (1 << 20)


# Checkpoints ----------------------------------------------------------------------------------------------------------

_TENSORS = {"weights.a": torch.arange(6.0).reshape(2, 3), "optimizer.m": torch.ones(4)}
_STATE = {"env_steps": 40, "updates": 7, "policy_version": 3, "elapsed_s": 1.5, "recent": [1.5, -2.0]}


@cache
def _sealed() -> tuple[bytes, bytes]:
    """Manifest and tensors of a checkpoint of 40 steps."""
    folder = Path(tempfile.mkdtemp())
    try:
        made = checkpoint.save(folder, 40, _TENSORS, _STATE, keep=1)
        return (made / "manifest.json").read_bytes(), (made / "tensors.safetensors").read_bytes()
    finally:
        shutil.rmtree(folder)


def _early() -> dict[str, Any]:
    digest = hashlib.sha256(_sealed()[1]).hexdigest()
    return {"format": 1, "env_steps": 40, "sha256": {"tensors.safetensors": digest}, "state": _STATE}


def _resealed(tree: Any) -> bytes:
    """A manifest that says so and is sealed like one of ours."""
    text = json.dumps(tree, indent=1).removesuffix("\n}").encode()
    return text + f',\n "sha256": "{hashlib.sha256(text).hexdigest()}"\n}}\n'.encode()


def _folder_of(folder: Path, manifest: bytes, tensors: bytes) -> Path:
    made = folder / "000000000040"
    made.mkdir(exist_ok=True)
    (made / "manifest.json").write_bytes(manifest)
    (made / "tensors.safetensors").write_bytes(tensors)
    return made


def _manifest(data: bytes, folder: Path) -> bool:
    """Whatever a manifest says, a checkpoint is the one that was saved, or damaged."""
    _folder_of(folder, data, _sealed()[1])
    try:
        with watched():
            found = checkpoint_folders.newest(folder)
    except CheckpointError as error:
        return refused(error)
    assert isinstance(found.state, dict)
    return True


def _tensors(data: bytes, folder: Path) -> bool:
    """Tensors that are damaged behind a manifest that holds."""
    files = {"tensors.safetensors": {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}}
    made = _folder_of(folder, _resealed({"format": 2, "env_steps": 40, "files": files, "state": {}}), data)
    try:
        with watched():
            loaded = checkpoint.load(made)
    except (ValueError, OSError) as error:
        return refused(error)
    assert all(isinstance(tensor, torch.Tensor) for tensor in loaded.tensors.values())
    return True


def _tensor_file(tree: Any) -> bytes:
    header = as_json(tree)
    return len(header).to_bytes(8, "little") + header + _sealed()[1][-64:]


def _tensor_headers() -> list[Any]:
    data = _sealed()[1]
    return [json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])]


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
    head = shared.header(_packed(table))
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
        replay = make_replay(folder, _SHAPES[prioritised], NStep(), prioritised)
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
    """One file of a replay, chosen by the first byte, or its state, is another one; the rest is as it was saved."""
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
    replay = make_replay(folder, _SHAPES[prioritised], NStep(), prioritised)
    try:
        with watched():
            replay.restore(folder, state)
    except (ValueError, OSError) as error:
        assert not len(replay)
        return refused(error)
    if len(replay):
        replay.sample(3, np.random.default_rng(1))
    replay.flush()
    return True


_PRIORITISED = 128
"""From this first byte on it is a replay with priorities."""


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
    """A file of numpy's with this header, and bytes enough for what is small."""
    told = dict(tree) if isinstance(tree, dict) else tree
    if isinstance(told, dict) and isinstance(told.get("shape"), list):
        told["shape"] = tuple(told["shape"])
    text = repr(told).encode("latin-1", "replace")[:60_000]
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(16 * 40)


# Where simulators stand --------------------------------------------------------------------------------------------


@cache
def _snapshot() -> bytes:
    """A simulator's file of where its environments stood."""
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
        assert all(group.standing is None for group in groups)
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
    return make_envs(named.env(id="CartPole-v1"), [1, 2])


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


DEEP_JSON = tuple(text * 100_000 for text in (b"[", b'{"a":', b"[{}, ", b"9", b'"\\u0000'))


def targets() -> dict[str, Target]:
    """All of them by name."""
    message = {
        f"message to the {receiver}": Target(
            _message(receiver),
            messages.encode(_UNDERSTOOD[receiver]),
            nearly(_messages(), _packed),
            hostile=_HOSTILE_MESSAGES,
            peak_bound=lambda size: 12 << 20,  # at most 256 KiB in, each key of two bytes an object
        )
        for receiver in ("supervisor", "child", "command line")
    }
    texts = [path.read_bytes() for path in sorted(sources.examples().rglob("*.yaml"))]
    sealed, tensors = _sealed()
    fields, told = msgspec.to_builtins(_FIELDS), _instructions()
    lines = _override_lines(_topologies()[0])
    made = message | {
        "topology": Target(_topology, texts[0], nearly(_topologies(), _flow, texts)),
        "strict YAML": Target(
            _strict, texts[0], nearly(_topologies(), _flow, texts), hostile=_HOSTILE_TOPOLOGIES, peak_bound=_of_yaml
        ),
        "overrides": Target(_overrides, lines, nearly(_topologies(), _override_lines)),
        "manifest": Target(
            _manifest,
            sealed,
            nearly([_early()], more=[sealed]) | edited_tree([json.loads(sealed)]).map(_resealed),
            hostile=DEEP_JSON,
            peak_bound=lambda size: 4 * size + (17 << 20),  # files are hashed in parts of 16 MiB
        ),
        "tensors": Target(
            _tensors,
            tensors,
            nearly(_tensor_headers(), _tensor_file, [tensors]),
            hostile=(b"\xff" * 64, bytes(64), b"\xff\xff\xff\x07" + bytes(4) + b"[" * 1_000_000),
            peak_bound=lambda size: 4 * size + (17 << 20),
        ),
        "segment": Target(_segment, _segment_file(fields), nearly([fields], _segment_file)),
        "replay": Target(
            _replay_file,
            bytes([_replay_files(False).index("frame.npy")]) + _saved_replay(False)[0]["frame.npy"],
            _replay_inputs(False) | _replay_inputs(True),
        ),
        "standing": Target(_standing, _snapshot(), _snapshots()),
        "environments": Target(
            _environments, as_json(_environment_texts()[0]), nearly(_environment_texts()), hostile=DEEP_JSON
        ),
        "settings": Target(_settings, as_json(told[-1]), nearly(told), hostile=DEEP_JSON),
    }
    return {name: replace(target, inputs=_short(target.inputs)) for name, target in made.items()}


def _short(inputs: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """The same, which prints as one word and not with all its examples."""

    @st.composite
    def nearly_right(draw: st.DrawFn) -> bytes:
        return draw(inputs)

    return nearly_right()
