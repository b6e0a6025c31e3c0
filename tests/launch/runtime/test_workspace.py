"""The workspace of a run: signals, sockets, segments of learners, and a run folder on a full disk."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from actorlearn.memory.fields import Field
from actorlearn.memory.shared import Segment, SharedMemoryFull
from actorlearn.parameters.checkpoint_folders import seal
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.settings import POLICY_FILE, LoadSettings, read
from launch.errors import FailedError, RunError
from launch.machine.folders import SOCKET_NAME_BYTES, longest_root, runtime_root
from launch.machine.locks import open_alone
from launch.machine.signals import REPEATED_S, SIGNALS, Signals, end_in_order
from launch.nodes.messages import DropLearner
from launch.plan.plan import Start
from launch.runs.jsonl import read_object
from launch.runtime import metadata
from launch.runtime.loop import Runner
from launch.runtime.workspace import Workspace
from launch.supervision import events as ev
from launch.sweeps.state import State
from launch.topology.load import load, parse
from tests.failing_disk import TROUBLES, FailingDisk
from tests.launch.opened import opened, ready
from tests.launch.runs.folders import me
from tests.launch.runtime.no_processes import NoProcesses


@contextmanager
def handled(number: int, handler: signal.Handlers) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def test_signals_are_read_in_order_and_their_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with handled(signal.SIGHUP, signal.SIG_DFL), handled(signal.SIGINT, signal.SIG_DFL):
        signals = Signals()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            os.kill(os.getpid(), number)
        assert signals.read() == [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
        assert signals.read() == []
        signals.close()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_signal_that_nohup_ignores_stays_ignored() -> None:
    with handled(signal.SIGHUP, signal.SIG_IGN), handled(signal.SIGTERM, signal.SIG_DFL):
        end_in_order()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        with pytest.raises(SystemExit) as caught:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
    assert caught.value.code == 128 + signal.SIGTERM


def test_a_signal_that_is_sent_twice_at_once_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    with handled(signal.SIGTERM, signal.SIG_DFL):
        signals, now_s = Signals(), 10.0
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.read() == [signal.SIGTERM]
        now_s += 0.75 * REPEATED_S
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.read() == []
        now_s += 0.75 * REPEATED_S
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.read() == [signal.SIGTERM]
        signals.close()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_was_ignored_stays_ignored(number: int) -> None:
    with handled(number, signal.SIG_IGN):
        signals = Signals()
        os.kill(os.getpid(), number)
        assert signals.read() == []
        assert signal.getsignal(number) is signal.SIG_IGN
        signals.close()
        assert signal.getsignal(number) is signal.SIG_IGN


def test_sockets_are_made_below_xdg_runtime_dir_if_their_paths_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # so that a path can be shorter than that of this test's folder
    longest, too_long = (Path("é" + "r" * (longest_root() - 2 + more)) for more in range(2))
    for named, used in ((longest, longest), (too_long, Path("/tmp"))):
        named.mkdir()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(named))
        assert runtime_root() == used
    folder = longest / Workspace(tmp_path / "run").addresses.sockets.name
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        with pytest.raises(OSError, match="path too long"):
            listener.bind(str(folder / ("s" * (SOCKET_NAME_BYTES + 1))))
        listener.bind(str(folder / ("s" * SOCKET_NAME_BYTES)))
    (folder / ("s" * SOCKET_NAME_BYTES)).unlink()


def laid(folder: Path, resume: bool, *overrides: str) -> None:
    """Make the workspace of a run that then ends at once."""
    with opened(folder, parse("env: {id: CartPole-v1}", ["simulators.count=2", *overrides]), resume):
        pass


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("number", TROUBLES)
def test_a_resume_on_a_full_disk_is_refused_and_loses_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """In turn, the disk fails at each call that writes, and at all later ones."""
    laid(tmp_path, False)
    (tmp_path / "summary.json").write_text('{"status": "stopped"}')
    (tmp_path / "checkpoints" / "20").mkdir()
    seal(tmp_path / "checkpoints" / "20", 20, {})
    before, disk = contents(tmp_path), FailingDisk(monkeypatch, tmp_path, number)
    for calls in range(100):
        disk.fails(lambda made, calls=calls: made >= calls)  # type: ignore[misc]
        try:
            laid(tmp_path, True, "total_steps=123456")
        except FailedError as error:
            assert os.strerror(number) in str(error) and "\n" not in str(error)
        else:
            break
        after = contents(tmp_path)
        assert after.keys() == before.keys()
        assert after["summary.json"] == before["summary.json"]
        assert load(tmp_path / "topology.yaml").total_steps in (123456, 500_000)
        assert read_object(tmp_path / "meta.json")["run_id"]
        if "replace" not in disk.calls[:calls]:
            assert after == before
    assert calls > 8
    disk.heals()
    laid(tmp_path, True)
    assert read_object(tmp_path / "meta.json")["ended"]


def test_a_resume_that_cannot_write_its_folder_names_the_remedy_for_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid(tmp_path, False)
    (tmp_path / "checkpoints" / "20").mkdir()
    seal(tmp_path / "checkpoints" / "20", 20, {})
    disk = FailingDisk(monkeypatch, tmp_path)
    disk.fails(lambda _made: True)
    full, read_only = "free space on that disk, and try again", "make the folder writable, or use another folder"
    remedies = {errno.ENOSPC: full, errno.EDQUOT: full, errno.EIO: "check that disk, and try again"}
    for disk.number, remedy in (remedies | dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), read_only)).items():
        with pytest.raises(FailedError, match=rf": cannot be written: {os.strerror(disk.number)}; {remedy}$"):
            laid(tmp_path, True)


@pytest.mark.parametrize("number", TROUBLES)
def test_a_new_run_on_a_full_disk_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    disk = FailingDisk(monkeypatch, tmp_path, number)
    for calls in range(1, 100):
        disk.fails(lambda made, calls=calls: made >= calls)  # type: ignore[misc]
        try:
            laid(tmp_path / "run", False)
        except FailedError as error:
            assert f"{tmp_path / 'run'}" in str(error)
            assert not (tmp_path / "run").exists()
        else:
            break
    assert calls > 8


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
def test_a_file_system_without_locks_is_refused_in_one_line_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(_handle: int, _operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    run, log = tmp_path / "run", tmp_path / "run.log"
    for locked in (lambda: Workspace(run).__enter__(), lambda: open_alone(log), lambda: State(tmp_path).__enter__()):
        with pytest.raises(RunError, match=r"^[^\n]*cannot lock files [^\n]*; name a folder on another ") as refused:
            locked()
        assert os.strerror(number) in str(refused.value) and str(refused.value).startswith(str(tmp_path))
    assert not run.exists()


# Segments of learners that are attached and detached -----------------------------------------------------------------

GOSSIP = ("mode=gossip", "learners.count=2", "simulators.count=2", "inference.count=1", "gossip.gradient_every=1")


def segments(run: Runner) -> set[str]:
    return {path.name for path in run.workspace.addresses.shm.iterdir()}


@pytest.fixture
def gossiping(tmp_path: Path) -> Iterator[Runner]:
    """A run of two learners that gossip."""
    topology = parse("env: {id: CartPole-v1}", list(GOSSIP))
    with ready(tmp_path / "run", topology, spawner=NoProcesses()) as run:
        yield run


def test_an_attached_learner_has_segments_of_its_own_until_it_is_detached(gossiping: Runner) -> None:
    before = segments(gossiping)
    kinds = {name.removesuffix("-0") for name in before if name.endswith("-0")}
    assert {"weights", "rollouts", "messages", "gradients"} <= kinds
    gossiping.node.add_learners([2, 3])
    assert segments(gossiping) - before == {f"{kind}-{learner}" for kind in kinds for learner in (2, 3)}
    gossiping.node.do(DropLearner(0))
    assert before - segments(gossiping) == {f"{kind}-0" for kind in kinds}
    spawned = gossiping.node.do(Start(ProcessId("simulator", 6, 3), 9))
    assert isinstance(spawned, ev.Spawned) and spawned.member
    member = spawned.member
    assert member.server == 3 and member.segment.file.exists()
    gossiping.node.do(ev.DropMembers([member.id.socket_id]))
    assert not member.segment.file.exists()


@pytest.mark.parametrize(("mode", "behind_steps"), [("gossip", 2000), ("sync", None)])
def test_the_folder_of_a_run_says_when_a_learner_with_own_weights_counts_as_gone(
    mode: str, behind_steps: int | None, tmp_path: Path
) -> None:
    keys = [f"mode={mode}", "learners.count=2", "simulators.count=2", "checkpoint.every_steps=1000"]
    with ready(tmp_path / "run", parse("env: {id: CartPole-v1}", keys), spawner=NoProcesses()):
        loads = read(tmp_path / "run" / POLICY_FILE, LoadSettings)
    assert (loads.own_weights, loads.behind_steps) == (mode == "gossip", behind_steps)


def test_learners_without_room_in_shared_memory_leave_no_segments(
    gossiping: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, make = segments(gossiping), Segment.create

    def full(path: Path, fields: list[Field]) -> Segment:
        if path.name == "messages-3":
            raise SharedMemoryFull("full")
        return make(path, fields)

    monkeypatch.setattr(Segment, "create", full)
    with pytest.raises(SharedMemoryFull):
        gossiping.node.add_learners([2, 3])
    assert segments(gossiping) == before


def test_the_topology_is_written_before_the_run_counts_as_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def write_meta(path: Path, values: Mapping[str, object]) -> None:
        seen.append(load(tmp_path / "topology.yaml").total_steps)
        write(path, values)

    write = metadata.write
    monkeypatch.setattr(metadata, "write", write_meta)
    laid(tmp_path, False, "total_steps=1234")
    assert seen[0] == 1234


@pytest.mark.parametrize("meta", [{}, {"supervisor_pid": 2**22 + 1, "supervisor_started": 1}, me()])
def test_a_folder_that_another_run_uses_is_refused_with_the_process_of_that_run_if_known(
    tmp_path: Path, meta: dict[str, int]
) -> None:
    """A run that starts has not written meta.json yet, or the file is of an earlier life that was killed."""
    with Workspace(tmp_path / "run"):
        (tmp_path / "run" / "meta.json").write_text(json.dumps(meta))
        who = f"supervisor process {os.getpid()}" if meta == me() else "it is starting or ending"
        said = f"{tmp_path}/run: another run uses this folder ({who}); stop that run, or name another folder"
        with pytest.raises(RunError, match=re.escape(said)), Workspace(tmp_path / "run"):
            pass
