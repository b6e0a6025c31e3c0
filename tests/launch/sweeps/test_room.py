"""As many runs at once as the scarcest thing allows, and one at least."""

from __future__ import annotations

from launch.sweeps.room import Room, count_at_once, here

GIB = 1 << 30
MACHINE = Room(cores=8, memory_bytes=16 * GIB, shm_bytes=4 * GIB, gpus=2)


def test_the_scarcest_thing_bounds_how_many() -> None:
    small = Room(cores=2, memory_bytes=GIB, shm_bytes=GIB >> 3, gpus=0)
    assert count_at_once(small, MACHINE) == (4, "8 cores, of which a run takes 2")
    hungry = Room(cores=1, memory_bytes=6 * GIB, shm_bytes=GIB >> 3, gpus=0)
    assert count_at_once(hungry, MACHINE) == (2, "16.0 GiB of memory, of which a run takes about 6.0")
    replays = Room(cores=1, memory_bytes=GIB, shm_bytes=GIB + 1, gpus=0)
    assert count_at_once(replays, MACHINE) == (3, "4.0 GiB of shared memory, of which a run takes 1.00")
    fast = Room(cores=1, memory_bytes=GIB, shm_bytes=GIB >> 3, gpus=1)
    assert count_at_once(fast, MACHINE) == (2, "2 GPUs, of which a run takes 1")


def test_one_run_has_room_whatever_it_takes() -> None:
    assert count_at_once(Room(cores=64, memory_bytes=GIB, shm_bytes=1, gpus=0), MACHINE)[0] == 1


def test_this_machine_has_cores_and_memory() -> None:
    found = here()
    assert found.cores > 0 and found.memory_bytes > 0 and found.shm_bytes > 0 and found.gpus >= 0
