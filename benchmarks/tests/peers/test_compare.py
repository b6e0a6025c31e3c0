"""Programs of others: where they are, how they are installed, and what is recorded of their versions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from actorlearn.algorithms.specs.ppo import PPOSettings
from benchmarks.peers.compare import HERE, PEERS, REQUIREMENTS, environment, packages
from benchmarks.peers.works import OURS, on_pong, where_fast
from benchmarks.request import shipped
from launch.errors import FailedError
from launch.topology.load import load


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def installed(name: str, requirements: bytes) -> Path:
    """Make those files of a peer's environment, as install.sh leaves them, that the code reads."""
    folder = PEERS / name
    folder.mkdir(parents=True)
    (folder / "requirements.txt").write_bytes(requirements)
    return folder.absolute() / "bin" / "python"


def test_a_peer_that_is_not_installed_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(FailedError, match=rf"\.peers/sb3 does not have.*sh {HERE / 'install.sh'} sb3$"):
        environment("sb3")
    assert not PEERS.exists(), "a suite installs nothing"


def test_a_peer_of_other_versions_is_refused() -> None:
    wanted = (REQUIREMENTS / "sb3.txt").read_bytes()
    python = installed("sb3", wanted)
    assert environment("sb3") == python
    installed("loops", wanted)
    with pytest.raises(FailedError, match=r"\.peers/loops has other versions than .*loops\.txt"):
        environment("loops")


def test_what_is_recorded_are_the_versions_that_are_there() -> None:
    assert any(line.startswith("msgspec") for line in packages(Path(sys.executable)))
    with pytest.raises(FailedError, match="No module named pip"):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", "bare"], check=True)
        packages(Path("bare/bin/python"))


def test_the_script_says_how_it_is_called_and_which_peers_there_are() -> None:
    def call(*names: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", HERE / "install.sh", *names], capture_output=True, text=True, check=False)

    assert (call().returncode, "install.sh sb3 loops" in call().stdout) == (2, True)
    known = " ".join(sorted(file.stem for file in REQUIREMENTS.iterdir()))
    assert call("nobody").stderr == f"nobody: no such peer; there are {known}\n"
    assert not PEERS.exists()


def test_cases_in_bf16_are_measured_where_the_processor_has_it_alone() -> None:
    theirs, slow, quick = on_pong(2), frozenset({"avx2"}), frozenset({"avx512_bf16"})
    assert where_fast(theirs, quick) == theirs and where_fast(OURS, quick) == OURS
    left = where_fast(OURS, slow)
    assert len(left) == 4 and not any("bf16" in name or "auto" in name for name in left)
    assert {peer.against for peer in where_fast(theirs, slow).values()} <= set(left), "each has a case of ours"


@pytest.mark.parametrize("case", [case for case in OURS if "PPO" in case])
def test_a_case_of_ours_does_what_its_name_says(case: str) -> None:
    said = [int(number) for number in re.findall(r"\d+", case.replace("fp32", ""))]
    topology = load(shipped("pong.yaml"), OURS[case])
    algorithm, simulators = topology.algorithm, topology.simulators
    assert isinstance(algorithm, PPOSettings)
    lag = [simulators.blocks - 1] if "lag" in case else []
    assert said == [simulators.environments, algorithm.horizon, algorithm.epochs, algorithm.minibatches, *lag]
