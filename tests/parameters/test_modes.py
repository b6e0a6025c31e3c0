"""Specs of the modes of several learners: names, settings, segments, keys and rules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from actorlearn.address import ByLearner, Folders, Shm
from actorlearn.parameters.modes import MODES, LearnersAsked, ModeSpec, Sizes, mode_of
from actorlearn.parameters.settings import GossipSettings, LearnersSettings, ParameterServersSettings

FOLDERS = Folders(Path("/dev/shm/run"), Path("/tmp/run"), Path("runs/run"))
SIZES = Sizes(weights=100, statistics=10, vectors=2)
every_mode = pytest.mark.parametrize("mode", MODES.specs(), ids=lambda mode: mode.name)


def asked(optimizer: str = "adam", gossip: GossipSettings | None = None, **learners: int) -> LearnersAsked:
    own = LearnersSettings(**{"count": 2, **learners})  # type: ignore[arg-type]
    return LearnersAsked(own, gossip or GossipSettings(), optimizer, 7, servers=ParameterServersSettings(count=2))


@pytest.mark.parametrize(
    ("asked_as", "learners", "name"),
    [
        *(("sync", 1, "alone"), ("sync", 2, "sync"), ("async", 1, "async")),
        *(("async", 2, "async"), ("gossip", 1, "gossip"), ("gossip", 9, "gossip")),
    ],
)
def test_one_learner_in_mode_sync_is_alone_and_other_modes_stay(asked_as: str, learners: int, name: str) -> None:
    assert MODES.asked_for(asked_as, learners) is MODES.spec(name)


def test_mode_async_with_parameter_servers_is_mode_served() -> None:
    assert MODES.asked_for("async", 2, 1) is MODES.asked_for("async", 1, 3) is MODES.spec("served")
    assert MODES.asked_for("sync", 2, 1) is MODES.spec("sync")


@every_mode
def test_a_mode_makes_the_settings_that_its_own_exchange_reads(mode: ModeSpec) -> None:
    told = [mode.exchange(learner, 0, asked(), FOLDERS) for learner in range(2)]
    assert all(type(settings) is mode.settings and mode_of(settings) is mode for settings in told)
    assert mode.in_step == (told[0].together > 0)


@every_mode
def test_each_segment_that_a_learner_opens_is_in_its_modes_layout(mode: ModeSpec) -> None:
    for transport in ("shm", "zmq"):
        wanted = asked(gossip=GossipSettings(transport=transport, gradient_every=5))  # type: ignore[arg-type]
        settings = mode.exchange(1, 0, wanted, FOLDERS)
        told = [getattr(settings, key) for key in settings.__struct_fields__]
        own = [address.of(1) if isinstance(address, ByLearner) else address for address in told]
        opened = {address.file.name for address in own if isinstance(address, Shm)}
        made = {layout.name for layout in mode.run_segments(wanted, SIZES)}
        made |= {f"{layout.name}-1" for layout in mode.learner_segments(wanted, SIZES)}
        barrier = {"learners"}  # made by those who join
        assert opened - barrier == made


@every_mode
def test_a_key_that_some_modes_read_is_unread_in_the_others(mode: ModeSpec) -> None:
    assert {key for key in MODES.keys if not mode.unread(key)} == mode.keys
    assert not mode.unread("learners.count")


def test_rules_of_a_mode_are_checked_in_that_mode_only() -> None:
    several = asked("rmsprop", local_steps=2)
    lists = asked(gossip=GossipSettings(graph=[[]]))
    refused = {mode.name: [*mode.refusals(several), *mode.refusals(lists)] for mode in MODES.specs()}
    assert {name: [refusal.key for refusal in found] for name, found in refused.items()} == {
        **{"alone": [], "sync": []},
        **{"served": ["learners.local_steps"], "async": ["learners.local_steps"], "gossip": ["gossip.graph"]},
    }


def test_the_table_of_modes_does_not_import_torch() -> None:
    said = "import sys, actorlearn.parameters.modes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", said], check=False).returncode == 0
