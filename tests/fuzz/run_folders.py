"""Folders of runs, of which any file may be odd, and what the command line says of them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer
from hypothesis import strategies as st

from actorlearn.parameters import checkpoint
from launch.cli import app
from launch.topology.load import dump, parse
from tests.fuzz.nearly import as_json, edited_bytes, edited_tree, leaves, nearly, trees
from tests.fuzz.targets.checkpoints import resealed

TOPOLOGY = parse("env: {id: ALE/Pong-v5}", ["name=pong", "simulators.count=2"])
ROWS: list[dict[str, Any]] = [
    {
        **{
            "time_s": 2.0 * n,
            "env_steps": 40 * n,
            "frames": 160 * n,
            "updates": n,
            "episodes": n,
            "policy_lag_mean": 0.5,
        },
        **{
            "env_steps_per_s": 20.0,
            "frames_per_s": 80.0,
            "episode_return_mean": -20.0 + n,
            "episode_length_mean": 900.0,
        },
        **{
            "loss": 0.1,
            "entropy": 1.5,
            "learning_rate": 1e-4,
            "share_infer": 0.5,
            "share_wait": 0.2,
            "steps_dropped": 0,
        },
        "learners": {"trainer-0": {"env_steps_per_s": 20.0}},
    }
    for n in range(3)
]
_ABOUT = {"time": "2026-01-01T00:00:00+00:00", "incarnation": 0, "cause": ""}
EVENTS: list[dict[str, Any]] = [
    {**_ABOUT, "time_s": 0.1, "kind": "spawned", "process": "trainer", "pid": 7},
    {
        **_ABOUT,
        "time_s": 0.2,
        "kind": "chosen",
        "process": "",
        "key": "trainer.precision",
        "value": "bf16",
        "why": "so",
    },
    {**_ABOUT, "time_s": 0.3, "kind": "attached", "process": "simulator-2"},
    {**_ABOUT, "time_s": 0.4, "kind": "died", "process": "simulator-1", "cause": "killed by signal 9"},
    {
        **{**_ABOUT, "time_s": 1.5, "kind": "evaluated", "process": "evaluator-0", "mean": 3.5, "returns": [3.0, 4.0]},
        **{"env_steps": 40, "policy_version": 3, "learners": {"trainer-0": 3.0, "trainer-1": 4.0}},
        **{"best": "trainer-1", "best_mean": 4.0, "learners_mean": 3.5, "secondary": 2.0},
    },
    {**_ABOUT, "time_s": 2.0, "kind": "saved", "process": "trainer", "env_steps": 80},
    {**_ABOUT, "time_s": 2.0, "kind": "detached", "process": "trainer-1"},
    {**_ABOUT, "time_s": 2.5, "kind": "finished", "process": ""},
]
SUMMARY: dict[str, Any] = {
    **{"status": "finished", "error": None, "env_steps": 80, "frames": 320, "updates": 2, "wall_time_s": 4.0},
    **{"env_steps_per_s": 20.0, "episodes": 2, "episode_return_mean": -18.0, "evaluations": None, "deaths": 1},
}
META: dict[str, Any] = {
    **{"run_id": "abc", "name": "pong", "version": "0.1.0", "commit": None, "dirty": None, "command": ["run"]},
    **{"started": "2026-01-01T00:00:00+00:00", "ended": None, "supervisor_pid": None, "supervisor_started": None},
    **{"sockets": "/tmp/actorlearn-0-abc", "shm": "/dev/shm/actorlearn-0-abc", "earlier": [], "resumed_at": None},
}


@cache
def files() -> dict[str, bytes]:
    """A run of 80 steps that has ended, as it should be."""
    import torch

    folder = Path(tempfile.mkdtemp())
    try:
        state = {"env_steps": 80, "updates": 2, "policy_version": 2, "elapsed_s": 4.0}
        checkpoint.save(folder / "checkpoints", 80, {"weights.a": torch.ones(3)}, state, keep=1)
        saved = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    finally:
        shutil.rmtree(folder)
    return {
        "topology.yaml": dump(TOPOLOGY).encode(),
        "meta.json": as_json(META),
        "summary.json": as_json(SUMMARY),
        "metrics.jsonl": _lines(ROWS),
        "events.jsonl": _lines(EVENTS),
        "logs/trainer.log": b"one line\nanother\n",
        **saved,
    }


def lay(folder: Path, odd: str = "", content: bytes = b"") -> Path:
    """Write such a run, one of its files another one."""
    for name, right in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if name == odd else right)
    return folder


def _lines(rows: list[Any]) -> bytes:
    return b"".join(as_json(row) + b"\n" for row in rows)


def _as_lines(tree: Any) -> bytes:
    return _lines(tree) if isinstance(tree, list) else as_json(tree)


def _odd_values(rows: list[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """One of these with many odd values at a time."""
    keys = sorted({key for row in rows for key in row})
    odd = st.dictionaries(st.sampled_from(keys), leaves | trees, max_size=12)
    return st.tuples(st.sampled_from(rows), odd).map(lambda made: {**made[0], **made[1]})


def odd_files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Name and content of the file that is odd."""
    right = files()
    manifest = next(name for name in right if name.endswith("manifest.json"))
    saved = {**json.loads(right[manifest]), "state": {"elapsed_s": 4.0, "replay": {"shape": {}}}}
    kinds: dict[str, st.SearchStrategy[bytes]] = {
        "meta.json": nearly([META]) | _odd_values([META]).map(as_json),
        "summary.json": nearly([SUMMARY]) | _odd_values([SUMMARY]).map(as_json),
        "metrics.jsonl": nearly([ROWS], _as_lines) | st.lists(_odd_values(ROWS), max_size=3).map(_lines),
        "events.jsonl": nearly([EVENTS], _as_lines) | st.lists(_odd_values(EVENTS), max_size=4).map(_lines),
        "topology.yaml": edited_bytes([right["topology.yaml"], b"env: {id: ALE/Pong-v5}\n"]),
        "logs/trainer.log": edited_bytes([right["logs/trainer.log"], b"\xff\x1b[2J\n" * 5]),
        manifest: edited_tree([saved]).map(resealed) | edited_bytes([right[manifest]]),
    }
    return st.one_of(*(st.tuples(st.just(name), content) for name, content in kinds.items()))


