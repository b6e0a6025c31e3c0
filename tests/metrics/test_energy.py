"""Frames per kilojoule: from counters that wrap, are missing, are root's, or go away."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from actorlearn.metrics.energy import Energy

SPAN_UJ = 262_143_328_850


def domain(powercap: Path, name: str, kind: str, energy_uj: int = 0) -> Path:
    """One folder of powercap, as Linux has it."""
    folder = powercap / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{kind}\n")
    (folder / "max_energy_range_uj").write_text(f"{SPAN_UJ}\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    return folder / "energy_uj"


def processor(powercap: Path, frames: int = 0, energy_uj: int = 0) -> tuple[Path, Energy]:
    """The counter of a machine with one, and who has read it once, after so many frames."""
    counter = domain(powercap, "intel-rapl:0", "package-0", energy_uj)
    energy = Energy(powercap)
    assert energy.row(frames) == {}  # the first report has none before it
    return counter, energy


def per_joule(frames: int, joules: float) -> dict[str, Any]:
    """The row of so many."""
    return {"frames_per_kj": pytest.approx(1000 * frames / joules)}


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine has."""
    monkeypatch.setitem(sys.modules, "pynvml", None)


def test_frames_per_kilojoule_between_two_reports(tmp_path: Path) -> None:
    package = domain(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    memory = domain(tmp_path, "intel-rapl:0:1", "dram", 1_000_000)
    energy = Energy(tmp_path)
    assert energy.row(1_000) == {}
    package.write_text("95000000")  # 90 J
    memory.write_text("11000000")  # 10 J
    assert energy.row(3_000) == per_joule(2_000, 100)
    package.write_text("145000000")
    assert energy.row(3_000) == {"frames_per_kj": 0.0}
    assert energy.said() == "package-0 (intel-rapl:0), dram (intel-rapl:0:1)"


def test_a_counter_that_begins_again_at_nought_has_gone_on(tmp_path: Path) -> None:
    package, energy = processor(tmp_path, energy_uj=SPAN_UJ - 40_000_000)
    package.write_text("10000000")
    assert energy.row(500) == per_joule(500, 50)


def test_what_is_counted_elsewhere_is_not_counted_twice(tmp_path: Path) -> None:
    counted = domain(tmp_path, "intel-rapl:0", "package-0")
    for name, kind in (("intel-rapl:0:0", "core"), ("intel-rapl:1", "psys"), ("intel-rapl-mmio:0", "package-0")):
        domain(tmp_path, name, kind).write_text("1")
    energy = Energy(tmp_path)
    energy.row(0)
    for path in tmp_path.glob("*/energy_uj"):
        path.write_text("2000000")
    counted.write_text("1000000")
    assert energy.row(7) == per_joule(7, 1)


def test_energy_of_a_report_without_frames_counts_for_the_next(tmp_path: Path) -> None:
    package, energy = processor(tmp_path)
    package.write_text("1000000")
    assert energy.row(None) == {}
    package.write_text("2000000")
    assert energy.row(10) == per_joule(10, 2)


def test_a_restored_trainer_has_no_rate(tmp_path: Path) -> None:
    package, energy = processor(tmp_path, frames=1_000)
    package.write_text("1000000")
    assert energy.row(400) == {}
    package.write_text("2000000")
    assert energy.row(500) == per_joule(100, 1)


def test_where_nothing_can_be_read_it_is_said_why(tmp_path: Path) -> None:
    for folder, why in ((tmp_path / "none", "none .* does not exist"), (tmp_path, "lists no processor")):
        energy = Energy(folder)
        assert not energy.readable and energy.row(5) == energy.row(6) == {}
        assert re.search(f"not readable: .*{why}", energy.said())
    broken = domain(tmp_path, "intel-rapl:0", "package-0")
    broken.write_text("not a number")
    assert "not a number" in Energy(tmp_path).said()


def test_a_counter_that_is_roots_is_told_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    domain(tmp_path, "intel-rapl:0", "package-0")
    read_text = Path.read_text

    def for_root_alone(path: Path) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return read_text(path)

    monkeypatch.setattr(Path, "read_text", for_root_alone)
    assert "chmod a+r" in Energy(tmp_path).said()


def test_a_counter_that_goes_away_ends_the_rates_and_nothing_else(tmp_path: Path) -> None:
    package, energy = processor(tmp_path)
    package.unlink()
    assert energy.row(10) == energy.row(20) == {}
    assert not energy.readable and "energy_uj" in energy.said()


def test_gpus_are_counted_where_their_package_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used_mj = [10_000, 20_000]

    class NVMLError(Exception):
        pass

    fake = types.SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetTotalEnergyConsumption=lambda handle: used_mj[handle],
    )
    monkeypatch.setitem(sys.modules, "pynvml", fake)  # type: ignore[arg-type]
    energy = Energy(tmp_path)
    energy.row(0)
    used_mj[:] = [40_000, 90_000]  # 30 J and 70 J
    assert energy.row(100) == per_joule(100, 100)
    assert energy.said() == f"gpu 0, gpu 1; {tmp_path} lists no processor (intel-rapl:*)"

    def gone(_handle: int) -> int:
        raise NVMLError("GPU is lost")

    fake.nvmlDeviceGetTotalEnergyConsumption = gone
    assert energy.row(200) == {} and "GPU is lost" in energy.said()
