"""Which learner moves to another node, and that none moves where it would be worse off."""

from __future__ import annotations

import pytest

from launch.nodes.moves import find_uneven
from launch.plan.nodes import Need, NodeResources, place_learners

MIB = 1 << 20
NEED = Need(cores=2.0, shm_bytes=100 * MIB, gpus=0)


def machine(cores: float, mib: int = 1000, gpus: int = 0) -> NodeResources:
    return NodeResources(cores=cores, shm_bytes=mib * MIB, gpus=gpus)


def test_the_newest_learner_of_the_fullest_node_moves() -> None:
    machines = {"a": machine(8), "b": machine(8), "c": machine(8)}
    placed = {0: "a", 1: "a", 2: "b", 3: "b", 4: "b"}
    why = "node b has 3 learners and node c has no learners"
    assert find_uneven(placed, machines, NEED) == (4, "c", why)
    assert find_uneven({0: "a", 1: "b"}, machines, NEED) is None
    assert find_uneven({}, {}, NEED) is None


def test_no_learner_moves_to_a_node_with_fewer_cores_left() -> None:
    machines = {"large": machine(16), "small": machine(2)}
    placed = place_learners(range(3), machines, NEED, {})
    assert placed == dict.fromkeys(range(3), "large")
    assert find_uneven(placed, machines, NEED) is None
    placed |= dict.fromkeys(range(3, 9), "large")
    assert find_uneven(placed, machines, NEED) == (
        8,
        "small",
        "node large has 9 learners and node small has no learners",
    )


def test_a_node_with_room_takes_a_learner_of_the_node_with_the_fewest_cores_left() -> None:
    machines = {"large": machine(16), "small": machine(2), "new": machine(2)}
    placed = {**dict.fromkeys(range(6), "large"), 6: "small", 7: "small", 8: "small"}
    assert find_uneven(placed, machines, NEED) == (8, "new", "node small has 3 learners and node new has no learners")


@pytest.mark.parametrize(
    ("new", "need"),
    [(machine(64, gpus=0), Need(cores=2.0, shm_bytes=100 * MIB, gpus=1)), (machine(64, mib=50, gpus=4), NEED)],
    ids=["GPU", "shared memory"],
)
def test_no_learner_moves_to_a_node_without_room_for_it(new: NodeResources, need: Need) -> None:
    machines = {"old": machine(4, gpus=2), "new": new}
    assert find_uneven({0: "old", 1: "old"}, machines, need) is None
