"""What ``auto`` chooses on processors with different instruction sets, and warnings about unsuitable values."""

from __future__ import annotations

import platform
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


def test_auto_is_replaced_in_all_keys_but_checkpoint_exact_and_each_choice_has_a_reason() -> None:
    topology, choices = choose(parse(PONG), ZEN5, TWO)
    sections = {key: section for key, section in tree(topology).items() if isinstance(section, dict)}
    # checkpoint.exact stays auto, because it depends on keys that a resume may change.
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
def test_precision_and_layout_follow_the_instruction_sets_of_the_processor(
    flags: set[str], precision: str, layout: str
) -> None:
    found = chosen(PONG, flags)
    assert found["trainer.precision"] == precision
    assert found["trainer.layout"] == layout


def test_small_batches_and_small_networks_stay_in_fp32() -> None:
    assert chosen(PONG, XEON)["inference.precision"] == "fp32"
    assert chosen(PONG, XEON, "simulators.envs=64")["inference.precision"] == "bf16"
    assert chosen(PONG, XEON, "algorithm.minibatches=32")["trainer.precision"] == "fp32"
    assert chosen("env: {id: CartPole-v1}", XEON, "simulators.envs=512")["trainer.precision"] == "fp32"


@pytest.mark.parametrize("name", ["ppo", "impala"])
def test_trainer_and_inference_have_one_precision_where_their_probabilities_are_compared(name: str) -> None:
    keys = [f"algorithm.name={name}"]
    found = chosen(PONG, XEON, *keys)
    assert (found["trainer.precision"], found["inference.precision"]) == ("bf16", "bf16")
    assert chosen(PONG, XEON, *keys, "trainer.precision=fp32")["inference.precision"] == "fp32"
    assert chosen(PONG, ZEN3, *keys)["inference.precision"] == "fp32"
    elsewhere = [*keys, "trainer.device=cuda", "inference.device=cpu"]
    assert chosen(PONG, XEON, *elsewhere)["inference.precision"] == "fp32", "a pass of 16 rows on a CPU"


def test_a_minibatch_from_a_replay_has_two_rows_of_each_transition() -> None:
    keys = ["algorithm.name=dqn", "replay.batch_size=32"]
    found = chosen(PONG, XEON, *keys)
    assert (found["trainer.precision"], found["trainer.layout"]) == ("bf16", "plain")
    assert chosen(PONG, XEON, *keys, "replay.batch_size=31")["trainer.precision"] == "fp32"
    assert chosen(PONG, XEON, *keys, "replay.batch_size=80")["trainer.layout"] == "space-to-depth"


def test_a_minibatch_of_sequences_counts_the_rows_that_n_step_returns_add() -> None:
    keys = ["algorithm.name=r2d1", "algorithm.n_step=4", "replay.sequence_steps=12", "replay.burn_in_steps=6"]
    keys += ["replay.sequence_every=6"]
    for sequences, layout in ((4, "plain"), (5, "space-to-depth")):  # of 16 rows each
        found = chosen(PONG, XEON, *keys, f"replay.batch_size={sequences}")
        assert (found["trainer.precision"], found["trainer.layout"]) == ("bf16", layout)


def test_a_first_convolution_of_stride_1_keeps_the_plain_layout() -> None:
    found = chosen(PONG, XEON, "model.name=impala")
    assert (found["trainer.precision"], found["trainer.layout"]) == ("bf16", "plain")


def test_keys_that_are_set_are_not_chosen() -> None:
    keys = ["trainer.precision=fp32", "trainer.layout=plain", "trainer.compile=true", "inference.precision=bf16"]
    topology = parse(PONG, [*keys, "trainer.threads=1"])
    assert choose(topology, XEON, TWO) == (topology, [])


def test_defaults_that_follow_the_cores_are_explained_unless_the_keys_are_set() -> None:
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


