"""Generated pages and schemas: they are those of the code, and have all of it."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from actorlearn import __version__
from actorlearn.envs.specs import ENVIRONMENTS
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import PROTOCOL_VERSION, Order, Reply, Request, ToChild, ToSupervisor, decode, encode
from docs.pages import commands, messages, topology
from docs.pages.generated import GENERATED
from docs.pages.schemas import sweep_schema, topology_schema
from launch.cli import app, keys
from launch.sweeps.keys import SweepKeys
from launch.topology.keys import leaves
from tests.sizes import ROOT


@pytest.mark.parametrize("file", GENERATED)
def test_a_generated_file_is_up_to_date(file: str) -> None:
    assert (ROOT / file).read_text(encoding="utf-8") == GENERATED[file](), f"{file} is old: make pages"


# Commands -------------------------------------------------------------------------------------------------------------


def test_each_command_has_its_usage_and_its_options() -> None:
    text = commands.page()
    shown = [command for command in (*app.registered_commands, *keys.registered_commands) if not command.hidden]
    assert text.count("\n### ") == len(shown)
    assert "`actorlearn detach RUN NAME... [OPTION]...`" in text
    assert "`actorlearn logs RUN [PROCESS] [OPTION]...`" in text
    assert "| `--lines, -n LINES` | Number of last lines of each process to print first. | `50` |" in text
    assert "| `TOPOLOGY` | The YAML file that describes the run. | required |" in text


# Topologies and sweeps ------------------------------------------------------------------------------------------------


def test_the_topology_page_has_every_key_and_its_defaults() -> None:
    text = topology.page()
    assert all(f"| `{key}` |" in text for key in leaves())
    assert "| `optimizer.learning_rate` | number, more than 0 and at most 1_000 | `0.0224` / `0.003` | learning" in text


def test_the_topology_schema_asks_for_little_and_knows_ranges_and_grouped_digits() -> None:
    schema = topology_schema()
    assert schema["required"] == ["env"]
    required = {name: part["required"] for name, part in schema["$defs"].items() if part.get("required")}
    parts = {"WrapperSettings": ["name"], "ImagePart": ["start", "shape"]}
    assert required == {**{f"env-{kind}": ["id"] for kind in ENVIRONMENTS.names()}, **parts}
    assert all(part["additionalProperties"] is False for part in (schema, *schema["$defs"].values()))
    steps = schema["properties"]["total_steps"]
    assert steps["minimum"] == 1
    assert steps["type"] == ["integer", "string"]
    assert re.search(steps["pattern"], "250_000")
    assert not re.search(steps["pattern"], "many")
    assert "agent steps" in steps["description"]


def test_the_sweep_schema_knows_every_key_and_its_range() -> None:
    schema = sweep_schema()
    assert set(schema["properties"]) == set(SweepKeys.__struct_fields__) and schema["required"] == ["topology"]
    population = schema["$defs"]["PopulationKeys"]
    assert population["properties"]["every_steps"]["minimum"] == 1 and population["additionalProperties"] is False


# Messages -------------------------------------------------------------------------------------------------------------


def test_every_message_is_on_the_page() -> None:
    text = messages.page()
    for message in (*get_args(ToSupervisor), *get_args(ToChild), Reply):
        assert f"### {message.__name__}\n" in text


def test_a_field_has_its_default_and_its_meaning() -> None:
    text = messages.page()
    assert '| `phase` | text | `"run"` | run: work. drain: finish the current update' in text
    assert "| `command` | text | required | status, attach, detach, save, stop or kill. |" in text


def test_a_request_of_another_library_is_read_and_its_reply_too() -> None:
    msgpack = pytest.importorskip("msgpack")
    asked = {
        "type": "Request",
        "protocol": PROTOCOL_VERSION,
        "version": __version__,
        "command": "attach",
        "simulators": 2,
    }
    request = decode(msgpack.packb(asked), "supervisor")
    assert request == Request(protocol=PROTOCOL_VERSION, version=__version__, command="attach", simulators=2)
    reply = msgpack.unpackb(encode(Reply(ok=True, text="running", data={"names": ["simulator-2"]})))
    assert reply == {"type": "Reply", "ok": True, "text": "running", "data": {"names": ["simulator-2"]}}
    order = msgpack.unpackb(encode(Order(version=3, learners=[ProcessId("trainer", sole=True)])))
    assert (order["type"], order["version"], order["learners"][0]["role"]) == ("Order", 3, "trainer")
