"""Learners are placed on the node with the most cores left, and never where memory or a GPU is missing."""

from __future__ import annotations

import msgspec
import pytest

from launch.plan.nodes import Need, NodeResources, find_uneven, need_of, place_learners, share_out
from launch.plan.segments import learner_segments, run_segments
from launch.topology.load import TopologyError, parse
from tests.launch.described import DESCRIPTION

MIB = 1 << 20
NEED = Need(cores=2.0, shm_bytes=100 * MIB, gpus=0)


def machine(cores: float, mib: int = 1000, gpus: int = 0) -> NodeResources:
    return NodeResources(cores=cores, shm_bytes=mib * MIB, gpus=gpus)


def test_learners_go_to_the_node_with_the_most_cores_left() -> None:
    machines = {"a": machine(4), "b": machine(8)}
    assert place_learners(range(4), machines, NEED, {}) == {0: "b", 1: "b", 2: "a", 3: "b"}
    assert place_learners([7], machines, NEED, {0: "b", 1: "b", 2: "b"}) == {7: "a"}


def test_equal_nodes_are_taken_by_name_and_learners_may_share_cores() -> None:
    machines = {"n1": machine(1), "n0": machine(1)}
    assert place_learners(range(4), machines, NEED, {}) == {0: "n0", 1: "n1", 2: "n0", 3: "n1"}


def test_a_node_without_enough_memory_or_a_gpu_gets_no_learner() -> None:
    machines = {"a": machine(64, mib=150), "b": machine(2, mib=300, gpus=1)}
    assert place_learners(range(3), machines, NEED, {}) == {0: "a", 1: "b", 2: "b"}
    needs_gpu = Need(cores=2.0, shm_bytes=100 * MIB, gpus=1)
    assert place_learners([0], machines, needs_gpu, {}) == {0: "b"}
    with pytest.raises(TopologyError, match=r"learner 1 needs 100 MiB of shared memory and 1 GPU, and no node .*a, b"):
        place_learners([0, 1], machines, needs_gpu, {})


def test_nodes_of_one_machine_divide_its_cores_and_shared_memory() -> None:
    here = {"cores_id": "boot 1", "shm_id": "boot shm"}
    a, b = (msgspec.structs.replace(machine(8, gpus=1), **here) for _ in range(2))
    c = msgspec.structs.replace(machine(4), cores_id="boot 2", shm_id="boot shm")  # other cores of that machine
    found = share_out({"a": a, "b": b, "c": c, "d": machine(8), "e": machine(8)})
    assert {name: each.cores for name, each in found.items()} == {"a": 4, "b": 4, "c": 4, "d": 8, "e": 8}
    assert [found[name].shm_bytes // MIB for name in "abcde"] == [333, 333, 333, 1000, 1000]
    assert found["a"].gpus == 1
    with pytest.raises(TopologyError, match="no node has that much free"):
        place_learners([0], share_out({"a": a, "b": b}), msgspec.structs.replace(NEED, shm_bytes=600 * MIB), {})


def test_a_learner_needs_the_cores_gpus_and_memory_of_its_processes_and_segments() -> None:
    topology = parse(
        "env: {id: CartPole-v1}", ["simulators.count=3", "inference.count=1", "trainer.threads=2", "evaluator.count=1"]
    )
    need = need_of(topology, DESCRIPTION)
    assert need.cores == 3 + 1 + 2 and need.gpus == 0 and need.shm_bytes > 0
    more = need_of(parse("env: {id: CartPole-v1}", ["simulators.count=6", "trainer.device=cuda"]), DESCRIPTION)
    assert more.gpus == 1 and more.shm_bytes > need.shm_bytes


@pytest.mark.parametrize(
    ("mode", "unused"), [("sync", {"gradients"}), ("gossip", {"messages", "gradients"})], ids=["sync", "gossip"]
)
def test_learners_on_several_nodes_have_no_segments_that_learners_share(mode: str, unused: set[str]) -> None:
    words = [f"mode={mode}", "learners.count=2", *(["gossip.gradient_every=5"] if mode == "gossip" else [])]

    def kinds(*more: str) -> set[str]:
        topology = parse("env: {id: CartPole-v1}", [*words, *more])
        return {name for name, *_ in run_segments(topology, DESCRIPTION)} | {*learner_segments(topology, DESCRIPTION)}

    assert kinds() - kinds("nodes.count=2") == unused


def test_the_newest_learner_of_the_fullest_node_moves() -> None:
    machines = {"a": machine(8), "b": machine(8), "c": machine(8)}
    placed = {0: "a", 1: "a", 2: "b", 3: "b", 4: "b"}
    why = "node b has 3 learners and node c has no learners"
    assert find_uneven(placed, set(placed), machines, NEED) == (4, "c", why)
    assert find_uneven(placed, {0, 1, 2, 3}, machines, NEED) == (3, "c", why)
    assert find_uneven({0: "a", 1: "b"}, {0, 1}, machines, NEED) is None
    assert find_uneven({}, set(), {}, NEED) is None


def test_no_learner_moves_to_a_node_with_fewer_cores_left() -> None:
    machines = {"large": machine(16), "small": machine(2)}
    placed = place_learners(range(3), machines, NEED, {})
    assert placed == dict.fromkeys(range(3), "large")
    assert find_uneven(placed, set(placed), machines, NEED) is None
    placed |= dict.fromkeys(range(3, 9), "large")
    assert find_uneven(placed, set(placed), machines, NEED) == (
        8,
        "small",
        "node large has 9 learners and node small has no learners",
    )


def test_a_node_with_room_takes_a_learner_of_the_node_with_the_fewest_cores_left() -> None:
    machines = {"large": machine(16), "small": machine(2), "new": machine(2)}
    placed = {**dict.fromkeys(range(6), "large"), 6: "small", 7: "small", 8: "small"}
    assert find_uneven(placed, set(placed), machines, NEED) == (
        8,
        "new",
        "node small has 3 learners and node new has no learners",
    )


@pytest.mark.parametrize(
    ("new", "need"),
    [(machine(64, gpus=0), Need(cores=2.0, shm_bytes=100 * MIB, gpus=1)), (machine(64, mib=50, gpus=4), NEED)],
    ids=["GPU", "shared memory"],
)
def test_no_learner_moves_to_a_node_without_room_for_it(new: NodeResources, need: Need) -> None:
    machines = {"old": machine(4, gpus=2), "new": new}
    assert find_uneven({0: "old", 1: "old"}, {0, 1}, machines, need) is None
