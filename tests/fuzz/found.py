"""Inputs by target that a reader once accepted or failed on; each must be refused."""

from __future__ import annotations

import io

import numpy as np

from tests.fuzz.targets.checkpoints import resealed


def _long_snapshot() -> bytes:
    file = io.BytesIO()
    np.savez(file, since=np.array(0), shape=np.full(5_000, 91, np.uint8))
    return file.getvalue()


_HEADER = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n"
_CELLS = b"\x0a\x93NUMPY\x01\x00v\x00" + _HEADER + b"\xff\xff\xff\xff\xff\xff\xff\x01"

FOUND: dict[str, tuple[bytes, ...]] = {
    # The error repeated an unknown kind of message, field or file in full, whatever its length.
    "message to the supervisor": (b"\x81\xa4type\xdb\x00\x03\xff\x00" + b"x" * 0x3FF00,),
    "settings": (
        b'{"' + b"x" * 5_000 + b'": 1}',
        b'{"\xf2": 1}',  # UnicodeDecodeError, without the file
        b'{"env": ' + b"[" * 20_000,  # RecursionError
    ),
    # A checkpoint whose state is no mapping was accepted, and ended the resumed run with a TypeError.
    "manifest": (
        resealed({"format": 2, "env_steps": 40, "files": {}, "state": None}),
        resealed({"format": 2, "env_steps": 40, "files": {"x" * 5_000: {"bytes": 1, "sha256": "0"}}, "state": {}}),
    ),
    # EOFError, TokenError of a header; a cell out of range; the state without a shape; a dtype of which numpy warns.
    "replay": (
        *(b"", b"\x02\x93NUMPY\x01\x00v\x00z'descr': '<i8', }".ljust(200), _CELLS, b"\x0c{}"),
        _CELLS.replace(b"'<i8'", b"'a'  "),
    ),
    # The types of a section in a list were evaluated only while it was read.
    "overrides": (b'env.wrappers=[{"name": 1}]',),
    # Too deep; a generator's number too large; a state could set any attribute by its name.
    "environments": (
        b"[" * 20_000,
        b'[[{"state": null, "steps_beyond_terminated": null, "generator": {"state": 1' + b"0" * 50 + b"}}]]",
        b'[[{"render": 1, "generator": {}}, {"reset": 1}, {"_elapsed_steps": 1}]]',
    ),
    # NotImplementedError for a newer version of zip; the error repeated a shape in full, whatever its length.
    "standing": (b"PK\x05\x06" + bytes(18), b"PK\x03\x04" + b"\xd2" * 40, b"", _long_snapshot()),
    # SafetensorError, which is no ValueError.
    "tensors": (b"\x02" + bytes(7) + b"[]", b"\x88" + bytes(7) + b"{", b""),
}
