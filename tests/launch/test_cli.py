"""The command line: a wrong request is one line and exit status 2, a failure is status 1, and --json prints JSON."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from msgspec.structs import replace

from actorlearn.address import Ipc
from actorlearn.wire.channel import Router
from actorlearn.wire.messages import Reply, Request, decode, encode
from launch.commands import check, doctor, manage
from launch.commands import run as run_command
from launch.errors import FailedError
from launch.runs import client, find
from tests.launch.asking import ask, refused
from tests.launch.described import DESCRIPTION
from tests.launch.runs.folders import make_run, me
from tests.sizes import ROOT

pytestmark = pytest.mark.usefixtures("empty_folder")
COMMANDS = ["run", "check", "resume", "ps", "top", "logs", "stop", "save", "attach", "detach", "clean"]
COMMANDS += ["eval", "plot", "compare", "bench", "tune", "doctor"]
HUGE = 10**20
"""An integer that neither a message nor the C API of Python can hold."""
TOPOLOGY = "name: cart\nenv: {id: CartPole-v1}\ntotal_steps: 1000\n"
ROW = {"time_s": 9.0, "env_steps": 250, "env_steps_per_s": 50.0, "episode_return_mean": 21.5, "episodes": 4}


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    path = tmp_path / "cart.yaml"
    path.write_text(TOPOLOGY)
    return path


@contextmanager
def supervisor(folder: Path, replies: dict[str, Reply]) -> Iterator[tuple[Path, list[Request]]]:
    """A living run, whose supervisor is a thread of this process: it sends ``replies``, and none to other commands."""
    with tempfile.TemporaryDirectory(prefix="al-") as sockets:  # a short path: pytest's are near a socket's limit
        path = make_run(folder, "cart-1", sockets=sockets, **me())
        (path / "topology.yaml").write_text(TOPOLOGY)
        (path / "metrics.jsonl").write_text(json.dumps(ROW) + "\n")
        router, asked, over = Router(Ipc(f"{sockets}/control.sock")), [], threading.Event()

        def serve() -> None:
            while not over.is_set():
                if (received := router.recv(20)) is None:
                    continue
                request = decode(received[1], "supervisor")
                assert isinstance(request, Request)
                asked.append(request)
                if request.command in replies:
                    router.send(received[0], encode(replies[request.command]))
            router.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield path, asked
        finally:
            over.set()
            thread.join()


SCRIPT = "import sys\nfrom actorlearn.__main__ import main\nsys.exit(main())\n"
"""The program that pip makes of the entry point. Unlike `python -m`, it does not search the working directory."""
NETWORK = """
from torch import nn
from actorlearn.models.specs import EncoderSettings

class Wide(nn.Module):
    class Settings(EncoderSettings, frozen=True, kw_only=True):
        width: int = 8

    def __init__(self, settings, observation_shape):
        super().__init__()
        self.layer, self.features = nn.Linear(observation_shape[0], settings.width), settings.width

    def forward(self, observation):
        return self.layer(observation)
