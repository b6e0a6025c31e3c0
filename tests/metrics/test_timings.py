"""Sections of a loop's time, with a clock that the test moves."""

from __future__ import annotations

import time

import numpy as np
import pytest

from actorlearn.metrics.timings import SECTIONS, Timings, shares


def test_time_since_the_last_mark_belongs_to_the_section_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 1000
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now_ns)
    counted = np.full(len(SECTIONS) + 2, 7, np.int64)  # as a process that was here before has left it
    timings = Timings(counted)
    for section, ends_ns in (("simulate", 1300), ("wait", 1400), ("simulate", 1450)):
        now_ns = ends_ns
        timings.add(section)
    assert dict(zip(SECTIONS, counted.tolist(), strict=False)) == dict.fromkeys(SECTIONS, 0) | {
        "simulate": 350,
        "wait": 100,
    }


def test_shares_are_of_what_was_counted_in_between_and_0_where_nothing_was() -> None:
    before = np.arange(len(SECTIONS), dtype=np.int64)
    after = before.copy()
    after[SECTIONS.index("learn")] += 30
    after[SECTIONS.index("wait")] += 10
    assert shares(before, after) == dict.fromkeys(SECTIONS, 0.0) | {"learn": 0.75, "wait": 0.25}
    assert shares(after, after) == dict.fromkeys(SECTIONS, 0.0)
