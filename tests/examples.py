"""Number of examples that a property is tried with: all of them at night, some in unit tests."""

from __future__ import annotations

from hypothesis import settings

NIGHTLY, UNIT = "nightly", "unit"
"""Profiles, to be chosen by ``--hypothesis-profile``; a unit test draws the same examples every time."""

_WHOLE = 100

# No deadline per example: on a busy machine it fails tests at random, and pytest's timeout already bounds a hang.
settings.register_profile(NIGHTLY, max_examples=_WHOLE, deadline=None)
settings.register_profile(UNIT, max_examples=_WHOLE // 5, deadline=None, derandomize=True)


def examples(count: int) -> int:
    """``count`` at night, and the share of it that the profile has in unit tests; five at least."""
    return max(5, count * settings().max_examples // _WHOLE)
