"""A visit first reports what is missing, runs its parts in turn, also after a failed one, and can be continued."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.gpu import visit
from benchmarks.gpu.parts import COMMAND_MINUTES, INSTALL_MINUTES, PARTS, VISIT_MINUTES, VisitPart
from benchmarks.gpu.stay import Stay
from benchmarks.gpu.visit import do, gpu
from benchmarks.request import BenchmarkRequest
from benchmarks.tests.gpu.hosts import BARE, RICH, asked
from launch.bench.gpu import GpuHost
from launch.bench.interleaved import Spread
from launch.bench.report import SuiteReport
from launch.errors import FailedError, RunError

NAMES = [part.name for part in PARTS]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> GpuHost:
    """The machine that is found here."""
    found: GpuHost = getattr(request, "param", BARE)
    monkeypatch.setattr(GpuHost, "here", lambda device: found)
    return found


def measuring(stay: Stay) -> SuiteReport:
    found = stay.measure({"a": lambda: 100.0}, 1, start_s=0.0)
    return SuiteReport("gpu-good", ("case", "steps/s"), [("a", "100")], found, "steps/s")


def failing(stay: Stay) -> SuiteReport:
    raise FailedError("the driver is too old")


def short(stay: Stay) -> SuiteReport:
    stay.shortfalls.append("b: not begun")
    return measuring(stay)


def part(name: str, function, minutes: float = 1.0) -> VisitPart:
    return VisitPart(name, minutes, name, function)


def test_the_parts_fit_into_the_visit_and_each_into_a_command() -> None:
    assert sum(each.minutes for each in PARTS) + INSTALL_MINUTES <= VISIT_MINUTES
    assert max(each.minutes for each in PARTS) < COMMAND_MINUTES
    assert len(set(NAMES)) == len(NAMES)


def test_what_a_machine_lacks_is_said_of_every_part_before_anything_starts(
    host: GpuHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = gpu(asked(tmp_path))
    why = "no CUDA device (torch 2.13.0+cpu)"
    said = capsys.readouterr().err.splitlines()
    assert said[1 : 1 + len(NAMES)] == [f"{name}: left out: {why}" for name in NAMES]
    assert [(row[0], row[3], row[4]) for row in made.rows] == [(name, "left out", why) for name in NAMES]
    assert made.as_json()["gpus"] == []


def test_with_no_part_named_they_are_listed_and_nothing_is_done(host: GpuHost) -> None:
    made = gpu(asked(None, parts=()))
    assert [row[0] for row in made.rows] == NAMES
    assert {row[3] for row in made.rows} == {"left out: no CUDA device (torch 2.13.0+cpu)"}


@pytest.mark.parametrize("host", [GpuHost("cuda", 6, "2.13.0", ("GPU A",))], indirect=True)
def test_too_few_cores_are_said_of_the_parts_that_they_matter_to(host: GpuHost) -> None:
    told = {row[0]: row[3] for row in gpu(asked(None, parts=())).rows}
    assert told["cores"].startswith("6 of 16 cores: cases for more are left out")
    assert told["graphs"] == "ready"


def test_one_that_fails_leaves_its_reason_and_the_next_goes_on(tmp_path: Path) -> None:
    found = do([part("bad", failing), part("good", measuring), part("half", short)], asked(tmp_path), RICH)
    assert {name: (each.state, each.reason) for name, each in found.items()} == {
        "bad": ("failed", "the driver is too old"),
        "good": ("done", ""),
        "half": ("partly", "b: not begun"),
    }
    assert (tmp_path / "gpu-good.md").is_file() and (tmp_path / "gpu-good.png").is_file()
    lines = [json.loads(line) for line in (tmp_path / "gpu-parts.jsonl").read_text().splitlines()]
    assert [line["part"] for line in lines] == ["bad", "good", "half"]


def test_the_same_command_again_does_what_is_not_done(tmp_path: Path) -> None:
    plan = [part("good", measuring), part("bad", failing)]
    do(plan, asked(tmp_path), RICH)
    again = [part("good", failing), part("bad", measuring)]
    assert [each.state for each in do(again, asked(tmp_path), RICH).values()] == ["done", "done"]
    on_cpu = do([part("good", failing)], asked(tmp_path, device="cpu"), GpuHost("cpu", 2, "2.13.0"))
    assert on_cpu["good"].state == "failed"  # what was done on another device is not done here


def test_a_part_that_would_not_be_over_in_time_is_not_begun_and_a_shorter_one_is(tmp_path: Path) -> None:
    plan = [part("long", failing, minutes=5.0), part("short", measuring, minutes=1.0)]
    found = do(plan, asked(tmp_path, minutes=2.0), RICH)
    assert [each.state for each in found.values()] == ["not begun", "done"]
    assert "give the same command again" in found["long"].reason


def test_the_overview_has_the_parts_of_earlier_calls_too(host: GpuHost, tmp_path: Path) -> None:
    gpu(asked(tmp_path, parts=("pong",)))
    assert [row[0] for row in gpu(asked(tmp_path, parts=("cores",))).rows] == ["cores", "pong"]


def test_an_unknown_part_and_a_missing_folder_are_refused(host: GpuHost) -> None:
    with pytest.raises(RunError, match="--part kernels: gpu has no such part; choose one of tests, servers"):
        gpu(asked(None, parts=("kernels",)))
    with pytest.raises(RunError, match="-o results-gpu"):
        gpu(asked(None))


@pytest.mark.system
@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_the_whole_plan_can_be_tried_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One small case of each part; tests/launch/bench/test_gpu.py checks the topologies of all cases."""
    measure = Stay.measure

    def measure_last(stay: Stay, cases: Mapping[str, Callable[[], float]], repetitions: int) -> dict[str, Spread]:
        case = list(cases)[-1]
        return measure(stay, {case: cases[case]}, repetitions)

    monkeypatch.setattr(Stay, "measure", measure_last)
    small = ("simulators.envs=4", "algorithm.horizon=5")
    request = BenchmarkRequest("pong.yaml", small, 1, 1.0, output=tmp_path, parts=("all",), device="cpu")
    patient = [replace(part, minutes=60.0) for part in PARTS]  # on a busy machine too
    found = dict(do(patient, request, GpuHost.here("cpu")))
    assert found.pop("tests").reason.endswith("were skipped: no CUDA device")
    assert re.match("a server, 2 groups, seed [0-9]+: not at 18", found.pop("pong").reason)  # after seconds
    assert {name: (each.state, each.reason) for name, each in found.items()} == dict.fromkeys(found, ("done", ""))
    for part in (part for part in PARTS if part.name != "pong"):
        assert (tmp_path / f"gpu-{part.name}.md").is_file()
        assert (tmp_path / f"gpu-{part.name}.png").is_file()


def test_the_document_has_the_parts_and_their_minutes() -> None:
    page = (visit.KIT.parents[1] / "benchmarks" / "README.md").read_text()
    told = re.findall(r"^\| `([a-z]+)` \| ([\d.]+) \|", page.partition("## A machine with a GPU")[2], re.MULTILINE)
    assert told == [(part.name, f"{part.minutes:g}") for part in PARTS]
