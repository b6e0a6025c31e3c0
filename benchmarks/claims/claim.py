"""A claim of a paper, what is compared of it, and the verdict that follows from the comparisons.

A measurement is an interval of 95 % over repetitions (Student's t). A comparison holds it against two values: the
paper's, and the one that refutes the paper. No other threshold enters a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from statistics import fmean, median, stdev
from typing import Any

VERDICTS = REPRODUCED, IN_SHAPE, NOT_REPRODUCED, UNDECIDED = (
    *("reproduced", "reproduced in shape", "not reproduced"),
    "undecided",
)
OUTCOMES = HOLDS, FAILS, OPEN = "yes", "no", "undecided"
"""What a comparison says, and each row of a page under *holds*."""
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Quantiles of Student's t at 97.5 %, by degrees of freedom from 1."""
NORMAL = 1.96

Numbers = Mapping[str, Mapping[str, float | str]]
"""Group of a report, as ``bars`` -> case -> value."""


@dataclass(frozen=True)
class Interval:
    """A measured value, and the interval that contains it with a confidence of 95 %."""

    mean: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Interval:
        """Return the interval of a value that has no noise, as a count of bytes."""
        return cls(value, value, value)

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Return the interval of a mean; that of one value has no bounds."""
        mean = fmean(values)
        if len(values) < 2:
            return cls(mean, -math.inf, math.inf)
        half = student(len(values) - 1) * stdev(values) / math.sqrt(len(values))
        return cls(mean, mean - half, mean + half)

    @classmethod
    def ratio(cls, here: Sequence[float], there: Sequence[float]) -> Interval:
        """Return the interval of the geometric mean of ratios, repetition by repetition."""
        logs = cls.of([math.log(a / b) for a, b in zip(here, there, strict=True)])
        if math.isinf(logs.low):
            return cls(math.exp(logs.mean), logs.low, logs.high)
        return cls(*(math.exp(of) for of in (logs.mean, logs.low, logs.high)))

    def written(self, form: str) -> str:
        """Return it as text: 1.12x (1.02x to 1.23x)."""
        mean = form.format(self.mean)
        if self.low == self.high:
            return mean
        low, high = ("any" if math.isinf(end) else form.format(end) for end in (self.low, self.high))
        return f"{mean} (no interval)" if low == high == "any" else f"{mean} ({low} to {high})"


def student(freedom: int) -> float:
    """Return the quantile of Student's t at 97.5 %; from 10 degrees by the expansion of Cornish and Fisher."""
    if freedom <= len(STUDENT):
        return STUDENT[freedom - 1]
    z = NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


@dataclass(frozen=True)
class Comparison:
    """One thing that the paper says, beside what was measured.

    It holds if the interval is on the paper's side of what refutes it, and, where the paper has a number, reaches it
    and is no wider than what lies between both. It fails if the interval does not reach the number, or lies on the
    other side. Better than the paper holds.
    """

    what: str
    paper: str
    here: Interval
    refuted: float | None = None
    """The value at which the paper's sentence does not hold, as a factor of 1; None: the number has to be met."""
    number: float | None = None
    """The paper's number, if it has one: a number that is reached or passed."""
    lower: bool = False
    """Whether less is better."""
    form: str = "{:.2f}"
    values: str = ""
    """What the interval is made of, as text."""
    wide: str = ""
    """Why the interval is as wide as it is, if that is no noise between repetitions."""
    blind: str = ""
    """Why it can tell nothing, whatever the interval."""

    @property
    def outcome(self) -> str:
        """Whether it holds, fails, or cannot tell."""
        if self.blind:
            return OPEN
        if self.refuted is None:
            return HOLDS if self.here.low == self.here.high == self.number else FAILS
        sign = -1.0 if self.lower else 1.0
        low, high = sorted(sign * _rounded(end) for end in (self.here.low, self.here.high))
        refuted = sign * _rounded(self.refuted)
        number = refuted if self.number is None else sign * _rounded(self.number)
        if high <= refuted or high < number:
            return FAILS
        wide = low < number and high - low > number - refuted
        return HOLDS if low > refuted and not wide else OPEN

    @property
    def unknown(self) -> str:
        """Why it cannot tell, if it cannot."""
        one = self.here.low == -math.inf and self.here.high == math.inf
        noise = "one repetition: no interval" if one else "the noise is larger than the effect"
        return self.blind or self.wide or noise

    @property
    def said(self) -> str:
        """Return what was measured as text."""
        return ": ".join(filter(None, (self.values, self.here.written(self.form), self.blind)))


