"""The engine ``slurm`` with stand-ins for Slurm's commands; tests/system/test_engines.py has a real Slurm."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from launch.engines import slurm
from launch.engines.slurm import SlurmJobs, SlurmSteps, open_slurm, write_script
from launch.engines.specs import NodeCommand, node_command
from launch.errors import RunError
from launch.topology.schema import NodesSection
from tests.launch.engines.ends import gone_within
from tests.waiting import within

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install stand-ins for commands, each a line of shell; they append their arguments to a file named calls."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)

    def have(**commands: str) -> None:
        for name, line in commands.items():
            (folder / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/calls\n{line}\n')
            (folder / name).chmod(0o755)

    return have


def nodes_of(folder: Path, *names: str) -> list[NodeCommand]:
    return [node_command(name, folder / f"{name}.key", "10.0.0.1:5555", ["/opt/a b/actorlearn"]) for name in names]


def test_each_element_of_the_array_is_a_node_with_a_key_of_its_own(tmp_path: Path) -> None:
    run_dir = tmp_path / "100% run"
    script = tmp_path / "slurm.sh"
    script.write_text(write_script(run_dir, nodes_of(tmp_path / "my keys", "a", "b", "c"), ["--time=1:00:00"]))
    lines = script.read_text().splitlines()
    assert lines[0] == "#!/bin/sh" and "#SBATCH --array=0-2" in lines and "#SBATCH --time=1:00:00" in lines
    assert "#SBATCH --job-name=actorlearn-100--run" in lines
    assert f'#SBATCH --output="{tmp_path}/100%% run/nodes/slurm-%a.log"' in lines
    shown = script.read_text().replace("exec ", "printf '%s|' ")
    for index, name in enumerate("abc"):
        environment = {**os.environ, "SLURM_ARRAY_TASK_ID": str(index)}
        called = subprocess.check_output(["sh", "-c", shown], env=environment, text=True)
        key = tmp_path / "my keys" / f"{name}.key"
        assert called == f"/opt/a b/actorlearn|node|--join|10.0.0.1:5555|--key|{key}|"


def test_a_job_is_submitted_followed_and_cancelled(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(sbatch="echo '7;here'", squeue="echo 1", scancel="")
    monkeypatch.setattr(slurm, "ASK_EVERY_S", 0.0)
    monkeypatch.setattr(slurm, "LEAVE_S", 0.0)
    engine = open_slurm(tmp_path / "run", NodesSection())
    assert isinstance(engine, SlurmJobs)
    engine.start(nodes_of(tmp_path, "a", "b"))
    gone = gone_within(10, engine)
    assert gone == {"a": "its task of the array job 7 is no longer in Slurm's queue (nodes/slurm-0.log)"}
    engine.close()
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == f"sbatch --parsable {tmp_path}/run/nodes/slurm.sh" and calls[-1] == "scancel 7"
    assert not (tmp_path / "run" / "nodes" / "slurm.job").exists()


def test_a_controller_that_does_not_answer_says_nothing_about_nodes(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(sbatch="echo 7", squeue="echo 'Unable to contact slurm controller' >&2; exit 1", scancel="")
    monkeypatch.setattr(slurm, "ASK_EVERY_S", 0.0)
    engine = SlurmJobs(tmp_path / "run", NodesSection())
    engine.start(nodes_of(tmp_path, "a"))
    assert not within(1, lambda: engine.gone() != {})
    install(squeue="echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert gone_within(10, engine).keys() == {"a"}
    engine.close()


def test_the_job_of_an_earlier_life_is_cancelled_first(install: Install, tmp_path: Path) -> None:
    install(sbatch="echo 8", squeue="", scancel="")
    (tmp_path / "run" / "nodes").mkdir(parents=True)
    (tmp_path / "run" / "nodes" / "slurm.job").write_text("7")
    engine = SlurmJobs(tmp_path / "run", NodesSection())
    engine.start(nodes_of(tmp_path, "a"))
    assert (tmp_path / "calls").read_text().splitlines()[0] == "scancel 7"
    engine.close()


def test_a_job_is_followed_and_cancelled_after_its_folder_was_removed(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(sbatch="echo 7", squeue="echo 1", scancel="")
    monkeypatch.setattr(slurm, "ASK_EVERY_S", 0.0)
    monkeypatch.setattr(slurm, "LEAVE_S", 0.0)
    engine = SlurmJobs(tmp_path / "run", NodesSection())
    engine.start(nodes_of(tmp_path, "a", "b"))
    shutil.rmtree(tmp_path / "run")
    assert gone_within(10, engine).keys() == {"a"}
    engine.close()
    assert (tmp_path / "calls").read_text().splitlines()[-1] == "scancel 7"


def test_a_job_whose_number_cannot_be_written_is_cancelled(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = tmp_path / "run" / "nodes" / "slurm.job"
    install(sbatch=f"mkdir {job}; echo 7", squeue="", scancel="")  # the file cannot be written, as on a full disk
    monkeypatch.setattr(slurm, "LEAVE_S", 0.0)
    engine = SlurmJobs(tmp_path / "run", NodesSection())
    with pytest.raises(OSError, match="slurm.job"):
        engine.start(nodes_of(tmp_path, "a"))
    job.rmdir()
    engine.close()
    assert (tmp_path / "calls").read_text().splitlines()[-1] == "scancel 7"


def test_a_refusal_by_slurm_is_reported_with_the_name_of_the_script(install: Install, tmp_path: Path) -> None:
    install(sbatch="echo 'sbatch: error: invalid partition specified: gpus' >&2; exit 1", squeue="", scancel="")
    engine = SlurmJobs(tmp_path / "run", NodesSection())
    with pytest.raises(
        RunError, match=r"invalid partition specified: gpus \(nodes/slurm.sh; nodes.options adds options"
    ):
        engine.start(nodes_of(tmp_path, "a"))
    engine.close()


def test_nodes_that_slurm_cannot_start_are_refused_before_anything_is_made(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(RunError, match="the command sbatch is not installed; use a machine that has Slurm's commands"):
        open_slurm(tmp_path / "run", NodesSection())
    install(sbatch="", squeue="", scancel="", srun="")
    with pytest.raises(RunError, match="nodes.hosts: 'n1': outside an allocation, Slurm chooses the machines"):
        open_slurm(tmp_path / "run", NodesSection(hosts=("n1",)))
    with pytest.raises(RunError, match="nodes.options: 'gpu' is not an option of Slurm; write each"):
        open_slurm(tmp_path / "run", NodesSection(options=("gpu",)))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    assert isinstance(open_slurm(tmp_path / "run", NodesSection(count=2)), SlurmSteps)
    with pytest.raises(RunError, match="nodes.hosts: 1 machines for nodes.count = 2; name one for each node"):
        open_slurm(tmp_path / "run", NodesSection(count=2, hosts=("n1",)))
    with pytest.raises(RunError, match="nodes.count: 4; each node needs its own machine, and this allocation has 2"):
        open_slurm(tmp_path / "run", NodesSection(count=4))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("hosts", "where"), [((), "--relative=0 "), (("n3",), "--nodelist=n3 ")])
def test_steps_are_on_the_machines_of_the_allocation_that_are_named(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: tuple[str, ...], where: str
) -> None:
    install(srun="cat > /dev/null")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    (tmp_path / "a.key").write_text("a key\n")
    engine = open_slurm(tmp_path / "run", NodesSection(hosts=hosts))
    engine.start(nodes_of(tmp_path, "a"))
    engine.close()
    assert f"srun --nodes=1 --ntasks=1 {where}" in (tmp_path / "calls").read_text()
