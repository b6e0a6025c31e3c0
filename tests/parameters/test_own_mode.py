"""A mode of another package, registered by one entry point: its plan, its keys, and a run of two learners."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.packages import installed, parsed_with
from tests.sizes import ROOT

EXCHANGE = '''
"""Every few updates a learner's weights become the mean of all learners' newest; nobody is waited for."""

import numpy as np
import torch

from actorlearn.memory.shared import Segment
from actorlearn.parameters.alone import Alone
from actorlearn.parameters.interface import Agreed
from actorlearn.parameters.shared_counts import SharedCounts


class Averaging(Alone):
    def __init__(self, settings, learner):
        super().__init__(settings, learner)
        self.settings = settings
        self.averages = 0
        self.rows = Segment.open(settings.rows.file)["rows"]
        self.counts = SharedCounts(Segment.open(settings.counts.file), settings.rank)

    def join(self, env_steps, updates, position):
        joined = super().join(env_steps, updates, position)
        if not self.counts.begun:
            self.counts.begin(env_steps, updates)
        return joined

    def agree(self, env_steps, optimizer_steps, position, draining=False):
        own = super().agree(env_steps, optimizer_steps, position, draining)
        steps, updates = self.counts.total
        return own if draining else Agreed(steps + env_steps, updates + 1, draining)

    def settle(self):
        super().settle()
        self.counts.add(self.updates, self._batch_steps)
        if self.updates % self.settings.every_updates == 0:
            self.rows[self.settings.rank] = self.weights.numpy()
            there = self.rows[np.isfinite(self.rows).all(1)]
            self.weights.copy_(torch.from_numpy(there.mean(0)))
            self.averages += 1

    def metrics(self):
        return {"averages": self.averages}
'''
SPEC = """
from typing import Annotated

from msgspec import Meta

from actorlearn.address import Shm
from actorlearn.memory.fields import Field
from actorlearn.parameters.modes import Layout, ModeSpec
from actorlearn.parameters.settings import ExchangeSettings, ModeSection
from actorlearn.parameters.shared_counts import counts_fields


class AveragingSection(ModeSection, frozen=True, kw_only=True):
    every_updates: Annotated[int, Meta(ge=1, le=1_000, description="updates between two averages")] = 4


class AveragingSettings(ExchangeSettings, tag="averaging", frozen=True, kw_only=True):
    rank: int
    rows: Shm
    counts: Shm
    every_updates: int


class AveragingMode(ModeSpec):
    def exchange(self, learner, incarnation, asked, folders):
        return AveragingSettings(
            rank=learner,
            rows=folders.segment("averaging"),
            counts=folders.segment("counts"),
            every_updates=asked.section.every_updates,
        )

    def run_segments(self, asked, sizes):
        count = asked.learners.count
        return [
            Layout("averaging", [Field("rows", "float32", (count, sizes.weights), float("nan"))], "weights of each"),
            Layout("counts", counts_fields(count), "what each learner has learned from"),
        ]


SPEC = AveragingMode(
    name="averaging",
    made_by="averaging:Averaging",
    settings=AveragingSettings,
    section=AveragingSection,
    does="the mean of all weights",
    own_weights=True,
    inexact="weights are averaged when they happen to come",
)
"""
TOPOLOGY = "env: {id: actorlearn.envs.catch:Catch}"
KEYS = ["simulators.count=1", "simulators.envs=4", "trainer.threads=1", "inference.count=0", "report.every_s=0.2"]
TWO = [*KEYS, "mode=averaging", "learners.count=2", "averaging.every_updates=2"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder of packages with the mode in it, as an installer leaves it."""
    modules = {"averaging": EXCHANGE, "averaging_mode": SPEC}
    folder = installed(tmp_path / "site", "[actorlearn.modes]\naveraging = averaging_mode:SPEC\n", modules, "averaging")
    (folder / "catch.yaml").write_text(TOPOLOGY)
    return folder


def actorlearn(package: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command with the package installed."""
    environment = {**os.environ, "PYTHONPATH": f"{package}:{ROOT}"}
    command = [sys.executable, "-m", "actorlearn", *map(str, words)]
    return subprocess.run(
        command, env=environment, cwd=package, capture_output=True, text=True, timeout=110, check=False
    )


def test_a_plan_has_the_mode_of_a_package_and_its_section(package: Path) -> None:
    checked = actorlearn(package, "check", "catch.yaml", *TWO, "--json")
    assert checked.returncode == 0, checked.stderr
    topology = json.loads(checked.stdout)["topology"]
    assert (topology["mode"], topology["averaging"]) == ("averaging", {"every_updates": 2})
    assert "gossip" not in topology


def test_wrong_keys_of_modes_are_refused_with_a_hint(package: Path) -> None:
    expected = {
        "mode=averagin": "must be async or averaging or gossip or sync; did you mean averaging?",
        "averaging.every_updates=2": "mode sync does not use this key; mode averaging does",
        "averaging.every_updates=0": "averaging.every_updates = 0: must be at least 1 and at most 1_000",
        "averaging.evry_updates=2": (
            "section averaging has no key 'evry_updates'; did you mean averaging.every_updates?"
        ),
        "mode=alone": "must be async or averaging or gossip or sync",
    }
    said = parsed_with(package, TOPOLOGY, [[key] for key in expected])
    assert [text for text, part in zip(said, expected.values(), strict=True) if part not in text] == []


def test_the_section_of_a_mode_is_dropped_if_another_mode_is_chosen(package: Path) -> None:
    whole = f"{TOPOLOGY}\nmode: averaging\naveraging: {{every_updates: 8}}\n"
    own, changed = map(msgspec.yaml.decode, parsed_with(package, whole, [KEYS, [*KEYS, "mode=gossip"]]))
    assert own["averaging"] == {"every_updates": 8}
    assert changed["mode"] == "gossip" and "averaging" not in changed


@pytest.mark.timeout(120)
def test_two_learners_train_in_the_mode_of_a_package(package: Path) -> None:
    done = actorlearn(package, "run", "catch.yaml", *TWO, "total_steps=8_000", "--run-dir", "run")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (package / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["env_steps"] >= 8_000
    assert rows[-1]["averages"] > 10
    summary = json.loads((package / "run" / "summary.json").read_text())
    assert (summary["status"], summary["deaths"]) == ("finished", 0)
    assert max(int(each.name) for each in (package / "run" / "checkpoints").glob("[0-9]*")) >= 8_000
    told = [json.loads((package / "run" / "settings" / f"trainer-{n}.0.json").read_text()) for n in range(2)]
    assert [one["exchange"]["mode"] for one in told] == ["averaging"] * 2
    assert [one["exchange"]["rank"] for one in told] == [0, 1]
