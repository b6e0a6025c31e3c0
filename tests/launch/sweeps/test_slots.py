"""Slots of a sweep: how many runs it starts at once, their hosts and GPUs, and engines that it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from actorlearn.wire.keys import make_keys
from launch.engines.specs import ENGINES
from launch.errors import RunError
from launch.machine.cores import Cores
from launch.plan.planning import plan
from launch.plan.probe import describe
from launch.sweeps.axes import Values
from launch.sweeps.file import Sweep, read
from launch.sweeps.history import Started
from launch.sweeps.slots import Room, Slot, Slots, count_at_once, find_slots, here, taken_by, with_simulators
from launch.topology.load import literal, load
from tests.launch.described import DESCRIPTION
from tests.system.environments import PACED_VARIABLE


def deal(slots: Slots, runs: int, left_out: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the hosts of this number of runs, started one after another; fewer if there are fewer slots."""
    living: list[Started] = []
    while len(living) < runs and (slot := slots.free(living, left_out)):
        living.append(Started(trial=len(living), seed=1, hosts=slot.hosts, gpu=slot.gpu))
    return [started.hosts for started in living]


def slots_of(*hosts: str, at_once: int | None = None, each: int = 1) -> Slots:
    return Slots(len(hosts) // each if at_once is None else at_once, "", hosts=hosts, hosts_each=each)


def test_a_host_has_as_many_runs_as_the_list_contains_it() -> None:
    assert deal(slots_of("a", "b", "a"), 9) == [("a",), ("b",), ("a",)]
    assert deal(slots_of("a", "a", "a", "b"), 9) == [("a",), ("b",), ("a",), ("a",)]


def test_a_host_whose_run_has_ended_is_given_to_the_next() -> None:
    slots = slots_of("a", "b", "c")
    living = [Started(trial=0, seed=1, hosts=("a",)), Started(trial=2, seed=1, hosts=("c",))]
    assert slots.free(living) == Slot(hosts=("b",))
    assert slots.free([*living, Started(trial=1, seed=1, hosts=("b",))]) is None


def test_a_living_run_on_a_host_that_is_no_longer_listed_occupies_only_a_slot() -> None:
    living = [Started(trial=0, seed=1, hosts=("gone",))]
    assert slots_of("a", "b").free(living) == Slot(hosts=("a",))
    assert slots_of("a").free(living) is None, "as many runs as slots are alive"


def test_at_once_divides_the_runs_evenly_between_the_hosts() -> None:
    assert deal(slots_of("a", "b", "c", at_once=2), 9) == [("a",), ("b",)]
    assert deal(slots_of("a", "b", at_once=4), 9) == [("a",), ("b",), ("a",), ("b",)]


def test_a_host_that_is_left_out_gets_no_run_and_the_others_only_their_share() -> None:
    assert deal(slots_of("a", "b", "c"), 9, left_out=("b",)) == [("a",), ("c",)]
    assert deal(slots_of("a", "b", at_once=4), 9, left_out=("a",)) == [("b",), ("b",)]
    assert deal(slots_of("a"), 9, left_out=("a",)) == []


def test_a_run_of_several_nodes_has_a_host_for_each() -> None:
    assert deal(slots_of("a", "b", "c", "d", "e", each=2), 9) == [("a", "b"), ("c", "d")]
    assert deal(slots_of("a", "b", "c", each=2), 9, left_out=("a", "b")) == [], "one is not enough"


def test_runs_get_the_gpus_in_turn() -> None:
    slots = Slots(3, "", gpus=("0", "1"))
    assert slots.free([Started(trial=0, seed=1, gpu="0")]) == Slot(gpu="1")
    assert slots.free([]) == Slot(gpu="0")


# Which slots a sweep has ------------------------------------------------------------------------------------------


def find(tmp_path: Path, nodes: str, engine: str | None, keys: Path | None = None, at_once: str = "null") -> Slots:
    """The slots of a sweep whose topology has these nodes."""
    (tmp_path / "cart.yaml").write_text("env: {id: CartPole-v1}\n")
    file = tmp_path / "rates.yaml"
    file.write_text(f"topology: cart.yaml\noverrides: {{nodes: {{{nodes}}}}}\nat_once: {at_once}\n")
    return find_slots(read(file), tmp_path, None if engine is None else ENGINES.spec(engine), keys)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_keys(tmp_path / "keys", ["a"])
    return tmp_path / "keys"


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command ssh, which is not called."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.mark.usefixtures("ssh")
def test_with_ssh_there_are_as_many_slots_as_hosts(tmp_path: Path, keys: Path) -> None:
    slots = find(tmp_path, "hosts: [big1, big2, big1], listen: '10.0.0.1:0'", "ssh", keys)
    assert (slots.at_once, slots.why) == (3, "3 hosts in nodes.hosts, of which a run takes 1")
    assert (slots.hosts, slots.words) == (("big1", "big2", "big1"), ["--engine", "ssh", "--keys", str(keys)])
    assert find(tmp_path, "hosts: [big1], listen: '10.0.0.1:5555'", "ssh", keys).at_once == 1
    assert find(tmp_path, "hosts: [big1], listen: '10.0.0.1:0'", "ssh", keys, at_once="4").at_once == 4


def test_slots_of_the_local_engine_have_no_hosts(tmp_path: Path) -> None:
    slots = find(tmp_path, "listen: '127.0.0.1:0'", "local", at_once="2")
    assert slots == Slots(2, "set by at_once", words=["--engine", "local"])


@pytest.mark.usefixtures("ssh")
@pytest.mark.parametrize(
    ("nodes", "engine", "has_keys", "said"),
    [
        ("listen: '127.0.0.1:0'", None, False, "a sweep starts only by an engine; name one with"),
        ("count: 2", None, False, "a sweep starts only by an engine; name one with"),
        (
            "hosts: [big1]",
            "ssh",
            True,
            "--engine ssh: an engine starts nodes, and this topology has none; write nodes.listen",
        ),
        ("count: 1, listen: '10.0.0.1:0'", "ssh", True, "nodes.hosts: 0 hosts for nodes.count = 1"),
        ("hosts: [big1], listen: '0.0.0.0:0'", "ssh", True, "an engine gives nodes this address"),
        ("hosts: [-v], listen: '10.0.0.1:0'", "ssh", True, "ssh would read this name as an option"),
        ("hosts: [b1, b2], listen: '10.0.0.1:5555'", "ssh", True, "nodes.listen: 10.0.0.1:5555: the heads of 2 runs"),
        ("hosts: [b1, b2], listen: '10.0.0.1:5555'", "ssh", True, "ports; write 10.0.0.1:0, with which each takes"),
        ("count: 3, hosts: [b1, b2], listen: '10.0.0.1:0'", "ssh", True, "2 hosts are fewer than nodes.count, 3"),
        ("count: 2, hosts: [b1, b2], listen: '10.0.0.1:0'", "ssh", True, "has the keys of 1 nodes, and nodes.count is"),
        ("listen: '10.0.0.1:0'", "slurm", True, "--engine slurm: the command"),
    ],
)
def test_nodes_and_engines_that_could_not_start_a_run_are_refused(
    tmp_path: Path, keys: Path, nodes: str, engine: str | None, has_keys: bool, said: str
) -> None:
    with pytest.raises(RunError) as refused:
        find(tmp_path, nodes, engine, keys if has_keys else None)
    assert said in str(refused.value)


def test_the_sweep_file_must_say_how_many_runs_a_cluster_takes_at_once(
    tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("sbatch", "squeue", "scancel"):
        (tmp_path / "bin" / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(RunError, match="at_once is null, but this machine cannot find out how many"):
        find(tmp_path, "listen: '10.0.0.1:0'", "slurm", keys)
    assert find(tmp_path, "listen: '10.0.0.1:0'", "slurm", keys, at_once="7").at_once == 7
    with pytest.raises(RunError, match=r"'b1': outside an allocation, Slurm chooses the machines; remove nodes.hosts"):
        find(tmp_path, "listen: '10.0.0.1:0', hosts: [b1]", "slurm", keys, at_once="7")


GIB = 1 << 30
MACHINE = Room(cores=8, memory_bytes=16 * GIB, shm_bytes=4 * GIB, gpus=2)


def test_the_scarcest_resource_limits_the_runs_at_once() -> None:
    small = Room(cores=2, memory_bytes=GIB, shm_bytes=GIB >> 3, gpus=0)
    assert count_at_once(small, MACHINE) == (4, "8 cores, of which a run takes 2")
    hungry = Room(cores=1, memory_bytes=6 * GIB, shm_bytes=GIB >> 3, gpus=0)
    assert count_at_once(hungry, MACHINE) == (2, "16.0 GiB of memory, of which a run takes about 6.0")
    replays = Room(cores=1, memory_bytes=GIB, shm_bytes=GIB + 1, gpus=0)
    assert count_at_once(replays, MACHINE) == (3, "4.0 GiB of shared memory, of which a run takes 1.00")
    fast = Room(cores=1, memory_bytes=GIB, shm_bytes=GIB >> 3, gpus=1)
    assert count_at_once(fast, MACHINE) == (2, "2 GPUs, of which a run takes 1")


def test_there_is_room_for_one_run_whatever_it_takes() -> None:
    assert count_at_once(Room(cores=64, memory_bytes=GIB, shm_bytes=1, gpus=0), MACHINE)[0] == 1


def test_this_machine_has_cores_and_memory() -> None:
    found = here()
    assert found.cores > 0 and found.memory_bytes > 0 and found.shm_bytes > 0


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cores, "here", classmethod(lambda cls: cls(8)))
    monkeypatch.setattr("launch.topology.defaults.usable_cores", lambda: 8.0)


@pytest.mark.usefixtures("eight_cores")
def test_runs_of_a_slow_environment_have_as_many_simulators_and_cores_as_a_single_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PACED_VARIABLE, str(tmp_path / "seconds"))
    (tmp_path / "seconds").write_text("0.006")
    (tmp_path / "slow.yaml").write_text("env: {id: 'tests.system.environments:Paced'}\n")
    (tmp_path / "rates.yaml").write_text("topology: slow.yaml\nvary: {optimizer.learning_rate: [0.1, 0.2]}\n")
    asked = read(tmp_path / "rates.yaml")
    measured = describe(asked.base)
    monkeypatch.setattr("launch.sweeps.slots.describe", lambda _: measured)  # each measurement takes seconds
    sweep = with_simulators(asked)
    run = sweep.topology({"optimizer.learning_rate": 0.1})
    assert run.simulators.count == plan(sweep.base, measured).topology.simulators.count == 8
    assert run.simulators.environments == sweep.base.simulators.environments
    assert taken_by(run).cores == 8 + run.trainer.threads


SLOW = replace(DESCRIPTION, step_s=0.02)


def of_slow_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vary: Values, nodes: str = "") -> Sweep:
    """A sweep whose base, slow.yaml, has an environment that is slow, without a process that measures it."""
    monkeypatch.setattr("launch.sweeps.slots.describe", lambda _: SLOW)
    (tmp_path / "slow.yaml").write_text(f"env: {{id: CartPole-v1}}\n{nodes}")
    (tmp_path / "rates.yaml").write_text(f"topology: slow.yaml\nvary: {json.dumps(vary)}\n")
    return with_simulators(read(tmp_path / "rates.yaml"))


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("vary", "nodes", "count"),
    [
        ({"simulators.count": [1]}, "", 1),
        ({"simulators.groups": [8]}, "", 2),
        ({"learners.count": [2]}, "", 4),
        ({"simulators": [{"groups": 8}]}, "", 2),
        ({"learners": [{"count": 2}]}, "", 4),
        ({"env": [{"id": "CartPole-v1"}]}, "", 2),
        ({"algorithm.name": ["ppo"]}, "", 8),
        ({"optimizer.learning_rate": [0.1]}, "nodes: {listen: '127.0.0.1:0'}\n", 8),
    ],
)
def test_trials_of_a_slow_environment_have_as_many_environments_as_single_runs(
    vary: dict[str, list[Any]], nodes: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = of_slow_environment(tmp_path, monkeypatch, vary, nodes)
    for key, values in vary.items():
        for value in values:
            single = plan(load(tmp_path / "slow.yaml", [f"{key}={literal(value)}"]), SLOW).topology
            trial = plan(sweep.topology({key: value}), SLOW).topology
            assert trial.simulators.environments == single.simulators.environments, value
            assert trial.simulators.count == count, value
