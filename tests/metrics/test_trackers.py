"""Writers of experiment trackers: what W&B and trackio have of a run, without a network, and a tracker that fails."""

from __future__ import annotations

import importlib
import json
import re
import sqlite3
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from actorlearn import imports
from actorlearn.metrics import trackers, writer
from actorlearn.metrics.specs import WRITERS, WriterSpec
from actorlearn.metrics.trackers import Tracker
from actorlearn.metrics.writer import MetricsWriter

FIRST, SECOND = "0a1b2c3d4e5f", "00ff00ff00ff"
TOPOLOGY = "name: catch\nenv: {id: actorlearn.envs.catch:Catch}\nseed: 3\n"
needs_wandb = pytest.mark.skipif(find_spec("wandb") is None, reason="pip install 'actorlearn[wandb]'")
needs_trackio = pytest.mark.skipif(find_spec("trackio") is None, reason="pip install 'actorlearn[trackio]'")


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that has begun, and no account, network or folder of a tracker but the test's own."""
    for name, value in {
        "HOME": tmp_path / "home",
        "WANDB_MODE": "offline",
        "WANDB_CACHE_DIR": tmp_path / "home",
        "WANDB_CONFIG_DIR": tmp_path / "home",
        "TRACKIO_DIR": tmp_path / "trackio",
        "HF_HUB_OFFLINE": "1",
    }.items():
        monkeypatch.setenv(name, str(value))
    for name in ("WANDB_API_KEY", "WANDB_PROJECT", "TRACKIO_PROJECT", "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    folder = tmp_path / "catch-1"
    folder.mkdir()
    (folder / "topology.yaml").write_text(TOPOLOGY)
    begin(folder, {"run_id": FIRST})
    return folder


def begin(folder: Path, meta: dict[str, Any]) -> None:
    (folder / "meta.json").write_text(json.dumps({**meta, "version": "0.1.0", "commit": "abc"}))


def two_lives(folder: Path, name: str) -> None:
    """Write two rows, and one more after the run was resumed."""
    with closing(MetricsWriter(folder, [name])) as first:
        first.row({"env_steps": 1000, "loss": 0.5, "note": "a text", "lost": float("nan")})
        first.row({"env_steps": 2000, "loss": 0.25, "learners": {"trainer-0": {"loss": 0.125}}})
    begin(folder, {"run_id": SECOND, "earlier": [{"run_id": FIRST}]})
    with closing(MetricsWriter(folder, [name])) as second:
        second.row({"env_steps": 1500, "loss": 0.2})


WANTED = [
    {"env_steps": 1000.0, "loss": 0.5},
    {"env_steps": 2000.0, "loss": 0.25, "learners/trainer-0/loss": 0.125},
    {"env_steps": 1500.0, "loss": 0.2},
]


def wandb_records(file: Path) -> Iterator[Any]:
    """Records of a .wandb file: LevelDB's log format, blocks of 32 KiB of chunks with checksum, length and kind."""
    from wandb.proto import wandb_internal_pb2

    data, at, whole = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32_768 - at % 32_768 < 7:
            at += 32_768 - at % 32_768
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or its last chunk
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""


@needs_wandb
@pytest.mark.timeout(300)
@pytest.mark.nightly
def test_wandb_has_the_rows_and_the_topology_and_goes_on_after_a_resume(run_dir: Path) -> None:
    two_lives(run_dir, "wandb")
    said = (run_dir / "logs" / "wandb.log").read_text()
    files = sorted(run_dir.glob("wandb/offline-run-*/*.wandb"))
    assert [file.name for file in files] == [f"run-{FIRST}.wandb"] * 2, said
    found, told = [], []
    for record in (record for file in files for record in wandb_records(file)):
        if record.HasField("run"):
            told.append(record.run)
        if record.HasField("history"):
            items = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
            found.append({name: json.loads(value) for name, value in items.items() if not name.startswith("_")})
    assert found == WANTED
    assert {(run.run_id, run.display_name, run.project) for run in told} == {(FIRST, "catch-1", "actorlearn")}
    config = {item.key: json.loads(item.value_json) for item in told[0].config.update}
    assert (config["env"], config["seed"]) == ({"id": "actorlearn.envs.catch:Catch"}, 3)
    assert (config["meta"]["run_id"], config["meta"]["commit"]) == (FIRST, "abc")


@needs_trackio
@pytest.mark.timeout(300)
@pytest.mark.nightly
def test_trackio_has_the_rows_and_the_topology_and_goes_on_after_a_resume(run_dir: Path, tmp_path: Path) -> None:
    two_lives(run_dir, "trackio")
    said = (run_dir / "logs" / "trackio.log").read_text()
    (file,) = (tmp_path / "trackio").rglob("actorlearn.db")
    with sqlite3.connect(file) as base:
        rows = base.execute("SELECT run_name, step, metrics FROM metrics ORDER BY id").fetchall()
        (config,) = base.execute("SELECT config FROM configs").fetchone()
    base.close()
    assert {name for name, _, _ in rows} == {f"catch-1-{FIRST}"}, said
    assert [json.loads(metrics) for _, _, metrics in rows] == WANTED
    assert [step for _, step, _ in rows] == [1000, 2000, 1500]
    assert json.loads(config)["env"] == {"id": "actorlearn.envs.catch:Catch"}


class Unknown(Tracker):
    """A tracker that the process does not know, so that it ends at once."""

    name = "unknown"


def test_a_tracker_that_ends_is_told_and_the_other_writers_go_on(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers, "CLOSE_S", 5.0)
    rows, error = 0, None
    with closing(MetricsWriter(run_dir, [f"{__name__}:Unknown"])) as written:
        while error is None and rows < 600:
            rows += 1
            error = written.row({"env_steps": rows})[f"{__name__}:Unknown"]
            time.sleep(0.1)
    said = "the process that sends rows to unknown ended with exit status 1; see .*log"
    assert re.fullmatch(said, str(error))
    assert "KeyError: 'unknown'" in (run_dir / "logs" / "unknown.log").read_text()
    assert len((run_dir / writer.METRICS_FILE).read_text().splitlines()) == rows


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_tracker_that_is_not_installed_is_told_with_the_way_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "is_installed", lambda package: False)
    with pytest.raises(ValueError, match=f"'{name}' needs '{name}', which is not installed: `pip install "):
        WRITERS.spec(name).load()


def test_a_folder_with_the_name_of_a_package_is_not_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "a_tracker").mkdir()  # as wandb makes a folder wandb for its files
    spec = WriterSpec(name="mine", made_by="actorlearn.metrics.trackers:WandB", needs=("a_tracker",))
    with pytest.raises(ValueError, match="'mine' needs 'a_tracker', which is not installed: `pip install a_tracker`"):
        spec.load()
    (tmp_path / "a_tracker" / "__init__.py").touch()
    importlib.invalidate_caches()
    assert spec.load() is trackers.WandB
