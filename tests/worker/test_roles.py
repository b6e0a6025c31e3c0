"""A role of somebody else's: its module and its spec, with one line of entry points; a whole run has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from actorlearn.worker.roles import ROLES
from tests.packages import installed, parsed_with
from tests.sizes import ROOT

MODULE = '''
"""Counts the versions of the weights that were published since it last looked."""

from actorlearn.parameters.published import Published
from actorlearn.wire.channel import Waiter
from actorlearn.wire.messages import Report
from actorlearn.worker.worker import POLL_MS, Worker


def run(settings):
    worker = Worker(settings)
    published = Published.open(settings.weights)
    waiter = Waiter(None, worker.control.dealer)
    worker.hello()
    last = -1
    while worker.poll():
        if published.version > last:
            last = published.version
            worker.control.send(Report(row={"audited_versions": last + 1, "audited_in_steps_of": settings.steps_of}))
        waiter.wait(POLL_MS)
    worker.control.close()
'''
SPEC = """
from typing import Annotated

from msgspec import Meta

from actorlearn.address import Shm
from actorlearn.worker.roles import RolePlan, RoleSection, RoleSpec
from actorlearn.worker.settings import ProcessSettings


class AuditorSettings(ProcessSettings, frozen=True):
    weights: Shm
    device: str
    steps_of: int


class AuditorSection(RoleSection, frozen=True, kw_only=True):
    steps_of: Annotated[int, Meta(ge=1, description="versions")] = 1


def settings(plan, common, start):
    keys = plan.topology.roles["auditor"]
    return AuditorSettings(
        **common,
        weights=plan.addresses.own("weights", 0),
        device=plan.devices[start.process.role],
        steps_of=keys.steps_of,
    )


PLAN = RolePlan(settings=settings, does=lambda topology: "counts published versions", device=lambda topology: "meta")
SPEC = RoleSpec(
    name="auditor",
    made_by="auditor:run",
    settings=AuditorSettings,
    planned_by="auditor_role:PLAN",
    section=AuditorSection,
    scope="run",
    needed="none",
    latency_bound=False,
    woken=False,
)
"""
TOPOLOGY = "env: {id: actorlearn.envs.catch:Catch}"
KEYS = ["simulators.count=1", "simulators.envs=4", "trainer.threads=1", "inference.count=0", "report.every_s=0.2"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder of packages with the role in it, as an installer leaves it."""
    modules = {"auditor": MODULE, "auditor_role": SPEC}
    return installed(tmp_path / "site", "[actorlearn.roles]\nauditor = auditor_role:SPEC\n", modules, "auditor")


def actorlearn(package: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """The command line of who has installed the package."""
    (package / "catch.yaml").write_text(TOPOLOGY)
    environment = {**os.environ, "PYTHONPATH": f"{package}:{ROOT}"}
    command = [sys.executable, "-m", "actorlearn", *map(str, words)]
    return subprocess.run(
        command, env=environment, cwd=package, capture_output=True, text=True, timeout=110, check=False
    )


def test_shipped_roles_start_in_an_order_that_follows_from_what_they_are() -> None:
    names = ["trainer", "inference", "simulator", "evaluator", "parameter_server"]
    assert [role.name for role in ROLES.specs()] == names


def test_a_plan_has_a_role_that_a_package_brings(package: Path) -> None:
    checked = actorlearn(package, "check", "catch.yaml", *KEYS, "roles.auditor.count=2", "--json")
    assert checked.returncode == 0, checked.stderr
    plan = json.loads(checked.stdout)
    assert [process["name"] for process in plan["processes"]] == ["trainer", "simulator-0", "auditor-0", "auditor-1"]
    assert plan["topology"]["roles"] == {"auditor": {"count": 2, "hang_s": 30.0, "spin_s": 600.0, "steps_of": 1}}


def test_keys_of_roles_are_refused_as_others_are(package: Path) -> None:
    expected = {
        "roles={auditr: {}}": "no installed package has a role of this name; the roles are auditor",
        "roles={trainer: {}}": "this role is built in; write its keys in its own section of the topology",
        "roles.auditor.count=-1": "roles.auditor.count = -1: must be at least 0 and at most 64",
        "roles.auditor={coun: 1}": "section roles.auditor has no key 'coun'; did you mean roles.auditor.count?",
        "roles.auditor.spin_s=3": "at least hang_s, which is 30; write 30 or more, or a smaller hang_s",
    }
    said = parsed_with(package, TOPOLOGY, [[key] for key in expected])
    assert [text for text, part in zip(said, expected.values(), strict=True) if part not in text] == []


@pytest.mark.parametrize(("module", "key"), [("auditor", "roles: 'auditor' cannot be used"), ("PLAN", "roles.auditor")])
def test_a_role_whose_code_is_not_there_is_refused(package: Path, module: str, key: str) -> None:
    if module == "PLAN":
        spec = package / "auditor_role.py"
        spec.write_text(spec.read_text().replace("auditor_role:PLAN", "nowhere:PLAN"))
    else:
        (package / "auditor.py").unlink()
    refused = actorlearn(package, "check", "catch.yaml", *KEYS, "roles.auditor.count=1")
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert key in line and "no module" in line


def test_a_broken_role_that_a_topology_does_not_have_breaks_nothing(package: Path) -> None:
    spec = package / "auditor_role.py"
    spec.write_text(spec.read_text().replace("auditor_role:PLAN", "nowhere:PLAN"))
    checked = actorlearn(package, "check", "catch.yaml", *KEYS)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.nightly
@pytest.mark.timeout(120)
def test_a_run_starts_watches_and_ends_a_role_that_a_package_brings(package: Path) -> None:
    done = actorlearn(
        package, "run", "catch.yaml", *KEYS, "total_steps=15_000", "roles.auditor.count=1", "--run-dir", "run"
    )
    assert done.returncode == 0, done.stderr
    rows, events = (
        [json.loads(line) for line in (package / "run" / name).read_text().splitlines()]
        for name in ("metrics.jsonl", "events.jsonl")
    )
    assert rows[-1]["audited_versions"] > 1
    assert rows[-1]["env_steps"] > 0
    assert json.loads((package / "run" / "settings" / "auditor-0.0.json").read_text())["device"] == "meta"
    of_it = [event["kind"] for event in events if event["process"] == "auditor-0"]
    assert of_it == ["spawned", "ready", "ended"]