def _rounded(value: float) -> float:
    """Return a value without the rounding errors of means and logarithms, so that equal numbers compare as equal."""
    return float(f"{value:.12g}")


class Game(IntEnum):
    """Kinds of games, from the smallest."""

    CATCH = 1
    MINATAR = 2
    ATARI = 3

    @classmethod
    def of(cls, env: str) -> Game:
        """Return the kind of an environment."""
        return cls.ATARI if env.startswith("ALE/") else cls.MINATAR if env.startswith("MinAtar/") else cls.CATCH


GAMES = {Game.CATCH: "Catch", Game.MINATAR: "MinAtar", Game.ATARI: "Atari"}
"""As pages name them."""


@dataclass(frozen=True)
class SuiteResult:
    """A suite's report, as its JSON has it."""

    report: Mapping[str, Any]

    def has(self, *cases: str, of: str = "bars") -> bool:
        """Whether these cases were measured."""
        return all(case in self.report[of] for case in cases)

    def values(self, case: str, of: str = "bars") -> Sequence[float]:
        """Return a case's repetitions, in the order measured; of a column of the table the number that it has."""
        if of not in self.report:
            return (float(self.row(case)[of].split()[0].replace(",", "")),)
        group = self.report[of]
        return [float(value) for value in group[case]["values"]]

    def median(self, case: str, of: str = "bars") -> float:
        """Return a case's median, of the bars or of another group of spreads."""
        return median(self.values(case, of))

    def ratio(self, here: str, there: str, of: str = "bars") -> Interval:
        """Return how many times the one case is the other."""
        return Interval.ratio(self.values(here, of), self.values(there, of))

    def row(self, first: str) -> Mapping[str, str]:
        """Return the row of the table that begins with this cell."""
        rows: Sequence[Mapping[str, str]] = self.report["rows"]
        return next(row for row in rows if next(iter(row.values())) == first)


@dataclass(frozen=True)
class Extent:
    """Repetitions, seconds and keys by which a claim is measured."""

    repetitions: int
    seconds: float
    """As the suite takes them: of each case, or of each run at most."""
    keys: tuple[str, ...] = ()
    """Overrides of the suite's topology, behind the suite's own."""


@dataclass(frozen=True)
class Size:
    """A size of the setting on which a claim depends."""

    key: str
    """Where a report has it."""
    what: str
    smallest: float
    """Below this the claim cannot be tested, whatever is measured."""
    paper: float
    """Below this no result is more than one in shape."""
    before: float
    """The size in reports that do not have the key: those of suites that cannot have another, and older ones."""

    def here(self, found: SuiteResult) -> float:
        """Return the size in a report."""
        size = found.report.get(self.key, self.before)
        return float(Game.of(size) if isinstance(size, str) else size)

    def written(self, size: float) -> str:
        """Return a size as text."""
        return GAMES[Game(int(size))] if self.key == "env" else f"{size:,.0f}"


def game(smallest: Game, before: Game) -> Size:
    """Return the kind of game as a size; the papers have Atari."""
    return Size("env", "games", smallest, Game.ATARI, before)


