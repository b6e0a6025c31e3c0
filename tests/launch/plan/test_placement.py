"""Devices and cores of the processes of a run."""

from __future__ import annotations

from dataclasses import replace

from launch.plan.plan import Plan
from launch.plan.planning import plan
from launch.topology.load import parse
from tests.identities import process
from tests.launch.described import DESCRIPTION

TEXT = "env: {id: CartPole-v1}\n"


def planned(*overrides: str) -> Plan:
    return plan(parse(TEXT, list(overrides)), DESCRIPTION)


def test_only_simulators_are_pinned_and_they_take_the_cores_in_turn() -> None:
    pinned = replace(planned("simulators.pin=true"), pins=(4, 2))
    assert [pinned.core(process(f"simulator-{number}")) for number in range(4)] == [4, 2, 4, 2]
    assert {pinned.core(process(name)) for name in ("trainer", "inference-0", "evaluator-0")} == {None}


def test_no_process_is_pinned_unless_simulators_pin_is_true() -> None:
    assert planned("simulators.pin=true").core(process("simulator-1")) is not None
    free = planned("simulators.pin=false")
    assert (free.devices["simulator"], free.core(process("simulator-1"))) == ("cpu", None)


def test_trainer_and_inference_run_on_the_devices_of_the_topology() -> None:
    devices = planned("trainer.device=cuda:1", "inference.device=cuda:0").devices
    names = ("trainer", "inference", "simulator", "evaluator")
    assert [devices[name] for name in names] == ["cuda:1", "cuda:0", "cpu", "cpu"]
