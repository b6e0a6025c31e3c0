"""GPUs are counted by their device files and by CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.machine.gpus import visible_gpus


@pytest.fixture
def two_gpus(tmp_path: Path) -> Path:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    return tmp_path


def test_gpus_are_counted_by_their_device_files(two_gpus: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert visible_gpus(two_gpus, {}) == ["0", "1"]
    assert visible_gpus(tmp_path_factory.mktemp("none"), {}) == []


@pytest.mark.parametrize(
    ("visible", "count"),
    [("", 0), ("-1", 0), ("1", 1), ("0,1", 2), ("0, 1", 2), ("0,7,1", 1), ("GPU-8932f937,1", 2), ("NoDevFiles", 0)],
)
def test_a_gpu_that_cuda_does_not_show_does_not_count(two_gpus: Path, visible: str, count: int) -> None:
    assert len(visible_gpus(two_gpus, {"CUDA_VISIBLE_DEVICES": visible})) == count


def test_a_gpu_without_a_device_file_does_not_count_even_if_the_variable_names_it(tmp_path: Path) -> None:
    assert visible_gpus(tmp_path, {"CUDA_VISIBLE_DEVICES": "0,GPU-8932f937"}) == []