def gpus(smallest: int, paper: int) -> Size:
    """Return the number of GPUs that a measurement uses as a size; no older report has any."""
    return Size("gpus", "GPUs", smallest, paper, 0)


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
    refutation: str
    """What would refute it, in a sentence."""
    numbers: Numbers
    """The paper's numbers, as the suite would report them. Where it has words alone, small numbers that say the same:
    1 for a base, and scores of Breakout by a human tester and by random play (`small_games.LEARNED`, `NOTHING`).
    """
    negation: Numbers
    """Numbers that refute it; what it does not name is as in the paper."""
    sizes: tuple[Size, ...]
    suite: str
    """Suite of the benchmarks that measures it."""
    whole: Extent
    quick: Extent
    """The reduced form: minutes."""
    differs: str
    """Game, sizes, hyperparameters and machine of the whole form, where they are not the paper's."""
    compare: Callable[[SuiteResult], Sequence[Comparison]]
    also: str = ""
    """Other measurements of it, that are no entries of the ledger, as Markdown."""
    topology: str | None = None
    """Shipped topology in place of the suite's own."""
    score: float | None = None
    """The score to reach, for suites that measure the time to it."""

    def too_small(self, found: SuiteResult) -> Sequence[Size]:
        """Return the sizes below which the claim cannot be tested."""
        return [size for size in self.sizes if size.here(found) < size.smallest]

    def verdict(self, found: SuiteResult) -> str:
        """Return the word for a report."""
        if self.too_small(found):
            return UNDECIDED
        said = verdict(self.compare(found))
        return IN_SHAPE if said == REPRODUCED and self.reduced(found) else said

    def reduced(self, found: SuiteResult) -> Sequence[Size]:
        """Return the sizes that are smaller than the paper's."""
        return [size for size in self.sizes if size.here(found) < size.paper]

    def reason(self, found: SuiteResult) -> str:
        """Return why the verdict is not *reproduced*, in some words; nothing if it is."""
        if small := self.too_small(found):
            return f"too small: {_listed(small, found, 'at least', [size.smallest for size in small])}"
        comparisons = self.compare(found)
        if wrong := [one for one in comparisons if one.outcome == FAILS]:
            return f"not so: {wrong[0].what}"
        if unknown := [one for one in comparisons if one.outcome == OPEN]:
            return unknown[0].unknown
        if reduced := self.reduced(found):
            return f"smaller: {_listed(reduced, found, 'the paper', [size.paper for size in reduced])}"
        return ""


def _listed(sizes: Sequence[Size], found: SuiteResult, than: str, other: Sequence[float]) -> str:
    return ", ".join(
        f"{size.what} {size.written(size.here(found))}, {than} {size.written(wanted)}"
        for size, wanted in zip(sizes, other, strict=True)
    )


def verdict(comparisons: Sequence[Comparison]) -> str:
    """Return the word for these comparisons, in the paper's own setting.

    Orders and directions come first. Where all hold, a claim is reproduced if all numbers do too, and in shape if not.
    Where one fails, it is not reproduced; where one cannot tell, or there are none, numbers that fail decide.
    """
    shapes = [one.outcome for one in comparisons if one.number is None]
    numbers = [one.outcome for one in comparisons if one.number is not None]
    if FAILS in shapes:
        return NOT_REPRODUCED
    if shapes and OPEN not in shapes:
        return REPRODUCED if set(numbers) <= {HOLDS} else IN_SHAPE
    if FAILS in numbers:
        return NOT_REPRODUCED
    return REPRODUCED if comparisons and OPEN not in (*shapes, *numbers) else UNDECIDED


def faster(
    found: SuiteResult, here: str, there: str, paper: str, number: float | None = None, of: str = "bars"
) -> Comparison:
    """Compare how many times as fast the first case is as the second with 1, and with the paper's factor."""
    return Comparison(
        f"times as fast: {here}, over {there}",
        paper,
        found.ratio(here, there, of),
        refuted=1.0,
        number=number,
        form="{:.2f}x",
    )