def test_defaults_from_the_heads_cores_are_named_if_other_nodes_have_other_cores() -> None:
    topology = parse("env: {id: ALE/Pong-v5}", ["nodes.count=2", "learners.count=4", "mode=gossip"])
    whys = {choice.key: choice.why for choice in choose(topology, XEON, Cores(4))[1]}
    assert (
        "4 cores, shared by 2 learners (of the head's machine; all nodes are assumed to have as many)"
        in whys["trainer.threads"]
    )
    machines = {name: NodeResources(cores=cores, shm_bytes=1) for name, cores in (("a", 4), ("b", 8), ("c", 2))}
    assert unlike_here(topology, machines, 4.0) == (
        "simulators.count and trainer.threads: the defaults are for nodes with 4 cores, as on the head's machine, but "
        "other nodes have other numbers of cores (b 8, c 2); write values that fit all nodes"
    )
    assert unlike_here(topology, {"a": machines["a"]}, 4.0) == ""
    assert unlike_here(parse(dump(topology)), machines, 4.0) == ""
    small = parse("env: {id: CartPole-v1}", ["nodes.count=2", "learners.count=4", "mode=gossip"])
    assert unlike_here(small, machines, 4.0).startswith("simulators.count: the defaults are for nodes with 4 cores")


def test_a_topology_with_choices_can_be_dumped_and_parsed_again() -> None:
    topology, _ = choose(parse(PONG), XEON, TWO)
    assert parse(dump(topology)) == topology


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors have no SSE2")
def test_this_machine_has_instruction_sets() -> None:
    assert "sse2" in cpu_flags()


def test_more_learner_threads_than_cores_give_a_warning_with_a_value_to_write() -> None:
    two = parse(PONG, ["learners.count=2", "trainer.threads=2"])
    assert crowding(two, cores=4) == ""
    assert "2 learners with 2 threads each have more threads than the 2 cores" in crowding(two, cores=2)
    assert "write 1" in crowding(two, cores=2)
    assert crowding(parse(PONG, ["trainer.threads=8"]), cores=2) == "", (
        "a single learner shares its cores with no other"
    )
    assert crowding(parse(PONG, ["learners.count=4", "trainer.threads=1"]), cores=2) == "", (
        "the warning would recommend one thread each"
    )
    on_gpus = parse(PONG, ["learners.count=2", "trainer.threads=2", "trainer.device=cuda"])
    assert crowding(on_gpus, cores=2) == "", "GPUs compute the products, so threads do not compete"


def test_bf16_on_a_processor_that_emulates_it_gives_a_warning_with_a_remedy() -> None:
    asked = parse(PONG, ["trainer.precision=bf16", "inference.precision=bf16"])
    [warning] = misfits(asked, frozenset({"avx2"}), 2)
    assert warning.startswith("trainer.precision and inference.precision: bf16 is emulated on this processor")
    assert warning.endswith("write auto, or leave the key out")
    assert misfits(asked, XEON, 2) == []
    assert misfits(choose(parse(PONG), frozenset({"avx2"}), TWO)[0], frozenset({"avx2"}), 2) == [], (
        "auto chooses no emulated bf16"
    )
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
def test_step_counts_that_the_run_never_reaches_are_named(overrides: list[str], keys: list[str]) -> None:
    found = [*never_reached(parse(CART_DQN, overrides))]
    assert [said.startswith(key) for said, key in zip(found, keys, strict=True)] == [True] * len(keys), found
    assert all("raise total_steps" in said for said in found)


def test_a_run_shorter_than_a_batch_gives_a_warning() -> None:
    batch = ["algorithm.horizon=16", "simulators.count=2", "simulators.envs=8"]
    (said,) = never_reached(parse("env: {id: CartPole-v1}", [*batch, "total_steps=255"]))
    assert said == (
        "total_steps: 255: is less than a batch, so the run makes one update with about 256 steps and ends; raise "
        "total_steps, or lower algorithm.horizon or simulators.envs"
    )
    assert [*never_reached(parse("env: {id: CartPole-v1}", [*batch, "total_steps=256"]))] == []
