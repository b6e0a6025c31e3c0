"""Values of ``auto`` on processors that can more or less."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.machine.cgroups import Quota
from launch.machine.cores import Cores
from launch.plan.auto import AUTO, choose, cpu_flags, crowding, misfits, never_reached
from launch.plan.nodes import NodeResources, unlike_here
from launch.topology.load import dump, parse, tree

PONG = "env: {id: ALE/Pong-v5}\nsimulators: {count: 2, envs: 16}"
TWO = Cores(2)
ZEN5, XEON = {"avx2", "avx512f", "avx512_bf16"}, {"avx2", "avx512f", "avx512_bf16", "amx_bf16"}
ZEN3, SKYLAKE = {"avx2"}, {"avx2", "avx512f"}


def chosen(text: str, flags: set[str], *overrides: str) -> dict[str, object]:
    _, choices = choose(parse(text, list(overrides)), flags, TWO)
    return {choice.key: choice.value for choice in choices}


def test_nothing_is_left_to_chance_and_every_choice_says_why() -> None:
    topology, choices = choose(parse(PONG), ZEN5, TWO)
    sections = {key: section for key, section in tree(topology).items() if isinstance(section, dict)}
    # Left as it is: it follows from keys that may be others when the run is resumed.
    assert [key for key, section in sections.items() if AUTO in section.values()] == ["checkpoint"]
    assert choices[0].key == "trainer.threads"
    assert len(choices) == 5
    assert all(len(choice.why) > 20 for choice in choices)


@pytest.mark.parametrize(
    ("flags", "precision", "layout"),
    [
        (ZEN5, "bf16", "plain"),
        (XEON, "bf16", "space-to-depth"),
        (ZEN3, "fp32", "space-to-depth"),
        (SKYLAKE, "fp32", "plain"),
        (set(), "fp32", "plain"),
    ],
)
def test_learning_takes_what_the_processor_is_good_at(flags: set[str], precision: str, layout: str) -> None:
    found = chosen(PONG, flags)
    assert found["trainer.precision"] == precision
    assert found["trainer.layout"] == layout


def test_small_batches_and_small_networks_stay_in_fp32() -> None:
    assert chosen(PONG, XEON)["inference.precision"] == "fp32"
    assert chosen(PONG, XEON, "simulators.envs=64")["inference.precision"] == "bf16"
    assert chosen(PONG, XEON, "algorithm.minibatches=32")["trainer.precision"] == "fp32"
    assert chosen("env: {id: CartPole-v1}", XEON, "simulators.envs=512")["trainer.precision"] == "fp32"


@pytest.mark.parametrize("name", ["ppo", "impala"])
def test_probabilities_that_are_compared_are_computed_alike(name: str) -> None:
    keys = [f"algorithm.name={name}"]
    found = chosen(PONG, XEON, *keys)
    assert (found["trainer.precision"], found["inference.precision"]) == ("bf16", "bf16")
    assert chosen(PONG, XEON, *keys, "trainer.precision=fp32")["inference.precision"] == "fp32"
    assert chosen(PONG, ZEN3, *keys)["inference.precision"] == "fp32"
    elsewhere = [*keys, "trainer.device=cuda", "inference.device=cpu"]
    assert chosen(PONG, XEON, *elsewhere)["inference.precision"] == "fp32", "16 rows on a CPU"


def test_a_minibatch_from_a_replay_has_two_rows_of_each_transition() -> None:
    keys = ["algorithm.name=dqn", "replay.batch_size=32"]
    found = chosen(PONG, XEON, *keys)
    assert (found["trainer.precision"], found["trainer.layout"]) == ("bf16", "plain")
    assert chosen(PONG, XEON, *keys, "replay.batch_size=31")["trainer.precision"] == "fp32"
    assert chosen(PONG, XEON, *keys, "replay.batch_size=80")["trainer.layout"] == "space-to-depth"


def test_a_minibatch_of_sequences_has_their_rows_and_those_that_returns_reach() -> None:
    keys = ["algorithm.name=r2d1", "algorithm.n_step=4", "replay.sequence_steps=12", "replay.burn_in_steps=6"]
    keys += ["replay.sequence_every=6"]
    for sequences, layout in ((4, "plain"), (5, "space-to-depth")):  # of 16 rows each
        found = chosen(PONG, XEON, *keys, f"replay.batch_size={sequences}")
        assert (found["trainer.precision"], found["trainer.layout"]) == ("bf16", layout)


def test_a_first_convolution_of_stride_1_stays_plain() -> None:
    found = chosen(PONG, XEON, "model.name=impala")
    assert (found["trainer.precision"], found["trainer.layout"]) == ("bf16", "plain")


def test_what_is_written_is_left_alone() -> None:
    keys = ["trainer.precision=fp32", "trainer.layout=plain", "trainer.compile=true", "inference.precision=bf16"]
    topology = parse(PONG, [*keys, "trainer.threads=1"])
    assert choose(topology, XEON, TWO) == (topology, [])


def test_what_followed_the_cores_is_explained_until_it_is_written_down() -> None:
    topology = parse("env: {id: ALE/Pong-v5}", ["learners.count=2"])
    rationed = Cores(4, Quota(2.5, Path("/sys/fs/cgroup/cpu.max"), 2))
    whys = {choice.key: str(choice) for choice in choose(topology, XEON, rationed)[1]}
    for key in ("simulators.count", "trainer.threads"):
        assert "2.5 of 4 cores (the quota in cpu.max), shared by 2 learners" in whys[key]
    resolved = parse(dump(choose(topology, XEON, rationed)[0]))
    assert choose(resolved, XEON, rationed)[1] == []
    small = {choice.key: choice.why for choice in choose(parse("env: {id: CartPole-v1}"), XEON, TWO)[1]}
    assert small["trainer.threads"] == "the network is small, and several threads would not make it faster"
    assert "2 cores" in small["simulators.count"]


def test_numbers_that_followed_the_head_are_said_where_nodes_have_other_cores() -> None:
    topology = parse("env: {id: ALE/Pong-v5}", ["nodes.count=2", "learners.count=4", "mode=gossip"])
    choices = choose(topology, XEON, Cores(4))[1]
    whys = {choice.key: choice.why for choice in choices}
    assert (
        "4 cores, shared by 2 learners (of the head's machine; all nodes are assumed to have as many)"
        in whys["trainer.threads"]
    )
    machines = {name: NodeResources(cores=cores, shm_bytes=1) for name, cores in (("a", 4), ("b", 8), ("c", 2))}
    assert unlike_here(choices, machines, 4.0) == (
        "simulators.count and trainer.threads: the defaults are for nodes with 4 cores, as on the head's machine, but "
        "other nodes have other numbers of cores (b 8, c 2); write values that fit all nodes"
    )
    assert unlike_here(choices, {"a": machines["a"]}, 4.0) == ""
    written = choose(parse(dump(topology)), XEON, Cores(4))[1]
    assert unlike_here(written, machines, 4.0) == ""


def test_a_chosen_topology_is_still_a_topology() -> None:
    topology, _ = choose(parse(PONG), XEON, TWO)
    assert parse(dump(topology)) == topology


def test_this_machine_has_instruction_sets() -> None:
    assert "sse2" in cpu_flags()


def test_learners_with_more_threads_than_cores_are_told_what_to_write() -> None:
    two = parse(PONG, ["learners.count=2", "trainer.threads=2"])
    assert crowding(two, cores=4) == ""
    assert "2 learners with 2 threads each have more threads than the 2 cores" in crowding(two, cores=2)
    assert "write 1" in crowding(two, cores=2)
    assert crowding(parse(PONG, ["trainer.threads=8"]), cores=2) == "", "one learner's threads wait for no other's"
    assert crowding(parse(PONG, ["learners.count=4", "trainer.threads=1"]), cores=2) == "", (
        "one thread each is what it would say to write"
    )
    on_gpus = parse(PONG, ["learners.count=2", "trainer.threads=2", "trainer.device=cuda"])
    assert crowding(on_gpus, cores=2) == "", "no product is computed by threads"


def test_bfloat16_that_a_processor_emulates_is_warned_of_with_the_way_out() -> None:
    asked = parse(PONG, ["trainer.precision=bf16", "inference.precision=bf16"])
    [warning] = misfits(asked, frozenset({"avx2"}), 2)
    assert warning.startswith("trainer.precision and inference.precision: bf16 is emulated on this processor")
    assert warning.endswith("write auto, or leave the key out")
    assert misfits(asked, XEON, 2) == []
    assert misfits(choose(parse(PONG), frozenset({"avx2"}), TWO)[0], frozenset({"avx2"}), 2) == [], "auto never does"
    on_gpus = parse(PONG, ["trainer.precision=bf16", "trainer.device=cuda", "inference.count=0"])
    assert misfits(choose(on_gpus, XEON, TWO)[0], XEON, 2) == []


CART_DQN = "env: {id: CartPole-v1}\nalgorithm: {name: dqn}"


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        (["total_steps=900"], ["replay.learning_starts_steps: 1,000", "algorithm.epsilon_steps: 10,000"]),
        (["total_steps=1000"], ["replay.learning_starts_steps: 1,000", "algorithm.epsilon_steps: 10,000"]),
        (["total_steps=1001"], ["algorithm.epsilon_steps: 10,000"]),
        (["total_steps=10_000"], []),
        (["total_steps=10_000", "algorithm.epsilon_hold_steps=1"], ["algorithm.epsilon_hold_steps: 1 and"]),
        (["total_steps=9_000", "algorithm.epsilon_initial=0.05"], []),
        (["total_steps=9_000", "algorithm={name: ppo}"], []),
        (
            ["total_steps=40_000", "mode=sync", "learners.count=2", "replay.learning_starts_steps=20_000"],
            ["replay.learning_starts_steps: 20,000 (40,000 for 2 learners)"],
        ),
    ],
)
def test_values_that_the_run_never_reaches_are_named(overrides: list[str], keys: list[str]) -> None:
    found = [*never_reached(parse(CART_DQN, overrides))]
    assert [said.startswith(key) for said, key in zip(found, keys, strict=True)] == [True] * len(keys), found
    assert all("raise total_steps" in said for said in found)


def test_a_run_shorter_than_a_batch_is_warned_of() -> None:
    batch = ["algorithm.horizon=16", "simulators.count=2", "simulators.envs=8"]
    (said,) = never_reached(parse("env: {id: CartPole-v1}", [*batch, "total_steps=255"]))
    assert said == (
        "total_steps: 255: is less than a batch, so the run makes one update with about 256 steps and ends; raise "
        "total_steps, or lower algorithm.horizon or simulators.envs"
    )
    assert [*never_reached(parse("env: {id: CartPole-v1}", [*batch, "total_steps=256"]))] == []
