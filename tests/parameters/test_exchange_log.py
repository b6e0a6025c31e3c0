"""The ring of a learner's exchanges: read whole and in order, lost records said, and the way back to a message."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from actorlearn.memory.shared import Segment
from actorlearn.parameters.exchange_log import (
    ADOPTED,
    MIXED,
    STEPPED,
    ExchangeLog,
    ExchangeReader,
    Overrun,
    exchange_fields,
)

WRITER = """
import sys
from pathlib import Path
from actorlearn.memory.shared import Segment
from actorlearn.parameters.exchange_log import ExchangeLog
log = ExchangeLog(Segment.open(Path(sys.argv[1])))
version = 0
while True:
    log.stepped(version, 2.0 * version)
    log.mixed({peer: version for peer in range(version % 64)}, 3.0 * version)
    version += 1
"""


def make(tmp_path: Path, records: int = 8) -> tuple[ExchangeLog, ExchangeReader]:
    segment = Segment.create(tmp_path / "exchanges-0", exchange_fields(records))
    return ExchangeLog(segment), ExchangeReader(segment)


def test_records_are_read_once_and_in_order(tmp_path: Path) -> None:
    log, reader = make(tmp_path)
    assert reader.read() == []
    log.adopted({3: 7, 63: 2**31 - 1})
    log.stepped(0, 0.5)
    log.mixed({1: 0}, 0.25)
    adopted, stepped, mixed = reader.read()
    assert (adopted.kind, adopted.version, adopted.messages) == (ADOPTED, -1, {3: 7, 63: 2**31 - 1})
    assert math.isnan(adopted.norm)
    assert stepped[1:] == (STEPPED, 0, 0.5, {})
    assert mixed[1:] == (MIXED, -1, 0.25, {1: 0})
    assert adopted.time_ns <= stepped.time_ns <= mixed.time_ns
    log.stepped(1, 1.0)
    assert [record.version for record in reader.read()] == [1]


def test_a_restarted_learner_goes_on_in_its_ring(tmp_path: Path) -> None:
    log, reader = make(tmp_path)
    log.stepped(0, 1.0)
    ExchangeLog(Segment.open(tmp_path / "exchanges-0")).stepped(1, 1.0)
    assert [record.version for record in reader.read()] == [0, 1]


def test_lost_records_are_said_until_the_reader_goes_back_to_a_message(tmp_path: Path) -> None:
    log, reader = make(tmp_path)
    for version in range(7):
        log.stepped(version, 0.0)
    assert len(reader.read()) == 7
    for version in range(7, 15):
        log.stepped(version, 0.0)
    for _ in range(2):
        with pytest.raises(Overrun, match="exchanges-0"):
            reader.read()
    with pytest.raises(Overrun, match="message 3"):
        reader.rewind(3)
    reader.rewind(12)
    assert [record.version for record in reader.read()] == [13, 14]


def test_of_two_steps_to_one_message_the_later_one_led_to_it(tmp_path: Path) -> None:
    log, reader = make(tmp_path)
    log.stepped(0, 1.0)  # killed before it was posted
    log.adopted({1: 4})
    log.stepped(0, 2.0)
    log.mixed({1: 5}, 0.0)
    reader.rewind(0)
    assert [record.kind for record in reader.read()] == [MIXED]


@pytest.mark.nightly
def test_no_record_is_torn_while_a_writer_loops(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path / "exchanges-0", exchange_fields(64))
    reader = ExchangeReader(segment)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(segment.path)])
    seen = 0
    deadline_s = time.monotonic() + 40
    while seen < 1000 and time.monotonic() < deadline_s:
        try:
            records = reader.read()
        except Overrun:
            with suppress(Overrun):
                reader.rewind(int(segment["version"].max()))
            continue
        for first, second in pairwise(records):
            assert (first.kind, second.kind) in ((STEPPED, MIXED), (MIXED, STEPPED))
            if first.kind == STEPPED:
                assert first.norm == 2.0 * first.version and second.norm == 3.0 * first.version
                assert second.messages == {peer: first.version for peer in range(first.version % 64)}
        seen += len(records)
    writer.kill()
    writer.wait()
    assert seen >= 1000
