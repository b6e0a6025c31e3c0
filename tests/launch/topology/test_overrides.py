"""Overrides that change a choice: unread keys of the file are left out and named; unread overrides are refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from launch.machine.cores import Cores
from launch.plan.auto import choose
from launch.topology.load import TopologyError, dump, load, parse

DQN = """
env: {id: ALE/Pong-v5, stack: 3}
algorithm: {name: dqn, huber_delta: 0.5, discount: 0.9}
replay: {batch_size: 16, ratio: 0.5}
optimizer: {name: rmsprop, centered: true}
"""
GOSSIP = """
env: {id: CartPole-v1}
mode: gossip
learners: {count: 2, local_steps: 3}
gossip: {graph: complete}
"""
EVALUATED = """
env: {id: CartPole-v1}
evaluator: {count: 1, every_steps: 7_000, episodes: 3, stop_at_score: 300.0}
simulators: {count: 2, envs: 8}
inference: {count: 1, threads: 2, batch_rows: 4}
"""


@pytest.mark.parametrize(
    ("text", "choices", "left_out"),
    [
        (DQN, ["algorithm.name=ppo"], {"algorithm.huber_delta", "replay.batch_size", "replay.ratio"}),
        (DQN, ["algorithm={name: ppo}"], {"replay.batch_size", "replay.ratio"}),
        (DQN, ["algorithm.name=c51"], {"algorithm.huber_delta"}),
        (DQN, ["optimizer.name=adam"], {"optimizer.centered"}),
        (DQN, ["env.id=CartPole-v1", "model.name=mlp"], {"env.stack"}),
        (GOSSIP, ["mode=sync"], {"gossip.graph"}),
        (GOSSIP, ["mode=async"], {"gossip.graph"}),
        (GOSSIP, ["mode=sync", "learners.count=1"], {"learners.local_steps", "gossip.graph"}),
        (EVALUATED, ["evaluator.count=0"], {"evaluator.every_steps", "evaluator.stop_at_score"}),
        (EVALUATED, ["inference.count=0"], {"inference.threads", "inference.batch_rows"}),
        (DQN, ["seed=2"], set()),
        (GOSSIP, ["gossip.graph=ring"], set()),
    ],
)
def test_keys_of_the_file_that_a_new_choice_does_not_read_are_left_out_and_named(
    text: str, choices: list[str], left_out: set[str]
) -> None:
    topology = parse(text, choices)
    assert topology.left_out.keys() == left_out
    said = [str(choice) for choice in choose(topology, (), Cores(2))[1]]
    for key, why in topology.left_out.items():
        assert f"{key}: left out, because {why}" in said


SCHEDULED = """
env: {id: CartPole-v1}
optimizer:
  learning_rate: 1.0e-3
  learning_rate_final: 2.0e-4
  groups: {actor: {learning_rate: 4.0e-3, learning_rate_final: 4.0e-3}}