@cache
def _command() -> Any:
    return typer.main.get_command(app)


def ask(*arguments: str) -> tuple[int, str, str]:
    """Exit status, output and what was said to be wrong, of one command; an error of ours comes out as it is."""
    with _terminal("stdout") as out, _terminal("stderr") as wrong:
        code = _command().main(list(arguments), prog_name="actorlearn", standalone_mode=False)
    return code, out.getvalue().decode(), wrong.getvalue().decode()


@contextlib.contextmanager
def _terminal(name: str) -> Iterator[io.BytesIO]:
    """A stream in UTF-8 that takes no lone surrogates, as a real one takes none."""
    written, before = io.BytesIO(), getattr(sys, name)
    stream = io.TextIOWrapper(written, encoding="utf-8", errors=before.errors if name == "stderr" else "strict")
    setattr(sys, name, stream)
    try:
        yield written
        stream.flush()
    finally:
        setattr(sys, name, before)
        stream.detach()


def answered(code: int, _out: str, wrong: str) -> None:
    """Fail unless the command did its work, or refused it in one line, or in one line for each fault of a topology."""
    assert code in (0, 1, 2)
    if code:
        lines = wrong.splitlines()
        assert lines and all(line.startswith("actorlearn: ") for line in lines), wrong[:2000]
        assert len(lines) == 1 or re.search(r"\(and \d+ more\)$", lines[0]), wrong[:2000]
        assert max(map(len, lines)) < 5_000, wrong[:6000]


def commands(folder: Path) -> list[tuple[str, ...]]:
    """Commands that read a run that has ended, but for those that draw or go on with it."""
    run = str(folder)
    return [
        *(("ps", "--all"), ("ps", "--all", "--json"), ("top", run, "--once"), ("top", run, "--json"), ("logs", run)),
        *(("bench", "games", run), ("save", run), ("detach", run, "simulator-0"), ("stop", run), ("attach", run)),
    ]


def here(folder: Path) -> Path:
    """A folder runs/ with one run, as ``ps`` finds it from the working directory."""
    os.chdir(folder)
    return folder / "runs" / "pong-1"
