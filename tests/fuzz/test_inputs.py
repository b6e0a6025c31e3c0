"""Readers of foreign bytes return or raise their documented errors, whatever the bytes, and do nothing else."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.fuzz.found import FOUND
from tests.fuzz.targets import targets
from tests.fuzz.watched import calls, peak_bytes, unwatched

TARGETS = targets()
EXAMPLES = 150


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_read_or_refused(name: str, tmp_path: Path) -> None:
    target, numbers = TARGETS[name], itertools.count()
    with unwatched():
        assert target.read(target.right, tmp_path)

    @settings(max_examples=examples(EXAMPLES), suppress_health_check=list(HealthCheck), print_blob=True)
    @given(target.inputs | st.binary(max_size=200))
    def read(data: bytes) -> None:
        folder = tmp_path / f"input-{next(numbers)}"
        folder.mkdir()
        target.read(data, folder)

    read()


@pytest.mark.parametrize("name", FOUND)
def test_inputs_that_once_failed_are_refused(name: str, tmp_path: Path) -> None:
    with unwatched():
        TARGETS[name].read(TARGETS[name].right, tmp_path)
    for number, data in enumerate(FOUND[name]):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert not TARGETS[name].read(data, folder)


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.hostile])
def test_large_and_deep_inputs_take_few_calls_and_little_memory(name: str, tmp_path: Path) -> None:
    """Work is counted in function calls, which other load on the machine does not change."""
    target = TARGETS[name]
    over = []
    with unwatched():
        target.read(target.right, tmp_path)
        for data in target.hostile:
            read = lambda: target.read(data, tmp_path)  # noqa: B023, E731 - called before the next turn
            for what, found, most in (
                ("calls", calls(read), target.call_bound(len(data))),
                ("bytes", peak_bytes(read), target.peak_bound(len(data))),
            ):
                if found > most:
                    over.append(f"{data[:20]!r}… of {len(data):,} bytes took {found:,} {what}, at most {most:,}")
    assert not over, "\n".join(over)
