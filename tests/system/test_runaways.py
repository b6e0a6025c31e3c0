"""Processes that environments start end with the run, whoever is killed; no zombies where a supervisor is pid 1."""

from __future__ import annotations

import subprocess

import psutil
import pytest

from launch.spawning import guardian
from tests.runaways import COUNT, lives, new_name, sleepers
from tests.system.conftest import Command, Start
from tests.system.environments import SLEEPERS_VARIABLE
from tests.system.launched import Launched
from tests.waiting import within

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

STARTING_OTHERS = ["catch", "env.id=tests.system.environments:StartsOthers", "total_steps=100_000"]


@pytest.fixture
def name(environment: dict[str, str]) -> str:
    """Mark of the sleepers that the environments start."""
    environment[SLEEPERS_VARIABLE] = new_name()
    return environment[SLEEPERS_VARIABLE]


def environments_run(run: Launched, name: str) -> None:
    """Wait until all environments of both simulators have started theirs, and those of ``describe`` have ended."""
    run.wait_for(run.rows, "row")
    run.wait_for(lambda: len(sleepers(name)) == 2 * 4 * COUNT, "sleepers of all environments")


def guard_of(run: Launched) -> psutil.Process:
    """The guardian of a run, wherever it is in the process tree."""
    guardians = [p for p in psutil.process_iter(["cmdline"]) if guardian.__file__ in (p.info["cmdline"] or ())]
    (found,) = [p for p in guardians if str(run.run_dir) in p.info["cmdline"][-1]]  # by the command or by the logs
    return found


def test_nothing_is_left_of_a_run_whose_supervisor_is_killed(launched: Start, command: Command, name: str) -> None:
    run = launched(*STARTING_OTHERS)
    environments_run(run, name)
    guard = guard_of(run)
    run.kill()
    assert within(10, lambda: not lives(guard.pid))
    assert sleepers(name) == []
    command("clean")
    assert run.leftovers() == []


def test_a_run_continues_with_new_processes_after_its_guardian_is_killed(launched: Start, name: str) -> None:
    run = launched(*STARTING_OTHERS, "checkpoint.every_steps=100")
    environments_run(run, name)
    run.wait_for(lambda: run.events("saved"), "checkpoint")
    guard_of(run).kill()
    for role in ("trainer", "simulator-0", "simulator-1"):
        assert run.wait_for_event("died", role)["cause"] == "signal 9"
        run.wait_for_event("restarted", role, incarnation=1)
    run.wait_for_steps(run.env_steps())
    # Sleepers of the first life that removed their mark cannot be found any more: one of each environment.
    marked = [process for process in sleepers(name) if process.environ()]
    assert len(marked) == 2 * 4 * (COUNT - 1)
    run.full_speed()
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    assert run.leftovers() == []
    lost = sleepers(name)
    assert [process.environ() for process in lost] == [{}] * 8
    for process in lost:
        process.kill()


@pytest.mark.parametrize("proc", [["--mount-proc"], []], ids=["own-proc", "proc-of-others"])
def test_no_zombies_are_left_if_the_supervisor_is_process_1(launched: Start, name: str, proc: list[str]) -> None:
    """As in a container without an init."""
    unshare = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child", *proc]
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no pid namespaces here")
    run = launched(*STARTING_OTHERS, by=unshare)
    environments_run(run, name)
    (supervisor,) = psutil.Process(run.process.pid).children()
    in_simulator = next(
        p for p in supervisor.children(recursive=True) if p.cmdline()[-1].endswith("simulator-0.0.json")
    )
    visit = ["nsenter", f"--target={supervisor.pid}", "--user", "--preserve-credentials", "--pid", "sh", "-c"]
    subprocess.run([*visit, "for n in 1 2 3; do (setsid sleep 0.1 &); done"], check=True)
    in_simulator.kill()
    run.wait_for_event("restarted", "simulator-0", incarnation=1)
    zombies = [p for p in supervisor.children(recursive=True) if p.status() == psutil.STATUS_ZOMBIE]
    assert within(10, lambda: not [p for p in zombies if p.is_running() and p.status() == psutil.STATUS_ZOMBIE])
    assert within(10, lambda: [p.pid for p in supervisor.children()] == [guard_of(run).pid])
    supervisor.terminate()
    run.end()
    assert sleepers(name) == []
    assert run.summary()["status"] == "stopped"
    assert run.leftovers() == []
