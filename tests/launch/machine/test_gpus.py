"""GPUs are counted by their device files, and nothing else is."""

from __future__ import annotations

from pathlib import Path

from launch.machine.gpus import count_gpus


def test_gpus_are_counted_by_their_device_files(tmp_path: Path) -> None:
    assert count_gpus(tmp_path) == 0
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert count_gpus(tmp_path) == 2
