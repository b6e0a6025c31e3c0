"""The plan: who gets which row, name and seeds, in runs that begin and in runs that change."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from actorlearn.memory.progress import ROWS
from actorlearn.parameters.graph import GraphSettings
from actorlearn.parameters.interface import ExchangeSettings
from actorlearn.processes.settings import SimulatorSettings, TrainerSettings
from launch.description import Description
from launch.instructions import instructions
from launch.plan import Plan, plan
from launch.topology import TopologyError, parse

DESCRIPTION = Description(
    observation_shape=(4,),
    observation_dtype="float32",
    actions=2,
    frames_per_step=1,
    columns={"action": ("int32", ())},
    weights=10,
    state_size=0,
)


def planned(*overrides: str) -> Plan:
    topology = parse("env: {id: CartPole-v1}", ["simulators.count=2", *overrides])
    return plan(topology, Path("run"), "run-1", Path("/tmp/x"), DESCRIPTION)


def rows(made: Plan) -> list[int]:
    return [process.index for process in made.processes]


def env_seeds(made: Plan, name: str, incarnation: int = 0) -> list[int]:
    settings = instructions(made, name, incarnation)
    assert isinstance(settings, SimulatorSettings)
    return settings.env_seeds


def test_more_processes_than_rows_are_refused_in_one_line() -> None:
    most = ROWS - 2  # a trainer and an inference server
    assert rows(planned(f"simulators.count={most}", "inference.count=1")) == list(range(ROWS))
    with pytest.raises(
        TopologyError, match=f"simulators.count {most + 1}, .* 257 processes, .* at most 256; write"
    ) as e:
        planned(f"simulators.count={most + 1}", "inference.count=1")
    assert "\n" not in str(e.value)
    with pytest.raises(TopologyError, match="1026 processes"):
        planned("simulators.count=1024", "inference.count=1")


def test_simulators_come_and_go_for_ever_and_no_name_comes_back() -> None:
    made = planned()
    names = {process.name for process in made.processes}
    for _ in range(ROWS):
        for process in made.add_simulators(3):
            assert process.name not in names
            names.add(process.name)
            made.remove(process.name)
        assert len(made.processes) == len(set(rows(made))) == 3
    assert "simulator-769" in names


def test_a_free_row_is_used_again_and_no_row_twice() -> None:
    made = planned()
    row = made.process("simulator-0").index
    made.add_simulators(2)
    made.remove("simulator-0")
    (new,) = made.add_simulators(1)
    assert (new.name, new.index) == ("simulator-4", row)
    assert len(set(rows(made))) == len(made.processes)


def test_a_full_run_says_how_many_still_fit() -> None:
    made = planned(f"simulators.count={ROWS - 4}", "inference.count=1")
    with pytest.raises(
        TopologyError, match="attach 3 simulators: .* at most 256 .* has 254; attach at most 2, or detach"
    ):
        made.add_simulators(3)
    assert [process.index for process in made.add_simulators(2)] == [ROWS - 2, ROWS - 1]


def test_seeds_follow_the_name_alone() -> None:
    """Evaluators and inference servers, and rows that are used again, change no simulator's games."""
    seeds = env_seeds(planned(), "simulator-1")
    for overrides in (["evaluator.count=1"], ["inference.count=2"], ["inference.count=0", "evaluator.count=1"]):
        assert env_seeds(planned(*overrides), "simulator-1") == seeds
    assert planned("evaluator.count=1").process("simulator-1").index == planned().process("simulator-1").index
    others = [env_seeds(planned(), "simulator-0"), env_seeds(planned(), "simulator-1", 1)]
    others.append(env_seeds(planned("seed=7"), "simulator-1"))
    assert all(other != seeds for other in others)


# Several learners -----------------------------------------------------------------------------------------------------


def test_each_learner_has_a_trainer_servers_and_simulators_of_its_own() -> None:
    made = planned("learners.count=2", "inference.count=2", "evaluator.count=1")
    assert [(process.name, process.learner) for process in made.processes] == [
        *(("trainer-0", 0), ("trainer-1", 1)),
        *(("inference-0", 0), ("inference-1", 0), ("inference-2", 1), ("inference-3", 1)),
        *(("simulator-0", 0), ("simulator-1", 0), ("simulator-2", 1), ("simulator-3", 1)),
        ("evaluator-0", 0),
    ]
    for name, learner, server in (("simulator-0", 0, 0), ("simulator-1", 0, 1), ("simulator-3", 1, 3)):
        settings, seat = instructions(made, name, 0), made.seat(name, 0)
        assert isinstance(settings, SimulatorSettings)
        assert settings.weights == made.weights(learner)
        assert settings.rounds == made.rounds(learner)
        assert settings.trainer_bell == made.bell(f"trainer-{learner}")
        assert settings.inference_bell == made.bell(f"inference-{server}")
        assert (seat.learner, seat.server) == (learner, server)


def test_who_comes_later_is_dealt_to_the_learners_in_turn() -> None:
    made = planned("learners.count=2", "inference.count=1")
    new = made.add_simulators(3)
    assert [(process.name, process.learner) for process in new] == [
        ("simulator-4", 0),
        ("simulator-5", 1),
        ("simulator-6", 0),
    ]
    assert [made.server_of(process) for process in new] == [0, 1, 0]


def test_no_two_simulators_of_any_learner_play_the_same_games() -> None:
    made = planned("learners.count=3")
    seeds = [seed for number in range(6) for seed in env_seeds(made, f"simulator-{number}")]
    assert len(set(seeds)) == len(seeds)


def test_gossip_has_messages_and_counts_and_numbers_its_trainers() -> None:
    made = planned("mode=gossip", "gossip.graph=[[1], [0]]", "gossip.gradient_every=5", "seed=3")
    names = [segment.name for segment in made.segments]
    assert names[:6] == ["weights-0", "rounds-0", "messages-0", "exchanges-0", "gradients-0", "counts"]
    settings = instructions(made, "trainer-0", 0)
    assert isinstance(settings, TrainerSettings)
    exchange = msgspec.convert(settings.exchange, ExchangeSettings)
    assert (exchange.mode, exchange.rank, exchange.learners, exchange.gradient_every) == ("gossip", 0, 1, 5)
    assert exchange.folder == str(made.shm)
    assert exchange.graph == GraphSettings(name="lists", lists=((1,), (0,)))
    assert planned("mode=gossip", "seed=3").graph == GraphSettings(name="ring", seed=3)
