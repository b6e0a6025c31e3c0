"""A claim of a paper, what is compared of it, and the verdict that follows from the comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

VERDICTS = REPRODUCED, IN_SHAPE, NOT_REPRODUCED = "reproduced", "reproduced in shape", "not reproduced"
NEAR = 0.15
"""Relative difference up to which a number is the paper's, unless the claim says otherwise."""
FASTER = 1.05
"""Factor from which one rate is called faster than another; less is noise."""


@dataclass(frozen=True)
class Comparison:
    """One thing that the paper says, beside what was measured."""

    what: str
    paper: str
    here: str
    holds: bool
    exact: bool = False
    """Whether the paper's number itself is compared, or an identity; otherwise an order or a direction is."""


@dataclass(frozen=True)
class Extent:
    """Repetitions, seconds and keys by which a claim is measured."""

    repetitions: int
    seconds: float
    """As the suite takes them: of each case, or of each run at most."""
    keys: tuple[str, ...] = ()
    """Overrides of the suite's topology, behind the suite's own."""


@dataclass(frozen=True)
class SuiteResult:
    """A suite's report, as its JSON has it."""

    report: Mapping[str, Any]

    def has(self, *cases: str) -> bool:
        """Whether these cases were measured."""
        return all(case in self.report["bars"] for case in cases)

    def median(self, case: str, of: str = "bars") -> float:
        """Return a case's median, of the bars or of another group of spreads."""
        return float(self.report[of][case]["median"])

    def row(self, first: str) -> Mapping[str, str]:
        """Return the row of the table that begins with this cell."""
        rows: Sequence[Mapping[str, str]] = self.report["rows"]
        return next(row for row in rows if next(iter(row.values())) == first)


@dataclass(frozen=True)
class Claim:
    """A figure or table of a paper."""

    name: str
    paper: str
    """Its system, and its authors with the year."""
    part: str
    """Figure, table or section."""
    says: str
    """Its claim, in a sentence of ours."""
    suite: str
    """Suite of the benchmarks that measures it."""
    whole: Extent
    quick: Extent
    """The reduced form: minutes."""
    differs: str
    """Game, sizes and machine of the whole form, where they are not the paper's."""
    compare: Callable[[SuiteResult], Sequence[Comparison]]
    topology: str | None = None
    """Shipped topology in place of the suite's own."""
    score: float | None = None
    """The score to reach, for suites that measure the time to it."""


def verdict(comparisons: Sequence[Comparison]) -> str:
    """Return the word for these comparisons.

    Reproduced: all hold, and one of them at least is exact. In shape: all orders and directions hold, of which there is
    one at least, and what is exact does not, or there is nothing exact.
    """
    shapes = [one.holds for one in comparisons if not one.exact]
    exact = [one.holds for one in comparisons if one.exact]
    if exact and all(exact) and all(shapes):
        return REPRODUCED
    return IN_SHAPE if shapes and all(shapes) else NOT_REPRODUCED


def near(here: float, paper: float, within: float = NEAR) -> bool:
    """Whether a number is the paper's, but for a relative difference."""
    return abs(here - paper) <= within * abs(paper)


def number(what: str, paper: float, here: float, written: str = "{:,.2f}", within: float = NEAR) -> Comparison:
    """Compare a number with the paper's."""
    return Comparison(what, written.format(paper), written.format(here), near(here, paper, within), exact=True)


def faster(
    what: str, paper: str, here: float, there: float, written: str = "{:,.0f}", factor: float = FASTER
) -> Comparison:
    """Compare two rates, of which the first should be the faster one."""
    said = f"{written.format(here)} and {written.format(there)}"
    return Comparison(what, paper, said, here >= factor * there)
