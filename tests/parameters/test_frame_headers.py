"""Headers of frames between processes: reading them back, refusing others, and the sizes in docs/nodes.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from actorlearn.parameters.frame_headers import (
    HUB,
    MAILBOX,
    MAILBOX_ROW_BYTES,
    SHARD,
    SHARD_ROW_BYTES,
    FrameHeader,
)

RUN = bytes(range(16))
NUMBERS = {HUB: (2, -1, 7, 5), MAILBOX: (3, 1 << 40, 2, 99), SHARD: (1, 0, 2, 3, 4, 5, 6, -1, 8, -2, 10, 11)}


@pytest.mark.parametrize("header", NUMBERS)
def test_the_numbers_of_a_header_are_read_back(header: FrameHeader) -> None:
    frame = header.pack(RUN, *NUMBERS[header])
    assert len(frame) == header.size and header.unpack(RUN, frame + b"content") == NUMBERS[header]


@pytest.mark.parametrize("header", NUMBERS)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda frame, header: frame[:-1],
        lambda frame, header: b"?" + frame[1:],
        lambda frame, header: replace(header, protocol=header.protocol + 1).pack(RUN, *NUMBERS[header]),
        lambda frame, header: header.pack(bytes(16), *NUMBERS[header]),
        lambda frame, header: b"",
    ],
    ids=["short", "another format", "another version", "another run", "empty"],
)
def test_a_frame_that_is_cut_or_of_another_format_version_or_run_is_refused(
    header: FrameHeader, spoil: Callable[[bytes, FrameHeader], bytes]
) -> None:
    assert header.unpack(RUN, spoil(header.pack(RUN, *NUMBERS[header]), header)) is None


def test_sizes_of_headers_are_those_in_docs_nodes() -> None:
    assert (HUB.size, MAILBOX.size, SHARD.size) == (56, 48, 88)
    assert (MAILBOX_ROW_BYTES, SHARD_ROW_BYTES) == (40, 112)
