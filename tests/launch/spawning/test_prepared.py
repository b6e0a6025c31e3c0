"""Forks of a fork server behave like started processes, which replace them if the fork server fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from actorlearn.worker.settings import SpacesSettings
from launch.spawning.answers import TooSlowError, ask_task
from launch.spawning.guardian import ROLE_MARK, CapturedCommand, Guardian
from launch.spawning.prepared import prepared, take, wait_for_imports
from tests import named
from tests.runaways import lives
from tests.waiting import within

TELLING = """
import json, os, random, subprocess, sys, time
import numpy as np
from actorlearn.envs.catch import Catch

if os.environ.get("LEAVES"):
    subprocess.Popen(["sleep", "600"], env={}, start_new_session=True)  # a descendant without a mark
    if os.fork() == 0:  # a descendant that never executes a program
        os.setsid()
        time.sleep(600)
        os._exit(0)
with open(os.environ["TELLS"], "a") as file:
    told = {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "group": os.getpgid(0),
        "arguments": sys.argv[1:],
        "descriptors": sorted(os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")[:-1]),
        "variables": dict(os.environ),
        "inherited": subprocess.run(["env"], capture_output=True, text=True).stdout.splitlines(),
        "environ": open("/proc/self/environ").read().split("\\0"),
        "command": open("/proc/self/cmdline").read().replace("\\0", " ").split(),
        "drawn": [random.random(), np.random.random()],
    }
    file.write(json.dumps(told) + "\\n")
print("a line of the environment")
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """Read what environments recorded about the processes that made them."""
    (tmp_path / "telling.py").write_text(TELLING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("TELLS", str(tmp_path / "told"))
    return lambda: [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]


def spaces(limit_s: float = 60.0) -> Any:
    return ask_task("spaces", msgspec.json.encode(SpacesSettings(env=named.env(id="telling:Catch"))), limit_s)


def guardian_of_this() -> psutil.Process:
    """The guardian that this process has started."""
    (found,) = [each for each in psutil.Process().children() if any("guardian.py" in word for word in each.cmdline())]
    return found


def fork_server() -> psutil.Process:
    assert within(30, lambda: len(guardian_of_this().children()) == 1)
    return guardian_of_this().children()[0]


def test_forks_behave_like_started_processes(told: Callable[[], list[dict[str, Any]]]) -> None:
    with prepared():
        answers = [spaces(), spaces()]
        guardian = guardian_of_this().pid
        assert [each.pid for each in guardian_of_this().children()] == [fork_server().pid]
    assert answers == [spaces()] * 2
    first, second, started = told()
    for fork in (first, second):
        assert fork["parent"] == guardian and fork["group"] == fork["pid"]
        assert fork["arguments"][0] == "spaces" and fork["arguments"] == fork["command"][-2:]
        assert fork["command"][:-1] == started["command"][:-1]
        assert {ROLE_MARK, "ACTORLEARN_PARENT_PID", "TELLS"} <= fork["variables"].keys()
        assert set(fork["inherited"]) >= {f"{name}={value}" for name, value in fork["variables"].items()}
        assert set(fork["environ"]) >= {f"{ROLE_MARK}={fork['variables'][ROLE_MARK]}", f"TELLS={os.environ['TELLS']}"}
        assert len(fork["descriptors"]) == len(started["descriptors"])
    assert not set(first["drawn"]) & set(second["drawn"])


@pytest.mark.nightly
def test_descendants_of_a_fork_end_with_it(
    told: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAVES", "1")
    with prepared():
        spaces()
        assert told()
        server = fork_server().pid
        assert within(10, lambda: [each.pid for each in guardian_of_this().children()] == [server])


@pytest.mark.parametrize("taken", [False, True])
def test_a_prepared_fork_server_ends_with_its_guardian(taken: bool) -> None:
    with prepared():
        server = fork_server()
        guardian = take() if taken else None
    assert lives(server.pid) == taken
    if guardian is not None:
        guardian.close()
        assert not lives(server.pid)


@pytest.mark.nightly
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_without_a_fork_server_processes_are_started(
    told: Callable[[], list[dict[str, Any]]], sent: signal.Signals
) -> None:
    """A fork server that is stopped counts as lost after five seconds."""
    with prepared():
        wait_for_imports()
        server = fork_server()
        server.send_signal(sent)
        answer = spaces()
        assert answer == spaces()
        assert not lives(server.pid)
        assert told()[0]["parent"] == guardian_of_this().pid


def test_a_task_gets_another_guardian_if_the_prepared_one_is_lost(told: Callable[[], list[dict[str, Any]]]) -> None:
    with prepared():
        lost = guardian_of_this()
        lost.kill()
        assert spaces()
        assert told()[0]["parent"] != lost.pid


def test_a_task_without_an_answer_is_reported_although_the_guardian_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops_the_guardian = "import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(600)\n"
    (tmp_path / "telling.py").write_text(stops_the_guardian)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with prepared():
        wait_for_imports()
        monkeypatch.setattr("launch.spawning.guardian.ANSWER_S", 0.5)
        monkeypatch.setattr("launch.spawning.guardian.STACK_S", 0.1)
        with pytest.raises(TooSlowError):
            spaces(2.0)


@pytest.mark.nightly
def test_a_fork_server_with_several_threads_is_not_used(
    tmp_path: Path, told: Callable[[], list[dict[str, Any]]]
) -> None:
    begins_a_thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    (tmp_path / "sitecustomize.py").write_text(begins_a_thread)
    with prepared():
        assert spaces()
        assert guardian_of_this().children() == []
    assert told()


def test_a_fork_server_whose_imports_hang_is_not_waited_for(
    tmp_path: Path, told: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = "import sys, time\nif 'fork_server' in sys.orig_argv:\n    time.sleep(600)\n"
    (tmp_path / "sitecustomize.py").write_text(hangs)
    monkeypatch.setattr("launch.spawning.prepared.START_S", 0.1)
    with prepared():
        assert spaces()
    assert told()


DIES_AS_IT_FORKS = """
import os, signal, socket, sys, time
with socket.socket(fileno=3) as guardian:
    guardian.send(b"{}")
    request, streams, *_ = socket.recv_fds(guardian, 1 << 16, 2)
    if os.fork() == 0:
        guardian.close()
        os.fork()
        time.sleep(600)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_processes_forked_for_a_request_without_an_answer_are_ended(guarded: Guardian) -> None:
    """Otherwise two processes of one name would run."""
    guarded.prepare([sys.executable, "-c", DIES_AS_IT_FORKS, ""], {})
    assert within(30, lambda: not guarded.preparing())
    command = [sys.executable, "-c", "print(1)"]
    with CapturedCommand(command, {ROLE_MARK: "simulator-0.0"}, guarded) as started:
        assert started.wait(30.0).stdout == "1\n"
    assert psutil.Process(guarded.pid).children() == []


def test_commands_run_although_the_fork_server_cannot_be_started(guarded: Guardian) -> None:
    guarded.prepare(["/nothing", "fork_server", ""], {})
    assert not guarded.preparing()
    with CapturedCommand(["/bin/echo", "1"], None, guarded) as started:
        assert started.wait(30.0).stdout == "1\n"


SUPERVISOR = """
import time
from launch.spawning.prepared import prepared, wait_for_imports
with prepared():
    print(wait_for_imports().pid, flush=True)
    time.sleep(60)
"""


def test_a_supervisor_that_is_killed_leaves_no_fork_server() -> None:
    with subprocess.Popen([sys.executable, "-c", SUPERVISOR], stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout
        guardian = psutil.Process(int(supervisor.stdout.readline()))
        (server,) = guardian.children()
        supervisor.kill()
    assert within(10.0, lambda: not lives(guardian.pid) and not lives(server.pid))