"""


def test_the_installed_program_imports_from_the_folder_where_it_is_started(topology: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "actorlearn").write_text(SCRIPT)
    (tmp_path / "wide.py").write_text(NETWORK)
    command = [sys.executable, "bin/actorlearn", "check", topology.name, "model.name=wide:Wide", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["topology"]["model"]["width"] == 8


# Requests that are wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("nonsense", "No such command 'nonsense'; see `actorlearn --help`"),
        ("ls", "No such command 'ls'; did you mean `actorlearn ps`? see `actorlearn --help`"),
        ("train CartPole-v1", "No such command 'train'; did you mean `actorlearn run TOPOLOGY`?"),
        ("help nonsense", "No such command 'nonsense'"),
        ("run", "Missing argument 'TOPOLOGY'; see `actorlearn run --help`"),
        ("run configs/cartpole.yaml --total_steps=9", "keys of a topology have no dashes: write total_steps=VALUE"),
        (
            "run CartPole-v1",
            "write a file of YAML with env: {id: CartPole-v1}, or call actorlearn.train('CartPole-v1')",
        ),
        ("doctor --nonsense", "No such option: --nonsense; see `actorlearn doctor --help`"),
        ("attach x --simulators 0", "greater than or equal to 1; see `actorlearn attach --help`"),
        ("attach x --simulators many", "see `actorlearn attach --help`"),
        (f"attach x --simulators {HUGE}", "less than or equal to 10000; see `actorlearn attach --help`"),
        (f"attach x --learners {HUGE}", "less than or equal to 10000; see `actorlearn attach --help`"),
        (f"logs x -n {HUGE}", "less than or equal to 1000000000; see `actorlearn logs --help`"),
        (f"eval x --episodes {HUGE}", "less than or equal to 1000000; see `actorlearn eval --help`"),
        (f"eval x --seed {HUGE}", "less than or equal to 9223372036854775807; see `actorlearn eval --help`"),
        (f"export x -o y --episodes {HUGE}", "less than or equal to 1000000; see `actorlearn export --help`"),
        ("attach x --learners 0", "greater than or equal to 1; see `actorlearn attach --help`"),
        ("plot x", "'x' is not a run folder, and there are no runs"),
        ("run nowhere.yaml", "nowhere.yaml: No such file or directory"),
        ("check nowhere.yaml", "nowhere.yaml: No such file or directory"),
        ("check cart.yaml simulators.cout=2", "did you mean simulators.count"),
        ("check cart.yaml total_steps", "an override is key=value"),
        ("top", "there are no runs in runs/; start one with `actorlearn run TOPOLOGY`"),
        ("stop x", "'x' is not a run folder, and there are no runs"),
        ("resume x", "'x' is not a run folder, and there are no runs"),
        ("logs x", "'x' is not a run folder, and there are no runs"),
        ("eval x", "'x' is not a run folder, and there are no runs"),
        ("plot x -o x.png", "'x' is not a run folder, and there are no runs"),
        ("bench nonsense", "there is no suite 'nonsense'; choose one of "),
        ("bench replay cart.yaml", "suite replay has its own topologies; omit 'cart.yaml'"),
        ("bench sampling simulators.count=0", "simulators.count"),  # an override, although no topology comes before it
        ("bench training -o cart.yaml", "-o cart.yaml: File exists; name a folder"),
        ("bench training nowhere.yaml", "nowhere.yaml: No such file"),
        ("bench training simulators.count=0", "simulators.count"),
        ("tune nowhere.yaml", "nowhere.yaml: No such file"),
    ],
)
def test_a_wrong_request_is_refused_in_one_line(arguments: str, said: str, topology: Path) -> None:
    assert said in refused(*arguments.split())


def test_run_check_and_resume_start_a_fork_server_while_they_read_a_topology(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = list[str]()

    @contextmanager
    def recorded() -> Iterator[None]:
        prepared.append("fork server")
        yield

    monkeypatch.setattr("launch.spawning.prepared.prepared", recorded)
    refused("run", "nowhere.yaml")
    refused("check", "nowhere.yaml")
    refused("resume", "x")
    assert len(prepared) == 3


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    result = ask(command, "--help")
    assert result.exit_code == 0
    assert f"actorlearn {command}" in result.output


def test_help_names_the_default() -> None:
    assert "Default: the newest living run" in " ".join(ask("top", "--help").output.split())


def test_without_a_command_the_help_is_shown() -> None:
    result = ask()
    assert result.exit_code == 2
    assert all(command in result.output for command in COMMANDS)


def test_help_imports_no_heavy_library() -> None:
    heavy = "{'torch', 'numpy', 'zmq', 'pydantic', 'matplotlib'}"
    code = f"import sys, launch.cli; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("words", [("help",), ("-h",), ("help", "run"), ("run", "-h"), ("keys", "-h")])
def test_the_word_help_and_the_option_h_print_the_same_as_the_option_help(words: tuple[str, ...]) -> None:
    command = [word for word in words if word not in ("help", "-h")]
    result, expected = ask(*words), ask(*command, "--help")
    assert (result.exit_code, result.output) == (0, expected.output)


@pytest.mark.parametrize(
    ("asked", "there", "meant"),
    [
        ("shop.yml", "shop.yaml", "shop.yaml"),
        ("shop", "shop.yaml", "shop.yaml"),
        ("sets/shp.yaml", "sets/shop.yml", "sets/shop.yml"),
        ("pong.yaml", "other.yaml", str(ROOT / "configs" / "pong.yaml")),
    ],
)
def test_for_a_missing_topology_a_file_of_a_similar_name_is_suggested(
    asked: str, there: str, meant: str, tmp_path: Path
) -> None:
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).write_text(TOPOLOGY)
    line = refused("run", asked)
    assert line.startswith(f"{asked}: No such file or directory") and f"did you mean {meant}?" in line


def test_a_file_of_a_different_name_is_not_suggested(tmp_path: Path) -> None:
    (tmp_path / "zebra.yaml").write_text(TOPOLOGY)
    assert "check the path; examples are in" in refused("run", "shop.yaml")


def test_python_m_launch_starts_the_command_line() -> None:
    command = [sys.executable, "-m", "launch", "nonsense"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (2, "actorlearn: No such command 'nonsense'; see `actorlearn --help`\n")


def test_an_unexpected_error_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(json: bool) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(doctor, "doctor", broken)
    assert isinstance(ask("doctor").exception, ZeroDivisionError)


# Run and resume -------------------------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Path, bool]]:
    """The runs that a replaced runner was asked for: topology, run folder, and where to resume."""
    seen: list[tuple[Any, Path, str | int | None]] = []

    def run(topology: Any, run_dir: Path, *, resume_at: str | int | None, accepted: Any, engine: Any, keys: Any) -> int:
        accepted(0.0).row(ROW)
        seen.append((topology, run_dir, resume_at))
        return 3

    module = ModuleType("launch.runtime.loop")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "launch.runtime.loop", module)
    return seen


def test_run_makes_a_folder_named_after_topology_and_time(topology: Path, started: list[Any]) -> None:
    result = ask("run", topology, "total_steps=500", "seed=7")
    assert result.exit_code == 3
    loaded, folder, resumed = started[0]
    assert (loaded.total_steps, loaded.seed, resumed) == (500, 7, None)
    assert folder.parent == Path("runs")
    assert time.strptime(folder.name, "cart-%Y%m%d-%H%M%S")
    assert "250 steps ( 50.0%)" in result.stdout


def test_an_unknown_environment_is_refused_in_one_line(topology: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    result = ask("run", topology, "env.id=CartPole-v77")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "CartPole-v77" in result.stderr and len(result.stderr.splitlines()) == 1


def test_each_fault_of_a_topology_is_one_line(topology: Path) -> None:
    result = ask("check", topology, "seed=-1", "total_steps=x", "simulators.count=0")
    lines = result.stderr.splitlines()
    assert (result.exit_code, result.stdout, len(lines)) == (2, "", 3)
    assert all(line.startswith("actorlearn: command line: ") for line in lines)


def test_a_slow_trial_is_announced_before_the_first_lines(
    topology: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_command, "TRIAL_S", 0.0)
    slow = run_command.find_engine
    monkeypatch.setattr(run_command, "find_engine", lambda engine: (time.sleep(0.2), slow(engine))[1])
    lines = ask("run", topology).stdout.splitlines()
    assert lines[0] == "trying the environment and the network before the run begins"
    assert "train a2c on CartPole-v1" in lines[1]


@pytest.mark.parametrize("command", ["run", "resume"])
def test_ctrl_c_before_the_run_begins_is_one_line(
    command: str, topology: Path, started: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_run(tmp_path / "runs", "cart-1")
    (old / "topology.yaml").write_text(TOPOLOGY)
    (old / "checkpoints" / "500").mkdir(parents=True)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["launch.runtime.loop"], "run", interrupted)
    result = ask(command, topology if command == "run" else "cart-1")
    assert result.exit_code == 130
    assert result.stderr == "actorlearn: interrupted before the run began; nothing was saved\n"


def test_ctrl_c_after_the_run_has_begun_does_not_say_that_nothing_was_saved(
    topology: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, accepted: Any, **__: object) -> None:
        accepted(0.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["launch.runtime.loop"], "run", interrupted)
    assert "before the run began" not in ask("run", topology).stderr


def test_run_uses_the_folder_it_is_given(topology: Path, started: list[Any], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "deep" / "new"):
        ask("run", topology, "--run-dir", folder)
        assert started[-1][1] == folder
        assert folder.is_dir()


def test_run_refuses_a_folder_that_is_not_empty(topology: Path, started: list[Any], tmp_path: Path) -> None:
    old = make_run(tmp_path, "old")
    assert "already contains a run; continue it with `actorlearn resume" in refused("run", topology, "--run-dir", old)
    assert "is not empty; name a new folder" in refused("run", topology, "--run-dir", tmp_path)
    assert "cannot be made: Not a directory" in refused("run", topology, "--run-dir", topology / "x")
    assert started == []


def test_resume_takes_the_run_s_own_topology(started: list[Any], tmp_path: Path) -> None:
    old = make_run(tmp_path / "runs", "cart-1")
    (old / "topology.yaml").write_text(TOPOLOGY)
    assert "cart-1 has no checkpoint to resume from" in refused("resume", "cart")
    (old / "checkpoints" / "500").mkdir(parents=True)
    assert ask("resume", "cart", "total_steps=2000").exit_code == 3
    loaded, folder, resumed = started[0]
    assert (loaded.total_steps, folder, resumed) == (2000, old, "newest")


def test_a_living_run_cannot_be_resumed(started: list[Any], tmp_path: Path) -> None:
    make_run(tmp_path / "runs", "cart-1", **me())
    assert "cart-1 is alive; `actorlearn top cart-1` shows it" in refused("resume", "cart")
    assert started == []


# Living runs ----------------------------------------------------------------------------------------------------------


def test_stop_save_attach_and_detach_refuse_a_dead_run(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", "cart-1")
    for arguments in (("stop", "cart"), ("save", "cart"), ("attach", "cart"), ("detach", "cart", "simulator-0")):
        assert "cart-1 is not alive (died)" in refused(*arguments)


def test_attach_and_detach_ask_the_supervisor(tmp_path: Path) -> None:
    attached = Reply(ok=True, text="simulator-2 running after 0.4 s", data={"names": ["simulator-2"]})
    with supervisor(tmp_path, {"attach": attached, "detach": Reply(ok=True, text="gone")}) as (path, asked):
        said = json.loads(ask("attach", path, "--simulators", "2", "env.frame_skip=4", "--json").stdout)
        assert said == {"run": "cart-1", "text": attached.text, "names": ["simulator-2"]}
        assert ask("detach", path, "simulator-0", "simulator-1").stdout == "cart-1: gone\n"
        for more in ([], ["--learners", "3"], ["--learners", "1", "--simulators", "2"]):
            ask("attach", path, *more)
    assert [(request.simulators, request.learners) for request in asked[2:]] == [(1, 0), (0, 3), (2, 1)]
    assert (asked[0].command, asked[0].simulators, asked[0].overrides) == ("attach", 2, ["env.frame_skip=4"])
    assert (asked[1].command, asked[1].names) == ("detach", ["simulator-0", "simulator-1"])


def test_save_says_where_the_checkpoint_is(tmp_path: Path) -> None:
    done = Reply(ok=True, text="checkpoint at 7 steps: c/7", data={"path": "c/7", "env_steps": 7, "seconds": 0.1})
    with supervisor(tmp_path, {"save": done}) as (path, asked):
        assert ask("save", path).stdout == "cart-1: checkpoint at 7 steps: c/7\n"
        assert json.loads(ask("save", path, "--json").stdout) == {"run": "cart-1", "text": done.text, **done.data}
    assert [request.command for request in asked] == ["save", "save"]


def test_a_refusal_by_the_supervisor_is_printed_in_one_line(tmp_path: Path) -> None:
    with supervisor(tmp_path, {"detach": Reply(ok=False, text="'x' is not a simulator of this run")}) as (path, _):
        assert refused("detach", path, "x", code=1) == "cart-1: 'x' is not a simulator of this run"


def test_a_supervisor_that_does_not_answer_is_an_error_after_the_time_limit(tmp_path: Path) -> None:
    with supervisor(tmp_path, {}) as (path, _):
        began_s = time.monotonic()
        with pytest.raises(FailedError, match=r"did not answer 'status' within 0.3 s; .* stop cart-1 --now"):
            client.ask(find.find(str(path)), "status", timeout_s=0.3)
        assert time.monotonic() - began_s < 2.0


def test_stop_waits_for_the_end(tmp_path: Path) -> None:
    with supervisor(tmp_path, {"stop": Reply(ok=True, text="stopping")}) as (path, asked):
        said = refused("stop", path, "--timeout-s", "0.1", code=1)
        assert "cart-1 is still running 0.1 s after it was told to stop" in said
        assert [request.command for request in asked] == ["stop"]


def test_stop_now_asks_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = find.start_time(os.getpid())
    with supervisor(tmp_path, {"kill": Reply(ok=True, text="all processes of the run are being ended")}) as (
        path,
        asked,
    ):
        monkeypatch.setattr(find, "start_time", lambda pid: None if asked else started)  # ends once it is asked
        assert ask("stop", path, "--now").exit_code == 0
    assert [request.command for request in asked] == ["kill"]


def test_stop_now_kills_a_supervisor_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manage, "NOW_S", 0.2)
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", stubborn]) as child:
        about = {"supervisor_pid": child.pid, "supervisor_started": find.start_time(child.pid)}
        path = make_run(tmp_path, "cart-1", sockets=str(tmp_path), **about)
        said = json.loads(ask("stop", path, "--now", "--json").stdout)
        assert child.wait(5) == -9
    assert (said["run"], said["status"]) == ("cart-1", "killed")


def test_top_shows_a_living_run(tmp_path: Path) -> None:
    processes = [{"name": "trainer", "state": "running", "incarnation": 0, "pid": 7, "busy": 0.5}]
    with supervisor(tmp_path, {"status": Reply(ok=True, text="", data={"processes": processes})}) as (path, _):
        said = json.loads(ask("top", path, "--json").stdout)
        text = ask("top", path).stdout
    assert (said["status"], said["row"], said["processes"]) == ("running", ROW, processes)
    assert said["left_s"] == pytest.approx(750 / 50)
    assert "CartPole-v1" in text
    assert "trainer" in text
    assert "21.5 mean score" in text


def test_top_shows_an_ended_run(tmp_path: Path) -> None:
    path = make_run(tmp_path, "cart-1")
    (path / "topology.yaml").write_text(TOPOLOGY)
    (path / "summary.json").write_text('{"status": "finished", "wall_time_s": 61.0}')
    (path / "events.jsonl").write_text(
        '{"time_s": 1.5, "kind": "died", "process": "simulator-0", "cause": "signal 9"}\n'
    )
    text = ask("top", path).stdout
    assert "finished · 1:01" in text
    assert "simulator-0 died: signal 9" in text


def test_ps_lists_living_runs_and_on_demand_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no run is alive" in ask("ps").stdout
    ended = make_run(tmp_path / "runs", "old-1")
    (ended / "summary.json").write_text('{"status": "stopped", "env_steps": 77}')
    with supervisor(tmp_path, {"status": Reply(ok=True, text="", data={"processes": [{}, {}]})}) as (path, _):
        monkeypatch.setattr(find, "living", lambda: [find.find(str(path))] if path.exists() else [])
        living = json.loads(ask("ps", "--json").stdout)["runs"]
        every = json.loads(ask("ps", "--all", "--json").stdout)["runs"]
        table = ask("ps", "--all").stdout
    assert [(row["run"], row["status"], row["processes"], row["env_steps"]) for row in living] == [
        ("cart-1", "running", 2, 250)
    ]
    assert {(row["run"], row["status"], row["env_steps"]) for row in every} == {
        ("cart-1", "running", 250),
        ("old-1", "stopped", 77),
    }
    assert "old-1" in table


def test_ps_leaves_out_columns_in_a_narrow_terminal_and_wraps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "humanoid-with-a-long-name-20261126-030525"
    deep = tmp_path / "a-folder-with-a-long-name" / "another-folder-with-a-long-name"
    ended = make_run(deep, name)
    (ended / "summary.json").write_text('{"status": "stopped", "env_steps": 77777777, "wall_time_s": 61.0}')
    monkeypatch.setattr(find, "living", lambda: [find.find(str(ended))])
    piped = ask("ps").stdout.splitlines()
    assert len(piped) == 2 and str(deep.relative_to(tmp_path)) in piped[1] and "processes" in piped[0]
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(os, "isatty", lambda descriptor: True)
    shown = ask("ps").stdout.splitlines()
    assert len(shown) == 2 and name in shown[1] and "77,777,777" in shown[1]
    assert "in" not in shown[0].split() and max(map(len, shown)) <= 80


# Files ----------------------------------------------------------------------------------------------------------------


def test_logs_of_one_process_and_of_all(tmp_path: Path) -> None:
    path = make_run(tmp_path, "cart-1")
    assert "cart-1 has no logs" in refused("logs", path)
    (path / "logs").mkdir()
    (path / "logs" / "trainer.log").write_text("".join(f"line {i}\n" for i in range(100)))
    (path / "logs" / "simulator-0.log").write_text("hello\nnot yet whole")
    assert ask("logs", path, "trainer", "-n", "2").stdout == "line 98\nline 99\n"
    assert ask("logs", path, "trainer", "-n", "0").stdout == ""
    assert ask("logs", path, "-n", "1", "-f").stdout == "simulator-0 | not yet whole\ntrainer     | line 99\n"
    assert "cart-1 has no process 'x'; choose one of simulator-0, trainer" in refused("logs", path, "x")


def test_long_logs_are_read_from_their_end(tmp_path: Path) -> None:
    path = make_run(tmp_path, "cart-1") / "logs"
    path.mkdir()
    (path / "trainer.log").write_text("".join(f"{i} {'x' * 500}\n" for i in range(10_000)))
    words = [line.split()[0] for line in ask("logs", path.parent, "trainer", "-n", "10").stdout.splitlines()]
    assert words[-1] == "9999"
    assert len(words) <= 10


def test_clean_says_what_it_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manage, "sweep_all", lambda: (["pong-1"], ["pong-2"]))
    assert json.loads(ask("clean", "--json").stdout) == {"shared_memory": ["pong-1"], "sockets": ["pong-2"]}
    said = ask("clean").stdout.splitlines()
    assert said == ["removed the shared memory of pong-1", "removed the sockets of pong-2"]


# Check ----------------------------------------------------------------------------------------------------------------


def test_check_begins_with_the_answer_and_shows_only_keys_that_are_set(
    topology: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    short = ask("check", topology, "simulators.count=2", "simulators.envs=4").stdout
    lines = short.splitlines()
    assert lines[0] == (
        "ok cart: a2c on CartPole-v1 to 1,000 steps, 1 learner with 8 environments and 128 steps per batch"
    )
    assert lines[1].startswith("environment observation float32[4]")
    assert lines[2].startswith("machine 3 processes on ")
    shown = [line.split()[0] for line in lines if line]
    assert {"total_steps", "env.id", "simulators.count", "simulators.envs"} <= {*shown}
    assert "optimizer.clip_norm" not in shown and "weights-0" not in shown
    assert any(line.startswith("chosen trainer.threads: 1, because") for line in lines)
    assert len(lines) < 30

    monkeypatch.setattr(check, "describe", lambda _: DESCRIPTION)
    whole = ask("check", topology, "--all").stdout
    assert whole.startswith("ok cart: ")
    assert {"optimizer.clip_norm", "weights-0", "simulator-0"} <= {
        line.split()[0] for line in whole.splitlines() if line
    }


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("{name: mlp}", "network mlp"),
        (
            "{name: mixed, images: [{start: 0, shape: [16, 16, 3], channels_last: true}]}",
            "network mixed, with convolutions for image [16, 16, 3]",
        ),
        (
            "{name: mixed, images: [{start: 0, shape: [16, 16, 3], channels_last: true}, "
            "{start: 768, shape: [9, 9, 1], channels_last: true}]}",
            "network mixed, with convolutions for images [16, 16, 3], [9, 9, 1]",
        ),
    ],
)
def test_check_names_the_network_and_the_images_that_it_sees(
    topology: Path, model: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "describe", lambda _: replace(DESCRIPTION, observation_shape=(849,)))
    line = ask("check", topology, f"model={model}").stdout.splitlines()[1]
    assert line == f"environment observation float32[849]; 2 discrete actions; {said}"


NODES = ["mode=sync", "learners.count=3", "nodes.count=2", "nodes.listen=10.0.0.1:5555"]


def test_check_assumes_nodes_with_gpus_where_this_machine_has_none(
    topology: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "describe", lambda _: DESCRIPTION)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    keys = [*NODES, "trainer.device=cuda"]
    result = ask("check", topology, *keys, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["nodes"] == {"node-0": [0, 2], "node-1": [1]}
    text = ask("check", topology, *keys).stdout
    assert (
        "and 1 GPU; learners of each node, on machines like this one with enough GPUs: node-0: 0, 2; node-1: 1\n"
        in text
    )


def test_check_tells_the_plan_also_where_learners_do_not_fit_on_nodes_like_this_machine(
    topology: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "describe", lambda _: DESCRIPTION)
    monkeypatch.setattr(check, "free_bytes", lambda: 1)
    result = ask("check", topology, *NODES, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["nodes"] is None
    assert "warning nodes like this machine are too small: learner 0 needs" in ask("check", topology, *NODES).stdout


@pytest.mark.nightly
def test_check_prints_the_plan(topology: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # the child that describes the environment starts in an empty folder
    result = ask("check", topology, "simulators.count=3", "--json")
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)
    assert [p["name"] for p in said["processes"] if p["role"] == "simulator"] == [f"simulator-{i}" for i in range(3)]
    assert said["bytes_total"] == sum(segment["bytes"] for segment in said["segments"])
    assert said["topology"]["total_steps"] == 1000 and said["mixing"] is None


@pytest.mark.nightly
def test_check_says_what_the_graph_of_learners_promises(topology: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    changes = ["mode=gossip", "learners.count=4"]
    said = json.loads(ask("check", topology, *changes, "--json").stdout)["mixing"]
    assert said == {
        "period": 1,
        "repeats": True,
        "in_degree": [1, 1],
        "connected_within": 1,
        "spectral_radius": pytest.approx(0.5**0.5),
        "doubly_stochastic": True,
    }
    text = ask("check", topology, *changes, "gossip.graph=exponential-varying").stdout
    assert (
        "each learner averages with 1 other(s), the graph repeats after 2 exchanges, all learners are connected within"
        in text
    )
    assert "to 0.000 of their size (spectral radius), exchanges of all learners at the same time keep the mean" in text
    assert "this undoes 20% of each optimizer step. gossip.age_corrected: true corrects for the age" in text
    for better in ("gossip.age_corrected=true", "gossip.max_staleness=0", "gossip.graph=none"):
        assert "undoes" not in ask("check", topology, *changes, better).stdout
    text = ask("check", topology, *changes, "gossip.graph=[[1],[0],[3],[2,0]]").stdout
    assert (
        "averages with 1 to 2 other(s), the graph is always the same, not all learners" in text
        and "change the mean" in text
    )


@pytest.mark.parametrize(
    "number, remedy",
    [
        (errno.ENOSPC, "free space on that disk, and try again"),
        (errno.EROFS, "make the folder writable, or use another folder"),
    ],
)
def test_a_disk_that_cannot_be_written_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    def fail() -> None:
        raise OSError(number, os.strerror(number), str(tmp_path / "x"))

    monkeypatch.setattr(manage, "sweep_all", fail)
    assert refused("clean", code=1) == f"{tmp_path / 'x'}: {os.strerror(number)}; {remedy}"
