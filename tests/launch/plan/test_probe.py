"""The child that describes an environment ends at a signal and at its time limit, without a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch.plan import probe
from launch.spawning import guardian
from launch.topology.load import TopologyError, parse
from tests.sizes import ROOT
from tests.waiting import within

SLOW = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(60)\n"


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an environment that takes a minute to import, as slow:Env."""
    (tmp_path / "slow.py").write_text(SLOW)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{tmp_path}")
    return tmp_path


def test_an_environment_that_takes_too_long_to_make_is_refused_in_one_line(
    slow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guardian, "STACK_S", 0.1)
    with pytest.raises(
        TopologyError, match=r"env.id 'slow:Env': trying the environment and the network takes longer than 2 s, "
    ) as caught:
        probe.describe(parse("{env: {id: 'slow:Env'}, supervision: {start_s: 2}}"))
    assert "\n" not in str(caught.value)


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", [["check"], ["run", "--run-dir", "new"]], ids=["check", "run"])
def test_a_signal_while_the_environment_is_tried_ends_the_child_and_leaves_no_file(
    command: list[str], number: int, slow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (slow / "slow.yaml").write_text("env: {id: 'slow:Env'}\n")
    (slow / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(slow / "tmp"))
    # The child must receive the signals even if a shell or nohup started the tests with these signals ignored.
    heard = "signal.signal(signal.SIGINT, signal.SIG_DFL); signal.signal(signal.SIGHUP, signal.SIG_DFL)"
    code = f"import os, signal, sys; {heard}; os.execv(sys.argv[1], sys.argv[1:])"
    words = [sys.executable, "-c", code, sys.executable, "-m", "launch", *command, "slow.yaml"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        deadline_s = time.monotonic() + 50
        while not (pid := (slow / "pid").read_text() if (slow / "pid").exists() else ""):
            assert time.monotonic() < deadline_s and run.poll() is None
            time.sleep(0.05)
        os.kill(run.pid, number)
        _, stderr = run.communicate(timeout=10)
    assert run.returncode == 128 + number, stderr
    interrupted = command[0] == "run" and number == signal.SIGINT  # after Ctrl-C a user reads the message
    assert stderr == ("actorlearn: interrupted before the run began; nothing was saved\n" if interrupted else "")
    assert within(5.0, lambda: not Path(f"/proc/{pid}").exists())
    assert [*(slow / "tmp").iterdir()] == []
    assert not (slow / "new").exists()


def test_a_missing_gpu_is_refused_only_where_this_machine_would_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    text = "{env: {id: CartPole-v1}, algorithm: {name: ppo}, trainer: {device: cuda}}"
    with pytest.raises(TopologyError, match="trainer.device: there is no device 'cuda'"):
        probe.describe(parse(text))
    on_nodes = ["mode=sync", "learners.count=2", "nodes.count=2", "nodes.listen=10.0.0.1:5555"]
    assert probe.describe(parse(text, on_nodes)).weights == probe.describe(parse(text), here=False).weights > 0
