"""A node that is started by a shell: it gets its key, ends however its head ends, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from launch.engines.shells import SCRIPT, ShellEngine, shell, shells_live
from launch.engines.specs import NodeCommand, node_command
from launch.topology.schema import NodesSection
from tests.launch.engines.ends import gone_within
from tests.runaways import lives
from tests.waiting import within

KEY = "name a\npublic 00\nsecret 11\nhead 22\n"
STAND_IN = """
import os, signal, sys, time
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
told = open(os.environ["TOLD"], "w")
print(os.getpid(), words["--folder"], oct(os.stat(words["--key"]).st_mode & 0o777), file=told)
told.write(open(words["--key"]).read())
told.close()
if os.environ.get("HOW") == "fail":
    sys.exit("no such head")
if os.environ.get("HOW") == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(60)
"""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeCommand:
    """A stand-in for a node, which writes its arguments and its key to a file named told."""
    (tmp_path / "key").write_text(KEY)
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return NodeCommand("a", tmp_path / "key", (sys.executable, "-c", STAND_IN, "--join", "h:1"))


def told(tmp_path: Path) -> tuple[int, Path, str, str]:
    """The node's pid, its folder, the mode and the content of its key file."""
    file = tmp_path / "told"
    assert within(20, lambda: file.exists() and file.read_text().endswith("head 22\n"))
    first, _, key = file.read_text().partition("\n")
    pid, folder, mode = first.split()
    return int(pid), Path(folder), mode, key


def test_a_node_has_its_key_in_a_file_for_its_user_alone_and_leaves_nothing(node: NodeCommand, tmp_path: Path) -> None:
    engine = ShellEngine(tmp_path / "run", NodesSection())
    engine.start([node])
    pid, folder, mode, key = told(tmp_path)
    assert (mode, key) == ("0o600", KEY)
    assert folder.stat().st_mode & 0o777 == 0o700 and folder.parent == tmp_path / "tmp"
    assert b"secret" not in Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    assert engine.gone() == {}
    engine.close()
    assert not lives(pid) and not folder.exists()


def test_a_node_ends_with_a_head_that_is_killed(node: NodeCommand, tmp_path: Path) -> None:
    head = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import subprocess, sys, time\n"
            f"p = subprocess.Popen({shell(node)!r}, stdin=subprocess.PIPE, start_new_session=True)\n"
            f"p.stdin.write({KEY!r}.encode() + b'\\n'); p.stdin.flush(); time.sleep(60)",
        ]
    )
    pid, folder, _, _ = told(tmp_path)
    head.kill()
    head.wait()
    assert within(10, lambda: not lives(pid)) and within(10, lambda: not folder.exists())


def test_a_shell_is_known_to_live_after_its_head_until_its_node_has_ended(node: NodeCommand, tmp_path: Path) -> None:
    starts = (
        "import sys; from pathlib import Path; from launch.engines.shells import ShellEngine;"
        "from launch.engines.specs import NodeCommand; from launch.topology.schema import NodesSection;"
        "path = Path(sys.argv[1]);"
        "node = NodeCommand('a', path / 'key', tuple(sys.argv[2:]));"
        "ShellEngine(path / 'run', NodesSection()).start([node]); sys.stdin.read()"
    )
    head = subprocess.Popen([sys.executable, "-c", starts, str(tmp_path), *node.words], stdin=subprocess.PIPE)
    pid, _, _, _ = told(tmp_path)
    os.kill(pid, signal.SIGSTOP)  # so that it cannot end before the test looks for it
    # A process that has both signals pending takes SIGTERM, the lower number, first.
    assert within(20, lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    head.kill()
    head.communicate()
    assert shells_live(tmp_path / "run")
    os.kill(pid, signal.SIGCONT)
    assert within(20, lambda: not shells_live(tmp_path / "run")) and not lives(pid)


def test_a_node_that_ends_is_reported_with_its_last_line_of_output(
    node: NodeCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOW", "fail")
    engine = ShellEngine(tmp_path / "run", NodesSection())
    engine.start([node])
    assert gone_within(20, engine) == {"a": "it has ended with exit status 1: no such head (nodes/a.log)"}
    assert engine.gone() == {}
    engine.close()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_node_whose_command_does_not_exist_is_reported(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    engine = ShellEngine(tmp_path / "run", NodesSection())
    engine.start([node_command("a", tmp_path / "key", "h:1", ["/no/such/actorlearn"])])
    gone = gone_within(20, engine)
    assert "exit status 127" in gone["a"] and "/no/such/actorlearn" in gone["a"]
    engine.close()


@pytest.mark.parametrize("signal_name", ["TERM", "HUP", "INT"])
def test_a_shell_that_is_signalled_ends_its_node(node: NodeCommand, tmp_path: Path, signal_name: str) -> None:
    # Tests in the background inherit ignored signals (`nohup`, `&`), for which no shell can set a trap.
    started = subprocess.Popen(["env", "--default-signal", *shell(node)], stdin=subprocess.PIPE)
    assert started.stdin is not None
    started.stdin.write(KEY.encode() + b"\n")
    started.stdin.flush()
    pid, folder, _, _ = told(tmp_path)
    subprocess.run(["kill", f"-{signal_name}", str(started.pid)], check=True)
    started.wait(20)
    started.stdin.close()
    assert not lives(pid) and not folder.exists()


def test_a_shell_that_is_killed_with_its_head_leaves_no_key(node: NodeCommand, tmp_path: Path) -> None:
    started = subprocess.Popen(shell(node), stdin=subprocess.PIPE)
    assert started.stdin is not None
    started.stdin.write(KEY.encode() + b"\n")
    started.stdin.flush()
    pid, folder, _, _ = told(tmp_path)
    started.kill()
    started.stdin.close()
    started.wait(20)
    assert within(10, lambda: not lives(pid) and not folder.exists())


def test_a_shell_whose_node_ends_at_once_with_its_head_leaves_no_process() -> None:
    """Formerly one of three left a sleep of 20 s, because the signal to end came between its fork and its exec."""
    for _ in range(20):
        started = subprocess.Popen(
            ["sh", "-c", SCRIPT, "actorlearn", "sleep", "60"], stdin=subprocess.PIPE, start_new_session=True
        )
        assert started.stdin is not None
        started.stdin.write(KEY.encode() + b"\n")
        started.stdin.close()
        started.wait(20)
        assert within(5, lambda shell=started: not in_session(shell.pid))  # its processes may take a moment to end


def in_session(session: int) -> list[psutil.Process]:
    """Living processes of a session."""
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def test_the_script_is_posix() -> None:
    subprocess.run(["sh", "-n", "-c", SCRIPT], check=True)
    assert "'" in SCRIPT  # so it must be quoted as a whole for ssh
