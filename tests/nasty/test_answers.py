"""A fast handful: what users' code does to a process that answers one question reaches the user as one line."""

from __future__ import annotations

import time

import msgspec
import pytest

from actorlearn.envs.specs import GymnasiumSettings
from actorlearn.worker.settings import SpacesSettings
from launch.spawning.answers import NoAnswerError, TaskError, TooSlowError, ask_task
from tests.nasty import environments

LIMIT_S = 45.0
ANSWER = {"like": "vector", "images": []}


def ask(name: str, limit_s: float = LIMIT_S, **kwargs: str) -> object:
    """The kind of an environment, which a process without torch tells."""
    env = GymnasiumSettings(id=f"{environments.__name__}:{name}", kwargs=kwargs)
    return ask_task("spaces", msgspec.json.encode(SpacesSettings(env=env)), limit_s)


@pytest.mark.parametrize("name", ["LeavesThread", "LeavesWorker", "LeavesChild"])
def test_what_it_leaves_delays_no_answer(name: str) -> None:
    began_s = time.monotonic()
    assert ask(name, 10 * LIMIT_S) == ANSWER
    assert time.monotonic() - began_s < LIMIT_S


@pytest.mark.parametrize("fault", ["ClosesOutput", "ClosesDescriptors", "PrintsBytes", "DeletesEnvironment"])
def test_what_it_does_to_its_process_changes_no_answer(fault: str) -> None:
    assert ask("AtOnce", fault=fault) == ANSWER


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("Interrupts", r"KeyboardInterrupt$"),
        ("RaisesBase", r"Stop: out of fuel$"),
        ("RaisesForeignText", r"ValueError: колесо отвалилось 🛞 \\udcff \\x1b\[31m\\x07$"),
        ("StrRaises", r"Odd: its text cannot be read, because its __str__ raises RuntimeError$"),
        ("RaisesMegabyte", r"ValueError: wheel [wheel ]{700,800}…[wheel ]{190,200}$"),
    ],
)
def test_whatever_it_raises_is_one_line(fault: str, said: str) -> None:
    with pytest.raises(TaskError, match=said) as error:
        ask("AtOnce", fault=fault)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("Crashes", r"^the process was ended by signal 11, SIGSEGV \(environments.py, line \d+\)$"),
        ("KillsItself", r"^the process was ended by signal 9, SIGKILL$"),
        ("LeavesAtOnceWith3", r"^exit status 3, no answer$"),
    ],
)
def test_however_it_ends_its_process_is_said(fault: str, said: str) -> None:
    with pytest.raises(NoAnswerError, match=said):
        ask("AtOnce", fault=fault)


@pytest.mark.nightly
@pytest.mark.parametrize("fault", ["HangsInStep", "HoldsTheLock"])
def test_where_it_hangs_is_said(fault: str) -> None:
    with pytest.raises(TooSlowError, match=r"^ \(environments.py, line \d+\)$"):
        ask("AtOnce", 20.0, fault=fault)
