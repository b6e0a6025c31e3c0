"""What doctor says of plug-ins: each registry's entries, where they come from, and which cannot be loaded and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from actorlearn.algorithms.settings import AlgorithmSpec
from actorlearn.registry import Registry
from launch.commands import doctor


def test_every_registry_is_listed_and_what_cannot_be_loaded_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "strange_rl-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-rl\nVersion: 1.0\n")
    entries = "a2c = actorlearn.algorithms.specs.a2c:SPEC\nbroken = nowhere.at_all:SPEC\n"
    (info / "entry_points.txt").write_text(f"[of.doctors.test]\n{entries}")
    monkeypatch.syspath_prepend(tmp_path)
    strange = Registry("algorithm", "of.doctors.test", AlgorithmSpec)
    monkeypatch.setattr(doctor, "REGISTRIES", (*doctor.REGISTRIES, strange))
    found = {finding.what: finding for finding in doctor.examine()}
    assert found["actorlearn.algorithms"].found == "a2c, c51, dqn, impala, ppo (of actorlearn)"
    assert "tensorboard" in found["actorlearn.writers"].found
    assert found["of.doctors.test"].found == "a2c (of strange-rl)"
    assert "no package 'nowhere' is installed" in found["algorithm broken"].found
    assert found["algorithm broken"].verdict == doctor.WARN and "strange-rl" in found["algorithm broken"].way_out
