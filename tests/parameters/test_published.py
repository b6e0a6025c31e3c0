"""Published weights: never torn, never going back, readable after the writer is killed half-way."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from actorlearn.memory.shared import Segment
from actorlearn.parameters.published import SLOTS, Published, weights_fields

SIZE = 1 << 18  # 1 MiB of float32: large enough that an unguarded read is torn most of the time

WRITER = """
import sys
from pathlib import Path
import numpy as np
from actorlearn.memory.shared import Segment
from actorlearn.parameters.published import Published
published = Published(Segment.open(Path(sys.argv[1])))
weights = np.empty(published.size, np.float32)
while True:
    weights.fill(published.version + 1)  # the tattoo: every element is the version
    published.publish(weights, env_steps=10 * (published.version + 1))
"""


def make(tmp_path: Path) -> Published:
    return Published(Segment.create(tmp_path / "weights", weights_fields(SIZE)))


def test_before_the_first_version_there_is_nothing_to_fetch(tmp_path: Path) -> None:
    assert make(tmp_path).fetch(np.zeros(SIZE, np.float32)) is None


def test_versions_that_are_still_in_a_slot_are_copied(tmp_path: Path) -> None:
    published = Published(Segment.create(tmp_path / "weights", weights_fields(2)))
    for version in range(SLOTS + 2):
        published.publish(np.full(2, version, np.float32), env_steps=10 * version)
    kept = published.kept({0, 2, SLOTS + 1, SLOTS + 2})
    assert {version: (*weights, steps) for version, (weights, steps) in kept.items()} == {
        version: (version, version, 10 * version) for version in (2, SLOTS + 1)
    }


def test_the_newest_version_is_fetched_once(tmp_path: Path) -> None:
    published = make(tmp_path)
    out = np.zeros(SIZE, np.float32)
    for version in range(5):
        assert published.publish(np.full(SIZE, version, np.float32), version * 7) == version
    assert published.fetch(out) == (4, 28)
    assert (out == 4).all()
    assert published.fetch(out, known=4) is None


@pytest.mark.parametrize(
    ("size", "reads", "kills"),
    [(SIZE, 500, 2), pytest.param(1 << 14, 1_000_000, 100, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
)
def test_no_read_is_torn_while_a_writer_loops_nor_after_its_kill(
    tmp_path: Path, size: int, reads: int, kills: int
) -> None:
    published = Published(Segment.create(tmp_path / "weights", weights_fields(size)))
    out = np.zeros(size, np.float32)
    newest, versions = -1, 0
    for _ in range(kills):
        first = published.version + 1
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "weights")])
        done = 0
        while done < reads // kills:
            found = published.fetch(out)
            if published.version < first or found is None:
                continue  # the writer has not come yet; without an end of its own: pytest has a limit
            version, env_steps = found
            assert version >= newest and env_steps == 10 * version
            assert (out == version).all()
            versions += version > newest
            newest, done = version, done + 1
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        found = published.fetch(out)
        assert found is not None and (out == found[0]).all()
        newest = found[0]
    assert versions > kills


def test_a_writer_killed_while_it_writes_leaves_the_last_version_readable(tmp_path: Path) -> None:
    published = make(tmp_path)
    published.publish(np.full(SIZE, 0, np.float32), 0)
    published.publish(np.full(SIZE, 1, np.float32), 1)
    segment = Segment.open(tmp_path / "weights")
    slot = 2 % SLOTS
    segment["sequence"][slot, 0] = 2 * 2 + 1  # died after the first store of version 2 …
    segment["payload"][slot, : SIZE // 2] = 2  # … and half of the payload
    out = np.zeros(SIZE, np.float32)
    assert published.fetch(out) == (1, 1)
    assert (out == 1).all()
    assert published.publish(np.full(SIZE, 2, np.float32), 2) == 2  # its successor writes the same slot again
    assert published.fetch(out) == (2, 2)
    assert (out == 2).all()


def test_an_older_version_is_fetched_as_long_as_its_slot_has_it(tmp_path: Path) -> None:
    published = make(tmp_path)
    out = np.zeros(SIZE, np.float32)
    for version in range(4):
        published.publish(np.full(SIZE, version, np.float32), version * 7)
    assert published.fetch(out, known=3, wanted=1) == (1, 7) and (out == 1).all()
    assert published.fetch(out, known=1, wanted=1) is None
    assert published.fetch(out, known=1, wanted=0) == (3, 21) and (out == 3).all()  # 3 lies where 0 did


def test_a_wanted_version_that_is_being_written_over_gives_way_to_the_newest(tmp_path: Path) -> None:
    published = make(tmp_path)
    for version in range(3):
        published.publish(np.full(SIZE, version, np.float32), version)
    Segment.open(tmp_path / "weights")["sequence"][0, 0] = 2 * 3 + 1  # version 3 has been begun, where 0 lay
    out = np.zeros(SIZE, np.float32)
    assert published.fetch(out, wanted=0) == (2, 2) and (out == 2).all()


def test_versions_of_a_resumed_run_go_on_after_those_before_it(tmp_path: Path) -> None:
    published = make(tmp_path)
    published.go_on_after(41)
    assert published.version == -1  # nothing is there to be read before it is published
    out = np.zeros(SIZE, np.float32)
    assert published.fetch(out) is None
    assert published.publish(np.ones(SIZE, np.float32), 7) == 42
    assert published.fetch(out) == (42, 7)
    published.go_on_after(20)  # a checkpoint older than what is published
    assert published.publish(np.ones(SIZE, np.float32), 8) == 43
