"""Bad environments, as a user would run them: each gets one clear line, nothing hangs, and nothing is left behind.

REFUSED are refused before the run. ACCEPTED do no harm. LATE fail in a run, after 30 steps of an environment.
``conftest.py`` of the checkout looks for processes, shared memory and sockets after each test.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from launch.runs.find import find
from tests.nasty import environments
from tests.system.conftest import CONFIGS, Command, Start
from tests.system.launched import Launched

# Not system: these runs mostly wait, so `make nightly` runs them beside other tests.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

SMALL = ["model.hidden_sizes=[8]", "simulators.count=1", "simulators.envs=2", "algorithm.horizon=8"]
MOST_CHARACTERS = 2_000
START_S = 40
"""Limit for trying an environment, which hanging ones use up."""

FINITE = "it must be finite in float32"
NUMBER = "it must be one number"
FLAG = "it must be True or False"
SPACE = "to a space of gymnasium.spaces"
WRAP = "wrap the environment (env.wrappers)"
TIMEOUT = f"takes longer than {START_S} s, the limit supervision.start_s"

REFUSED = {
    "ObservationOfOtherShape": ["the shape of observation is (5,)", "it must be (4,)"],
    "ObservationOfText": ["the dtype of observation is '<U1'", "it must be float32"],
    "ObservationOfObjects": ["the dtype of observation is 'object'", "it must be float32"],
    "ObservationIsNone": ["the shape of observation is ()"],
    "ObservationIsRagged": ["observation is [[1.0], [1.0, 2.0]]", "it must be an array of shape (4,)"],
    "ObservationNeedsGradient": ["observation is tensor(", "it must be an array of shape (4,)"],
    "ObservationNan": ["observation[2] is nan", FINITE],
    "ObservationInf": ["observation[2] is inf", FINITE],
    "ObservationMinusInf": ["observation[2] is -inf", FINITE],
    "RewardNone": ["reward is None", NUMBER],
    "RewardText": ["reward is '1.0'", NUMBER],
    "RewardArray": ["reward is array([0., 0.])", NUMBER],
    "RewardArrayOfOne": ["reward is array([0.])", NUMBER],
    "RewardHuge": ["reward is 1e+300", FINITE],
    "RewardHugeInteger": ["reward is 1000", FINITE],
    "RewardNan": ["reward is nan", FINITE],
    "RewardInf": ["reward is inf", FINITE],
    "RewardMinusInf": ["reward is -inf", FINITE],
    "TerminatedInteger": ["terminated is 1", FLAG],
    "TerminatedNone": ["terminated is None", FLAG],
    "TerminatedArray": ["terminated is array([False, False])", FLAG],
    "TruncatedText": ["truncated is 'no'", FLAG],
    "ReprRaises": ["cannot take a step: RuntimeError: no picture of me (environments.py, line"],
    "StepOfFour": ["step() is (", "it must return 5 values"],
    "ResetOfOne": ["reset() is array(", "it must return 2 values"],
    "ResetWithoutSeed": ["cannot be reset: TypeError", "unexpected keyword argument 'seed'"],
    "WrongOnResetOnly": ["the shape of observation is (2, 2)", "it must be (4,)"],
    "NoObservationSpace": ["has observation_space None", SPACE],
    "MissingSpaces": ["has observation_space None", SPACE],
    "SpaceIsText": ["has observation_space 'four numbers'", SPACE],
    "OldGymSpace": ["has observation_space an object of class OldGymSpace.Box", SPACE],
    "UnknownSpace": ["Sequence(Discrete(3)", "neither Box, Discrete, MultiDiscrete nor MultiBinary", WRAP],
    "UnboundedInteger": ["at most 65,536 are allowed", WRAP],
    "NoActionSpace": ["has action_space None", SPACE],
    "UnsupportedActions": ["has action space Dict", WRAP],
    "UnboundedActions": ["all with bounds", WRAP],
    "SpaceRaises": ["cannot be made: LookupError: the map of the world is lost (environments.py, line"],
    "HangsInInit": [TIMEOUT, " (environments.py, line", "raise supervision.start_s"],
    "HangsInReset": [TIMEOUT, " (environments.py, line", "raise supervision.start_s"],
    "HangsInStep": [TIMEOUT, " (environments.py, line", "raise supervision.start_s"],
    "HangsInClose": [TIMEOUT, " (environments.py, line", "raise supervision.start_s"],
    "HoldsTheLock": [TIMEOUT, " (environments.py, line", "raise supervision.start_s"],
    "StopsItself": [TIMEOUT, "raise supervision.start_s"],
    "Crashes": ["has died: the process was ended by signal 11, SIGSEGV (environments.py, line"],
    "TerminatesItself": ["has died: the process was ended by signal 15, SIGTERM"],
    "KillsItself": ["has died: the process was ended by signal 9, SIGKILL"],
    "LeavesAtOnceWith0": ["has died: exit status 0, no answer", "os._exit"],
    "LeavesAtOnceWith3": ["has died: exit status 3, no answer", "os._exit"],
    "ExitsWith0": ["cannot take a step: SystemExit: 0 (environments.py, line"],
    "ExitsWithText": ["cannot take a step: SystemExit: the licence has expired (environments.py, line"],
    "Interrupts": ["cannot take a step: KeyboardInterrupt (environments.py, line"],
    "RaisesBase": ["cannot take a step: Stop: out of fuel (environments.py, line"],
    "RaisesInInit": ["cannot be made: FileNotFoundError: the track is at home"],
    "RaisesInReset": ["cannot be reset: OSError: no licence (environments.py, line"],
    "RaisesInStep": ["cannot take a step: ArithmeticError: the wheel fell off (environments.py, line"],
    "RaisesInClose": ["cannot be closed: ArithmeticError: the door is stuck (environments.py, line"],
    "RaisesForeignText": ["колесо отвалилось 🛞 \\udcff \\x1b[31m\\x07 (environments.py, line"],
    "RaisesMegabyte": ["cannot take a step: wheel wheel", "wheel (environments.py, line"],
    "StrRaises": ["Odd: its text cannot be read, because its __str__ raises RuntimeError (environments.py, line"],
    "RaisesForEver": ["RecursionError: maximum recursion depth exceeded (environments.py, line"],
    "OutOfMemory": ["MemoryError: Unable to allocate 8.00 PiB", " (environments.py, line"],
    "LeavesDescriptors": ["OSError: [Errno 24] Too many open files", " (environments.py, line"],
    "tests.nasty.raises:Any": ["importing 'tests.nasty.raises' fails: ImportError: the engine needs a key"],
    "tests.nasty.waits:Any": [TIMEOUT, " (waits.py, line 5)", "raise supervision.start_s"],
}
"""Environment -> words of the line."""

ACCEPTED = [
    "ObservationIsList",
    "ObservationIsTensor",
    "ObservationOutsideItsSpace",
    "InfoNone",
    "NeverEnds",
    "EndsAtOnce",
    "WideActions",
    "RaisesInDel",
    "RaisesInRender",
    "LeavesChild",
    "LeavesThread",
    "LeavesWorker",
    "GrowsAlways",
    "PrintsMegabytes",
    "PrintsBytes",
    "ClosesOutput",
    "ClosesDescriptors",
    "ChangesFolder",
    "ChangesHandlers",
    "ChangesSeeds",
    "ChangesMask",
    "ClearsEnvironment",
    "DeletesEnvironment",
    "ChangesDefaults",
]

IN_LOG = "its last output is in logs/simulator-0.log"
LATE = {
    "ObservationOfOtherShape": ["the shape of observation is (5,)", "it must be (4,)"],
    "ObservationNan": ["ObservationNan': observation[2] is nan", FINITE],
    "RewardNone": ["RewardNone': reward is None", NUMBER],
    "HangsInStep": ["no sign of life for", "the process waits", "supervision.simulator_hang_s", "logs/simulator-0.log"],
    "HoldsTheLock": ["no sign of life for", "computes", "supervision.simulator_spin_s", "logs/simulator-0.log"],
    "StopsItself": ["no sign of life for", "was stopped by a signal or a debugger", "supervision.simulator_hang_s"],
    "Crashes": ["signal 11", IN_LOG],
    "KillsItself": ["signal 9", IN_LOG],
    "TerminatesItself": ["exit 0, by SIGTERM or because its code called os._exit", IN_LOG],
    "LeavesAtOnceWith0": ["exit 0, by SIGTERM or because its code called os._exit", IN_LOG],
    "LeavesAtOnceWith3": ["exit 3", IN_LOG],
    "ExitsWith0": ["SystemExit: 0 (environments.py, line"],
    "Interrupts": ["KeyboardInterrupt (environments.py, line"],
    "RaisesBase": ["Stop: out of fuel (environments.py, line"],
    "RaisesInStep": ["ArithmeticError: the wheel fell off (environments.py, line"],
    "RaisesForeignText": ["ValueError: колесо отвалилось 🛞 \\udcff \\x1b[31m\\x07 (environments.py, line"],
    "RaisesMegabyte": ["ValueError: wheel wheel", "wheel (environments.py, line"],
    "StrRaises": ["Odd: its text cannot be read, because its __str__ raises RuntimeError (environments.py, line"],
    "LeavesDescriptors": ["exit 1", IN_LOG],
    "DifferentSpaces": ["DifferentSpaces' has action space Discrete(3), but environment 0 has Discrete(2)"],
}
"""Environment -> words of the line with which the run ends, and of its summary."""

SMOKE = {"Crashes", "RaisesMegabyte"}


def named(name: str) -> str:
    return f"env.id={name if ':' in name else f'{environments.__name__}:{name}'}"


def marked(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.smoke) if name in SMOKE else name for name in names]


def lived(launched: Start, name: str, *overrides: str) -> Launched:
    """A short run with this environment, which has ended and left nothing."""
    limits = [
        "supervision.restarts=1",
        "supervision.restarts_within_s=100_000",
        "supervision.simulator_hang_s=5",
        "supervision.simulator_spin_s=15",
    ]
    run = launched("catch", named(name), *SMALL, *limits, "total_steps=400", *overrides)
    run.end(300)
    assert "Traceback" not in run.screen() and run.stderr.read_text() == ""
    assert run.leftovers() == [] and not find(str(run.run_dir)).alive
    return run


@pytest.mark.parametrize("name", marked(REFUSED))
def test_one_that_cannot_be_used_is_refused_in_one_line(name: str, command: Command) -> None:
    done = command("check", CONFIGS / "catch.yaml", named(name), *SMALL, f"supervision.start_s={START_S}")
    assert done.returncode == 2, done
    (line,) = done.stderr.splitlines()
    assert line.startswith("actorlearn: ") and line.isprintable() and len(line) < MOST_CHARACTERS
    assert name in line and [words for words in REFUSED[name] if words not in line] == [], line
    assert done.stdout == ""


@pytest.mark.parametrize("name", marked(ACCEPTED))
def test_one_that_does_no_harm_is_learned_from(name: str, launched: Start) -> None:
    run = lived(launched, name)
    assert run.summary()["status"] == "finished" and run.process.returncode == 0, run.screen()
    assert run.events("died") == []


@pytest.mark.parametrize("name", LATE)
def test_one_that_fails_in_a_run_ends_it_with_one_line(name: str, launched: Start) -> None:
    run = lived(launched, name, "env.kwargs.after=30")
    assert run.process.returncode == 1, run.screen()
    (line,) = (line for line in run.stdout.read_text().splitlines() if "  failed: simulator-0: " in line)
    for text in (line, run.summary()["error"]):
        assert [words for words in LATE[name] if words not in text] == [], text
        assert text.isprintable() and len(text) < MOST_CHARACTERS


@pytest.mark.parametrize("name", ["HangsInClose", "RaisesInClose"])
def test_one_that_cannot_be_closed_at_the_end_does_not_keep_a_run_from_finishing(name: str, launched: Start) -> None:
    run = lived(launched, name, "env.kwargs.after=30")
    assert run.summary()["status"] == "finished" and run.process.returncode == 0, run.screen()