"""


@pytest.mark.parametrize(
    ("overrides", "final", "of_group"),
    [
        ([], 2e-4, 4e-3),
        (["optimizer.learning_rate=1.0e-4"], 2e-5, 4e-3),
        (["optimizer.learning_rate=5.0e-3"], 1e-3, 4e-3),
        (["optimizer.learning_rate=1.0e-4", "optimizer.learning_rate_final=1.0e-3"], 1e-3, 4e-3),
        (["optimizer.learning_rate_final=0.0"], 0.0, 4e-3),
        (["optimizer={learning_rate: 1.0e-4}"], 0.0, None),
        (["optimizer.groups.actor.learning_rate=1.0e-5"], 2e-4, 1e-5),
    ],
)
def test_a_rate_that_is_overridden_alone_keeps_the_shape_of_its_schedule(
    overrides: list[str], final: float, of_group: float | None
) -> None:
    topology = parse(SCHEDULED, overrides)
    assert topology.optimizer.learning_rate_final == pytest.approx(final)
    assert not of_group or topology.optimizer.groups["actor"].learning_rate_final == pytest.approx(of_group)


def test_a_final_rate_that_changes_with_the_learning_rate_is_named() -> None:
    topology = parse(SCHEDULED, ["optimizer.learning_rate=5.0e-4"])
    assert topology.in_proportion == {"optimizer.learning_rate_final": pytest.approx(1e-4)}
    said = [str(choice) for choice in choose(topology, (), Cores(2))[1]]
    assert "optimizer.learning_rate_final: 0.0001, because only learning_rate was overridden" in "\n".join(said)
    assert parse(SCHEDULED, ["seed=2"]).in_proportion == {}


def test_a_resumed_run_with_another_rate_keeps_the_shape_of_its_schedule() -> None:
    constant = parse(DQN, ["optimizer.learning_rate=1.0e-4"])
    assert (constant.optimizer.schedule, constant.optimizer.rate_at_end) == ("constant", 1e-4)
    again = parse(dump(constant), ["optimizer.learning_rate=2.0e-4"])
    assert (again.optimizer.schedule, again.optimizer.rate_at_end) == ("constant", 2e-4)
    falling = parse(dump(parse(SCHEDULED)), ["optimizer.learning_rate=1.0e-2"])
    assert (falling.optimizer.schedule, falling.optimizer.rate_at_end) == ("linear", pytest.approx(2e-3))


def test_a_final_rate_makes_the_schedule_linear_and_a_constant_schedule_leaves_it_out() -> None:
    assert parse(DQN, ["optimizer.learning_rate_final=1.0e-5"]).optimizer.schedule == "linear"
    constant = parse(SCHEDULED, ["optimizer.schedule=constant", "optimizer.groups={}"])
    assert constant.optimizer.rate_at_end == 1e-3
    assert constant.left_out == {"optimizer.learning_rate_final": "optimizer.schedule is constant"}


def test_a_key_that_both_choices_read_keeps_the_files_value_unless_the_section_is_written_anew() -> None:
    assert parse(DQN, ["algorithm.name=ppo"]).algorithm.discount == 0.9
    assert parse(DQN, ["algorithm={name: ppo}"]).algorithm.discount == 0.99


@pytest.mark.parametrize(
    ("text", "overrides", "says"),
    [
        (DQN, ["algorithm.name=ppo", "algorithm.huber_delta=1"], "command line: algorithm.huber_delta = 1"),
        (DQN, ["algorithm.huber_delta=1", "algorithm.name=ppo"], "algorithm ppo has no key 'huber_delta'"),
        (DQN, ["algorithm.name=ppo", "replay.ratio=1"], "command line: replay = {'ratio': 1}"),
        (DQN, ["optimizer.name=adam", "optimizer.centered=false"], "command line: optimizer.centered"),
        (DQN, ["env.id=CartPole-v1", "env.stack=4"], "command line: env.stack = 4"),
        (GOSSIP, ["mode=sync", "learners.pull_rows=2"], "command line: learners.pull_rows = 2"),
        (GOSSIP + "algorithm: {huber_delta: 1}\n", ["mode=sync"], "t:6: algorithm.huber_delta = 1"),
        (GOSSIP + "algorithm: {huber_delta: 1}\n", ["algorithm.name=ppo"], "t:6: algorithm.huber_delta = 1"),
        (DQN, ["algorithm.name=nobody"], "command line: algorithm.name = 'nobody'"),
        (DQN, ["mode=3"], "command line: mode = 3"),
        (
            EVALUATED,
            ["evaluator.count=0", "evaluator.every_steps=7"],
            "command line: evaluator.every_steps = 7: nothing",
        ),
    ],
)
def test_unread_keys_of_overrides_and_wrong_keys_of_the_file_are_refused(
    text: str, overrides: list[str], says: str
) -> None:
    with pytest.raises(TopologyError) as refused:
        parse(text, overrides, "t")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "override", "says"),
    [
        (
            "env: {id: CartPole-v1}\n",
            "replay.batch_size=64",
            "command line: replay = {'batch_size': 64}: algorithm a2c",
        ),
        (DQN, "replay.batch_size=60_000", "command line: replay.learning_starts_steps = 50000: the first minibatch"),
        (EVALUATED, "simulators.groups=3", "command line: simulators.envs = 8: environments are divided evenly"),
        (EVALUATED + "seed: -1\n", "simulators.groups=3", "t:6: seed = -1"),
    ],
)
def test_an_error_that_the_file_alone_does_not_have_names_the_command_line(text: str, override: str, says: str) -> None:
    with pytest.raises(TopologyError) as refused:
        parse(text, [override], "t")
    assert str(refused.value).startswith(says)


def test_an_override_in_a_file_is_refused_with_its_line(tmp_path: Path) -> None:
    topology, file = tmp_path / "cart.yaml", tmp_path / "tuned.txt"
    topology.write_text("env: {id: CartPole-v1}\n")
    for line, says in (("seed=-1", "seed = -1: must"), ("sed=1", "'sed=1': a topology has no key")):
        file.write_text(f"# tuned\n\nsimulators.count=1\n{line}\n")
        with pytest.raises(TopologyError, match=rf"^{re.escape(str(file))}:4: {says}"):
            load(topology, [f"@{file}", "total_steps=10"])


@pytest.mark.parametrize(
    ("file", "overrides", "refused"),
    [
        ({}, [f"env.kwargs.{'.'.join('a' * 500)}=1"], "502 levels: values nest at most 20 deep"),
        ({}, [f"env.kwargs.a={'[' * 18}{']' * 18}"], "level 21: values nest at most 20 deep"),
        ({}, [f"env.kwargs.{key}=[{'1,' * 1_500}]" for key in "ab"], "at most 2000 keys and values"),
        ({}, [f"env.kwargs.{key}={key * 200_000}" for key in "ab"], "at most 262144 bytes"),
        ({"a": [1] * 1_950}, [], "at most 2000 keys and values"),
        ({"a": "\u00e9" * 120_000}, [], "at most 262144 bytes"),
        ({}, [f"env.kwargs.a={'[' * 17}{']' * 17}"], ""),
    ],
)
def test_a_topology_that_could_not_be_read_again_is_refused(
    file: dict[str, object], overrides: list[str], refused: str
) -> None:
    """The topology with its defaults and overrides is written to the run folder, and ``resume`` reads it."""
    text = f"env: {{id: CartPole-v1, kwargs: {json.dumps(file, ensure_ascii=False)}}}"
    if refused:
        with pytest.raises(TopologyError, match=refused) as error:
            parse(text, overrides)
        assert len(str(error.value)) < 300
    else:
        topology = parse(text, overrides)
        assert parse(dump(topology)) == topology


def test_an_override_of_all_arguments_keeps_the_file_and_hash_of_a_pickled_environment() -> None:
    """The file and its hash are kept unless they are given; other arguments are replaced."""
    file = "env: {id: 'actorlearn.envs.pickled:Corridor', kwargs: {file: /run/e.pickle, sha256: ab, length: 8}}"
    assert parse(file, ["env.kwargs={size: 5}"]).env.kwargs == {"file": "/run/e.pickle", "sha256": "ab", "size": 5}
    moved = {"file": "/new/e.pickle", "sha256": "ab"}
    assert parse(file, ["env.kwargs={file: /new/e.pickle}"]).env.kwargs == moved
    assert parse("env: {id: CartPole-v1, kwargs: {file: a}}", ["env.kwargs={size: 5}"]).env.kwargs == {"size": 5}
