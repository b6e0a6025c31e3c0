"""Engines start the nodes of whole runs: on this machine, and through a real sshd."""

from __future__ import annotations

import importlib.util
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.system import slurm
from tests.system.conftest import APART, PACED, Command, Start
from tests.system.launched import Launched, nodes_of
from tests.system.sshd import command_there, needs_sshd, sshd
from tests.waiting import free_port, within

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]


def test_the_engine_local_starts_the_nodes_of_a_run(launched: Start, temporary: Path) -> None:
    run = launched("catch", *APART, "total_steps=4000", "nodes.count=2", "--engine", "local")
    assert run.end() == 0, run.screen()
    assert {event["node"] for event in run.events("joined")} == {"node-0", "node-1"}
    assert "the run is over" in (run.run_dir / "nodes" / "node-0.log").read_text()
    assert run.leftovers() == []


def test_films_of_an_evaluator_on_a_node_are_in_the_folder_of_the_run(launched: Start, temporary: Path) -> None:
    pytest.importorskip("av", reason="pip install 'actorlearn[video]'")
    evaluator = ["evaluator.count=1", "evaluator.record=true", "evaluator.every_steps=null", "evaluator.episodes=3"]
    run = launched("catch", *APART, "total_steps=3000", "nodes.count=2", *evaluator, "--engine", "local")
    assert run.end() == 0, run.screen()
    (evaluated,) = run.events("evaluated")
    films = run.run_dir / "films" / f"{evaluated['env_steps']:012d}"
    assert {path.name for path in films.iterdir()} == {"games.json", "best.mp4", "median.mp4", "worst.mp4"}


def test_a_resumed_run_gets_new_nodes_from_its_engine(launched: Start, temporary: Path) -> None:
    words = ("total_steps=8000", "checkpoint.every_steps=40", "nodes.count=2", "--engine", "local")
    run = launched("catch", *APART, PACED, *words)
    run.wait_for(lambda: len({event["process"] for event in run.events("saved")}) == 2, "checkpoints of both")
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    run.full_speed()
    resumed = launched("resume", "--engine", "local", run_dir=run.run_dir)
    assert resumed.end() == 0, resumed.screen()
    assert {event["node"] for event in resumed.new_events("joined")} == {"node-0", "node-1"}
    assert (run.run_dir / "nodes" / "node-0.log").read_text().count("the run is over") == 2
    assert resumed.leftovers() == []


def test_nodes_of_this_machine_end_after_their_head_is_killed(
    launched: Start, temporary: Path, command: Command
) -> None:
    run = launched("catch", *APART, PACED, "total_steps=100_000_000", "nodes.count=2", "--engine", "local")
    run.wait_for(lambda: len(run.events("ready")) > 1, "both trainers")
    assert len(nodes_of(temporary)) > 1
    run.kill()
    assert within(60, lambda: nodes_of(temporary) == [] and list(temporary.iterdir()) == [])
    command("clean")  # what the head has left


def test_a_run_whose_nodes_cannot_start_ends_with_the_reason(launched: Start, temporary: Path) -> None:
    run = launched("catch", *APART, "nodes.count=2", "nodes.command=[/no/such/actorlearn]", "--engine", "local")
    assert run.end() == 1
    assert "ended before the run began: it has ended with exit status 127" in run.screen()
    assert run.leftovers() == []


