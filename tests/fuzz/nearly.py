"""Inputs that are nearly right: examples with some bytes changed, and trees with some values that are odd."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

ODD_TEXTS = (
    *("", " ", "\x00", "\n", "\x1b[2J", "é", "\ud800", "\U0010ffff", "a" * 300, "x" * 5_000, "nan", "-1", "1e999"),
    *(
        "../..",
        "/",
        "/dev/zero",
        "$",
        "$\\frac{$",
        "%s",
        "{}",
        "{0.__class__}",
        "!!python/object:os.system",
        "~",
        "NaN",
    ),
)
ODD_NUMBERS = (
    *(0, 1, -1, 2, 255, 256, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 10**30),
    *(10**400, -(10**400), 0.0, -0.0, 0.5, 1e-320, 1e100, 1e308, -1e308, float("inf"), float("-inf"), float("nan")),
)
EDITS = ("flip", "insert", "delete", "cut", "repeat", "splice", "digits", "nest")

leaves = st.sampled_from([None, True, False, *ODD_TEXTS, *ODD_NUMBERS])
"""Values of any kind, most of them odd."""
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(ODD_TEXTS[:12]), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def edited_bytes(draw: st.DrawFn, examples: Sequence[bytes]) -> bytes:
    """Draw one of these examples with up to four edits."""
    data = bytearray(draw(st.sampled_from(examples)))
    for edit in draw(st.lists(st.sampled_from(EDITS), max_size=4)):
        at = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 40))
        if edit == "flip" and at < len(data):
            data[at] ^= draw(st.integers(1, 255))
        elif edit == "insert":
            data[at:at] = draw(st.binary(max_size=12))
        elif edit == "delete":
            del data[at : at + length]
        elif edit == "cut":
            del data[at:]
        elif edit == "repeat":
            data[at:at] = data[at : at + length] * draw(st.sampled_from((1, 3, 200)))
        elif edit == "splice":
            other = draw(st.sampled_from(examples))
            data[at:] = other[draw(st.integers(0, len(other))) :]
        elif edit == "digits":
            data[at:at] = b"9" * draw(st.sampled_from((1, 20, 5_000)))
        elif edit == "nest":
            data[at:at] = draw(st.sampled_from((b"[", b'{"a":', b"\x91", b"\x81\xa1a"))) * draw(
                st.sampled_from((1, 30, 20_000))
            )
    return bytes(data)


@st.composite
def edited_tree(draw: st.DrawFn, examples: Sequence[Any]) -> Any:
    """Draw one of these trees with up to three values replaced, or keys added or removed."""
    tree = copy.deepcopy(draw(st.sampled_from(examples)))
    for _ in range(draw(st.integers(0, 3))):
        found = list(_places(tree))
        if not found:
            return draw(trees)
        inside, key = draw(st.sampled_from(found))
        what = draw(st.sampled_from(("replace", "replace", "drop", "add")))
        if what == "drop":
            del inside[key]
        elif what == "add" and isinstance(inside, dict):
            inside[draw(st.sampled_from(ODD_TEXTS))] = draw(trees)
        else:
            inside[key] = draw(trees)
    return tree


def _places(tree: Any) -> Any:
    """(container, key) of everything in a tree."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(inner):
        yield tree, key
        yield from _places(value)


def as_json(tree: Any) -> bytes:
    """Return a tree as JSON, with NaN and infinities, which JSON does not have."""
    return json.dumps(tree).encode()


def nearly(
    examples: Sequence[Any], encode: Callable[[Any], bytes] = as_json, more: Sequence[bytes] = ()
) -> st.SearchStrategy[bytes]:
    """Trees with odd values, encoded, and encoded trees with odd bytes."""
    encoded = [*map(encode, examples), *more]
    return edited_tree(examples).map(encode) | edited_bytes(encoded)
