"""Which processes are refused when they say Hello, and what happens then."""

from __future__ import annotations

from typing import Any

import pytest

from actorlearn import __version__
from actorlearn.wire.messages import PROTOCOL_VERSION, Refused
from launch.plan.plan import Start
from launch.supervision import events as ev
from tests.identities import process
from tests.launch.supervision.story import KILL, ROLES, SHAPE, Story, exits, hello, spawned


@pytest.mark.parametrize(
    ("other", "field", "said", "expected"),
    [
        ({"protocol": 99}, "protocol", "99", str(PROTOCOL_VERSION)),
        ({"version": "0.0.1"}, "version", "0.0.1", __version__),
        ({"run_id": "run-2"}, "run_id", "run-2", "run-1"),
        ({"id": process("simulator-9")}, "name", "simulator-9.0", "simulator-0.0"),
        ({"shape": {**SHAPE, "env.id": "Acrobot-v1"}}, "env.id", "Acrobot-v1", "CartPole-v1"),
        ({"shape": {"env.id": "CartPole-v1", "algorithm.horizon": "16"}}, "observation", "missing", "float32[4]"),
        ({"shape": {**SHAPE, "colour": "red"}}, "colour", "red", "no such field"),
    ],
)
def test_a_hello_with_a_wrong_value_is_refused_with_both_values(
    other: dict[str, Any], field: str, said: str, expected: str
) -> None:
    story = Story().at(0, ev.Begin()).at(1, spawned("simulator-0")).at(2, hello("simulator-0", **other))
    (send,) = story.did(ev.Send)
    assert isinstance(send.message, Refused)
    assert send.message.reason.startswith(f"simulator-0: its {field} is {said}, but the run needs {expected}; ")
    assert story.notes == [("refused", "simulator-0", 0, send.message.reason)]
    story.at(2.5, ev.Exited("simulator-0", 0, 3)).at(60, ev.Tick())
    assert story.state("simulator-0") == "fatal"
    assert story.did(Start) == []


def test_a_refused_process_that_stays_is_killed_after_2_s() -> None:
    story = Story().at(0, ev.Begin()).at(1, spawned("simulator-0"), hello("simulator-0", run_id="x"))
    assert story.at(2.9, ev.Tick()).did(ev.Kill) == []
    assert story.at(3.0, ev.Tick()).did(ev.Kill) == [ev.Kill("simulator-0", 0, KILL)]


def test_only_simulators_are_asked_for_their_shape() -> None:
    story = Story().at(0, ev.Begin()).at(1, spawned("trainer"), hello("trainer", shape={"env.id": "other"}))
    assert story.state("trainer") == "running"


def test_a_refused_trainer_fails_the_run() -> None:
    story = Story().at(0, ev.Begin()).at(1, spawned("trainer"), hello("trainer", version="0"))
    story.at(1.5, ev.Exited("trainer", 0, 3)).at(2, *exits(n for n in ROLES if n != "trainer"))
    assert story.done is not None
    assert "its version is 0" in story.done.error
