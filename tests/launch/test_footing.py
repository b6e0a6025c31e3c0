"""Signals as a run hears them, and those it must not hear."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from launch.footing import SIGNALS, Signals


@contextmanager
def handled(number: int, handler: signal.Handlers) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def test_signals_are_told_in_order_and_given_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with handled(signal.SIGHUP, signal.SIG_DFL), handled(signal.SIGINT, signal.SIG_DFL):
        signals = Signals()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            os.kill(os.getpid(), number)
        assert signals.read() == [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
        assert signals.read() == []
        signals.close()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert [signal.getsignal(number) for number in SIGNALS] == before


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_was_ignored_stays_ignored(number: int) -> None:
    with handled(number, signal.SIG_IGN):
        signals = Signals()
        os.kill(os.getpid(), number)
        assert signals.read() == []
        assert signal.getsignal(number) is signal.SIG_IGN
        signals.close()
        assert signal.getsignal(number) is signal.SIG_IGN
