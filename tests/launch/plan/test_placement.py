"""Devices and cores of the processes of a run."""

from __future__ import annotations

from launch.plan.placement import Processor, place
from launch.topology.load import parse
from tests.identities import process

TEXT = "env: {id: CartPole-v1}\n"


def test_only_simulators_stay_on_cores_which_they_take_in_turn() -> None:
    placed = place(parse(TEXT, ["simulators.pin=true"]), [4, 2])
    assert [placed.of(process(f"simulator-{number}")).core for number in range(4)] == [4, 2, 4, 2]
    assert {placed.of(process(name)).core for name in ("trainer", "inference-0", "evaluator-0")} == {None}


def test_nobody_stays_on_a_core_unless_it_is_asked_for_or_where_none_are_known() -> None:
    assert place(parse(TEXT, ["simulators.pin=false"]), [0, 1]).of(process("simulator-1")) == Processor("cpu", None)
    assert place(parse(TEXT, ["simulators.pin=true"]), []).of(process("simulator-1")) == Processor("cpu", None)


def test_trainer_and_inference_compute_where_the_topology_says() -> None:
    placed = place(parse(TEXT, ["trainer.device=cuda:1", "inference.device=cuda:0"]), [0])
    names = ("trainer", "inference-0", "simulator-0", "evaluator-0")
    assert [placed.of(process(name)).device for name in names] == ["cuda:1", "cuda:0", "cpu", "cpu"]
