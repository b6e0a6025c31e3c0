"""A delayed environment plays as the one in it, later."""

from __future__ import annotations

import time

import numpy as np
import pytest

from actorlearn.envs.catch import Catch
from actorlearn.envs.delay import FACTOR_VARIABLE, Delay


@pytest.mark.parametrize("factor", [None, "3"])
def test_a_step_takes_longer_and_returns_the_same(factor: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if factor:
        monkeypatch.setenv(FACTOR_VARIABLE, factor)
    plain, delayed = Catch(), Delay(Catch(), seconds=0.004)
    plain.reset(seed=1)
    delayed.reset(seed=1)
    for action in (np.int64(0), np.int64(2)):
        began_s = time.monotonic()
        found = delayed.step(action)
        assert time.monotonic() - began_s >= 0.004 * float(factor or 1)
        expected = plain.step(action)
        assert np.array_equal(found[0], expected[0]) and found[1:] == expected[1:]
