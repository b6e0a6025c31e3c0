"""``actorlearn doctor``: findings on this machine, with fake answers of libraries and of the scheduler."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from actorlearn.algorithms.settings import ALGORITHMS, AlgorithmSpec
from actorlearn.registry import Registry
from launch.commands import doctor
from launch.machine.cgroups import Quota
from launch.machine.cores import Cores
from launch.spawning.answers import NoAnswerError
from tests.launch.asking import ask
from tests.packages import installed

ANSWERS: dict[str, Any] = {"scheduling": [True, True, True], "zmq": [[4, 3, 5], "27.0"], "torch": ["9.9", ["GPU A"]]}
"""Answers of child processes, by the library that each is asked about."""


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Answers in place of those of child processes, for tests to change; an exception is raised."""
    known = dict(ANSWERS)

    def answer(command: Sequence[str], _limit_s: float) -> Any:
        (given,) = (given for library, given in known.items() if library in command[-1])
        if isinstance(given, Exception):
            raise given
        return given

    monkeypatch.setattr(doctor, "ask", answer)
    return known


def findings() -> dict[str, doctor.Finding]:
    """All findings of doctor, by their ``what``."""
    return {finding.what: finding for finding in doctor.examine()}


def test_every_registry_is_listed_and_an_entry_that_cannot_be_loaded_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = "a2c = actorlearn.algorithms.specs.a2c:SPEC\nbroken = nowhere.at_all:SPEC\n"
    monkeypatch.syspath_prepend(installed(tmp_path, f"[of.doctors.test]\n{entries}"))
    strange = Registry("algorithm", "of.doctors.test", AlgorithmSpec)
    monkeypatch.setattr(doctor, "REGISTRIES", (*doctor.REGISTRIES, strange))
    found = findings()
    assert found["actorlearn.algorithms"].found == f"{', '.join(ALGORITHMS.names())} (of actorlearn)"
    assert found["actorlearn.modes"].found == "alone, async, gossip, served, sync (of actorlearn)"
    assert "tensorboard" in found["actorlearn.writers"].found
    assert found["of.doctors.test"].found == "a2c (of strange-rl)"
    assert "no module 'nowhere' can be imported" in found["algorithm broken"].found
    assert found["algorithm broken"].verdict == doctor.WARN and "strange-rl" in found["algorithm broken"].way_out


def test_doctor_fails_only_if_a_finding_would_stop_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    fine = [doctor.Finding("cores", "1", doctor.WARN, "allow two"), doctor.Finding("python", "3.11")]
    for given, code in ((fine, 0), ([*fine, doctor.Finding("/dev/shm", "0 B", doctor.STOP, "free some")], 1)):
        monkeypatch.setattr(doctor, "examine", lambda given=given: given)
        result = ask("doctor", "--json")
        assert result.exit_code == code
        assert json.loads(result.stdout)["ok"] is (code == 0)
        assert "allow two" in ask("doctor").stdout


def test_in_a_pipe_each_finding_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such output is searched and copied, so no path in it may be broken or cut."""
    path = "/".join(["", *map("folder-{}".format, range(40)), "python"])
    found = [
        doctor.Finding("python", f"3.11 ({path})"),
        doctor.Finding("nice", "5", doctor.WARN, f"look at {path} now"),
    ]
    monkeypatch.setattr(doctor, "examine", lambda: found)
    lines = ask("doctor").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["what", "found", "what", "to", "do"],
        ["ok", "python", "3.11", f"({path})"],
        ["warn", "nice", "5", "look", "at", path, "now"],
    ]
    assert not any(line.endswith(" ") for line in lines)


def test_doctor_examines_every_part_of_the_machine() -> None:
    found = findings()
    assert {"python", "platform", "cores", "memory", "/dev/shm", "sockets in", "open files", "processes"} <= set(found)
    assert {"scheduler", "classes", "nice", "autogroup", "libzmq", "energy", "ale-py"} <= set(found)
    assert (found["torch"].found, found["gpu"].found) == ("9.9", "GPU A")


@pytest.mark.parametrize(
    ("release", "answer", "verdicts", "said"),
    [
        ("6.12.1-generic", [True, True, True], ["ok", "ok"], "EEVDF, time slices can be set"),
        ("6.8.0-45", [False, True, True], ["warn", "ok"], "EEVDF, time slices cannot be set"),
        ("5.15.0", [False, True, True], ["ok", "ok"], "before EEVDF"),
        ("6.18", [False, False, False], ["warn", "warn"], "EEVDF, time slices cannot be set"),
        ("unheard-of", [False, True, True], ["ok", "ok"], "before EEVDF"),
        ("6.18", NoAnswerError("exit status 1, no answer"), ["warn"], "cannot be queried: exit status 1"),
    ],
)
def test_doctor_reports_the_features_of_the_scheduler(
    release: str,
    answer: Any,
    verdicts: list[str],
    said: str,
    answers: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.release", lambda: release)
    answers["scheduling"] = answer
    found = [finding for what, finding in findings().items() if what in ("scheduler", "classes")]
    assert [finding.verdict for finding in found] == verdicts
    assert said in found[0].found
    assert all(finding.way_out for finding in found if finding.verdict == doctor.WARN)


@pytest.mark.parametrize(("nice", "verdict"), [(0, doctor.OK), (10, doctor.WARN)])
def test_a_nice_value_above_0_is_a_warning(nice: int, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.nice", lambda _more: nice)
    found = findings()["nice"]
    assert found.verdict == verdict
    assert found.found.startswith(f"{nice}; ")


@pytest.mark.parametrize("library", ["torch", "zmq"])
def test_a_broken_library_stops_a_run_and_not_the_doctor(library: str, answers: dict[str, Any]) -> None:
    answers[library] = NoAnswerError("exit status 7, no answer")
    found = findings()["libzmq" if library == "zmq" else library]
    assert (found.verdict, found.found) == (doctor.STOP, "cannot be imported: exit status 7, no answer")


def test_an_old_libzmq_stops_a_run(answers: dict[str, Any]) -> None:
    answers["zmq"] = [[4, 2, 0], "25.0"]
    found = findings()["libzmq"]
    assert (found.verdict, found.found) == (doctor.STOP, "4.2.0 (pyzmq 25.0)")


def test_a_processor_whose_memory_order_is_not_served_stops_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    found = findings()["platform"]
    assert found.verdict == doctor.STOP and "supervision.any_memory_order: true" in found.way_out


@pytest.mark.parametrize(
    ("cores", "verdict", "said"),
    [
        (Cores(4), doctor.OK, "4 of"),
        (Cores(1), doctor.WARN, "1 of"),
        (
            Cores(4, Quota(2.5, Path("/x/cpu.max"), 2)),
            doctor.WARN,
            "cgroup v2 limits CPU time to 2.5 cores (/x/cpu.max)",
        ),
        (Cores(4, Quota(1.5, Path("/x"), 1)), doctor.WARN, "cgroup v1 limits CPU time to 1.5 cores"),
        (Cores(2, Quota(8.0, Path("/x"), 1)), doctor.OK, "cgroup v1 limits CPU time to 8 cores"),
    ],
)
def test_cores_left_by_a_quota_are_shown(
    cores: Cores, verdict: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cores, "here", lambda: cores)
    found = findings()["cores"]
    assert found.verdict == verdict
    assert said in found.found


@pytest.mark.nightly
def test_real_child_processes_answer_the_questions_of_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the fake answers
    found = findings()
    assert [found[what].verdict for what in ("libzmq", "torch")] == [doctor.OK, doctor.OK]
    assert "cannot be queried" not in found["scheduler"].found
