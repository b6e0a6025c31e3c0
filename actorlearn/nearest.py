"""The known word that a mistyped one probably stands for: the "did you mean" of every error."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

ALIKE = 0.6
"""Share of letters that two short words have in common when one is taken for the other."""
ROUGHLY = 0.4
"""The same for long names, of which whole parts may be missing, such as ids of environments and of processes."""
_LONGEST = 64  # characters looked at: what is longer was never meant as a name, and comparing takes its time squared


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return the way out for a word that is not known: the one most like it, or what is to be done otherwise."""
    closest = nearest(word, known)
    return f"did you mean {closest}?" if closest else otherwise


def nearest(word: str, known: Iterable[str], likeness: float = ALIKE) -> str:
    """Return the known word that is most like this one, or nothing; ``likeness`` is 0 (any is) to 1 (the same)."""
    return next(iter(difflib.get_close_matches(word[:_LONGEST], list(known), n=1, cutoff=likeness)), "")