@pytest.mark.slow
@needs_sshd
def test_the_engine_ssh_starts_nodes_that_end_with_their_connections(
    launched: Start, temporary: Path, environment: dict[str, str], command: Command, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    assert command("keys", "new", "--node", "a", "--node", "b", keys).returncode == 0
    with sshd(tmp_path) as options:
        words = [
            *("nodes.count=2", "nodes.hosts=[127.0.0.1,127.0.0.1]", f"nodes.listen=127.0.0.1:{free_port()}"),
            f"nodes.command=[{', '.join(command_there(environment))}]",
            f"nodes.options=[{', '.join(map(repr, options))}]",
            *("--engine", "ssh"),
        ]
        run = launched("catch", *APART, "total_steps=4000", *words, "--keys", str(keys))
        assert run.end() == 0, run.screen()
        assert {event["node"] for event in run.events("joined")} == {"a", "b"}
        killed = launched("catch", *APART, "total_steps=100_000_000", *words)
        killed.wait_for(lambda: len(killed.events("ready")) > 1, "both trainers")
        assert {event["node"] for event in killed.events("joined")} == {"node-0", "node-1"}, "the run made keys"
        assert stat.S_IMODE((killed.run_dir / "keys").stat().st_mode) == 0o700
        killed.kill()
        assert within(60, lambda: nodes_of(temporary) == [] and list(temporary.iterdir()) == [])
        command("clean")  # what the head has left


def machine_of(cluster: slurm.Slurm, run: Launched, node: str) -> str:
    """Return the machine on which Slurm runs a node, which is an element of the job array."""
    number = ["a", "b"].index(node)
    job = (run.run_dir / "nodes" / "slurm.job").read_text()
    return cluster.call("squeue", "-h", "-r", "-j", f"{job}_{number}", "-o", "%N").strip()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_node_of_a_slurm_job_array_restarts_elsewhere_after_its_machine_dies(
    cluster: slurm.Slurm, launched: Start, temporary: Path, command: Command, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    assert command("keys", "new", "--node", "a", "--node", "b", keys).returncode == 0
    run = launched(
        *("catch", *APART, PACED, "total_steps=100_000_000", "checkpoint.every_steps=40"),
        *(
            "nodes.count=2",
            "nodes.lease_s=5",
            f"nodes.listen=127.0.0.1:{free_port()}",
            "nodes.options=[--partition=all]",
        ),
        *("--keys", str(keys), "--engine", "slurm"),
    )
    run.wait_for(lambda: len(run.events("saved", "trainer-1")) > 1, "checkpoint of trainer-1")
    assert "#SBATCH --partition=all" in (run.run_dir / "nodes" / "slurm.sh").read_text()
    node = str(run.events("spawned", "trainer-1")[-1]["node"])
    machine = machine_of(cluster, run, node)
    cluster.die(machine)
    run.wait_for_event("restarted", "trainer-1", 1)
    assert run.events("lost")[-1]["node"] == node and run.events("died", "trainer-0") == []
    run.wait_for(lambda: len(run.events("joined")) == 3, "the node on another machine")
    assert machine_of(cluster, run, node) not in ("", machine)
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    assert within(30, lambda: cluster.jobs() == "" and nodes_of(temporary) == [])
    (left,) = temporary.iterdir()  # of the machine that has died
    shutil.rmtree(left)
    command("clean")


@pytest.mark.slow
def test_nodes_are_job_steps_of_the_slurm_allocation_of_their_head(
    cluster: slurm.Slurm, launched: Start, temporary: Path, command: Command, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    assert command("keys", "new", "--node", "a", "--node", "b", keys).returncode == 0
    run = launched(
        *("catch", *APART, "total_steps=4000", "nodes.count=2", f"nodes.listen=127.0.0.1:{free_port()}"),
        *("--keys", str(keys), "--engine", "slurm"),
        by=["salloc", "--quiet", "--nodes=2", "--no-kill"],
    )
    assert run.end() == 0, run.screen()
    assert {event["node"] for event in run.events("joined")} == {"a", "b"}
    assert within(30, lambda: cluster.jobs() == "")


@pytest.mark.slow
@pytest.mark.parametrize("inside", [True, False], ids=["the allocation with the head", "the nodes"])
def test_scancel_leaves_nothing_of_a_run(
    inside: bool, cluster: slurm.Slurm, launched: Start, temporary: Path, command: Command, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    assert command("keys", "new", "--node", "a", "--node", "b", keys).returncode == 0
    run = launched(
        *("catch", *APART, PACED, "total_steps=100_000_000", "nodes.count=2", "nodes.lease_s=5"),
        *(f"nodes.listen=127.0.0.1:{free_port()}", "--keys", str(keys), "--engine", "slurm"),
        by=["salloc", "--quiet", "--nodes=2", "--no-kill"] if inside else [],
    )
    run.wait_for(lambda: len(run.events("ready")) > 3, "trainers and simulators")
    assert cluster.call("scancel", "--user=root") == ""
    assert run.end() != 0, run.screen()
    assert "all nodes have ended for good" in run.summary()["error"]
    assert within(60, lambda: cluster.jobs() == "" and nodes_of(temporary) == [])
    assert run.leftovers() == [] and list(temporary.iterdir()) == []


RAY_CLUSTER = """
import sys
from ray.cluster_utils import Cluster
own = {"num_cpus": 0, "include_dashboard": False, "temp_dir": sys.argv[1]}
made = Cluster(initialize_head=True, head_node_args=own)
machines = [made.add_node(num_cpus=1) for _ in range(3)]
pids = {machine.all_processes["raylet"][0].process.pid: machine for machine in machines}
print(made.address, *pids, flush=True)
for line in sys.stdin:
    made.remove_node(pids[int(line)], allow_graceful=False)
made.shutdown()
"""
"""A cluster of a head and three machines with a CPU each; it ends with its input, a line of which kills a machine."""


@pytest.fixture
def ray_machines(environment: dict[str, str], temporary: Path) -> Iterator[tuple[set[int], Callable[[int], None]]]:
    """A real Ray; yields the pids of its machines' raylets, and a function that kills one."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray cannot be tried without the package: pip install 'actorlearn[ray]'")
    (temporary / "ray").mkdir()  # where Ray writes its address
    environment["RAY_worker_niceness"] = "0"  # Ray's default of 15 is too slow on a busy machine
    files = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # a short path, because a socket's may have 107 bytes
    with (temporary.parent / "ray.out").open("w") as out:
        cluster = subprocess.Popen(
            [sys.executable, "-c", RAY_CLUSTER, files],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=out,
            text=True,
            start_new_session=True,
        )
    assert cluster.stdin is not None and cluster.stdout is not None
    address, *pids = cluster.stdout.readline().split() or pytest.fail((temporary.parent / "ray.out").read_text())
    environment["RAY_ADDRESS"] = address

    def kill(pid: int) -> None:
        assert cluster.stdin is not None
        cluster.stdin.write(f"{pid}\n")
        cluster.stdin.flush()

    yield {int(pid) for pid in pids}, kill
    cluster.communicate(timeout=60)
    shutil.rmtree(files)
    shutil.rmtree(temporary / "ray")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_node_that_is_a_ray_actor_restarts_elsewhere_after_its_machine_dies(
    ray_machines: tuple[set[int], Callable[[int], None]],
    launched: Start,
    temporary: Path,
    command: Command,
    tmp_path: Path,
) -> None:
    raylets, kill = ray_machines
    keys = tmp_path / "keys"
    assert command("keys", "new", "--node", "a", "--node", "b", keys).returncode == 0
    words = [
        *(*APART, PACED, "total_steps=100_000_000", "checkpoint.every_steps=40", "nodes.count=2", "nodes.lease_s=5"),
        *(f"nodes.listen=127.0.0.1:{free_port()}", "nodes.options=[CPU=1]", "--keys", str(keys), "--engine", "ray"),
    ]
    run = launched("catch", *words)
    run.wait_for(lambda: len(run.events("saved", "trainer-1")) > 1, "checkpoint of trainer-1")

    def machine_of(process: str) -> int:
        trainer = psutil.Process(run.events("spawned", process)[-1]["pid"])
        environment = trainer.environ()
        assert environment["CUDA_VISIBLE_DEVICES"] == ""
        (machine,) = raylets & {parent.pid for parent in trainer.parents()}
        return machine

    machine = machine_of("trainer-1")
    assert machine_of("trainer-0") != machine
    node = run.events("spawned", "trainer-1")[-1]["node"]
    kill(machine)
    run.wait_for_event("restarted", "trainer-1", 1)
    assert run.events("lost")[-1]["node"] == node and run.events("died", "trainer-0") == []
    run.wait_for(lambda: len(run.events("joined")) == 3, "the node on another machine")
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    assert within(30, lambda: nodes_of(temporary) == [])
    killed = launched("catch", *words)
    killed.wait_for(lambda: len(killed.events("ready")) > 1, "both trainers")
    killed.kill()
    assert within(60, lambda: nodes_of(temporary) == [])
    command("clean")  # what the head has left
