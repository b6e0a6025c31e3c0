"""Finds the known words most similar to a mistyped one, for the "did you mean" of error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

ALIKE = 0.6
"""Smallest similarity, from 0 to 1 (the ratio of ``difflib``), at which a short word counts as similar."""
ROUGHLY = 0.4
"""Smallest similarity for long names in which whole parts may be missing, such as ids of environments or processes."""
_LONGEST = 64  # characters compared: longer words are not names, and the time of a comparison is quadratic


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return "did you mean …?" with the known word most similar to this one, or ``otherwise`` if none is similar."""
    closest = nearest(word, known)
    return f"did you mean {closest}?" if closest else otherwise


def nearest(word: str, known: Iterable[str], likeness: float = ALIKE) -> str:
    """Return the most similar known word, or "" if the similarity of all is below ``likeness`` (0 any, 1 equal)."""
    return next(iter(nearest_few(word, known, 1, likeness)), "")


def nearest_few(word: str, known: Iterable[str], count: int, likeness: float = ALIKE) -> list[str]:
    """Return at most ``count`` similar known words, the most similar first; case is ignored."""
    known_by = {name.lower(): name for name in reversed([*known])}  # of names that differ in case, the first is kept
    found = difflib.get_close_matches(word[:_LONGEST].lower(), known_by, n=count, cutoff=likeness)
    return [known_by[name] for name in found]
