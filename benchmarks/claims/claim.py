"""A claim of a paper, the comparisons of a measurement with it, and the verdict that follows from them.

A measured value has a 95 % interval over repetitions (Student's t). It is compared with two values: the paper's number,
and the value at which the paper's claim would be false. A verdict depends on no other threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from statistics import fmean, median, stdev
from typing import Any

VERDICTS = REPRODUCED, IN_SHAPE, NOT_REPRODUCED, UNDECIDED = (
    *("reproduced", "reproduced in shape", "not reproduced"),
    "undecided",
)
OUTCOMES = HOLDS, FAILS, OPEN = "yes", "no", "undecided"
"""Outcomes of a comparison, as the column *holds* of a page shows them."""
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Quantiles of Student's t at 97.5 %, by degrees of freedom from 1."""
NORMAL = 1.96

Numbers = Mapping[str, Mapping[str, float | str]]
"""Group of values in a report, such as ``bars`` -> case -> value."""


@dataclass(frozen=True)
class Interval:
    """A measured value, and the interval that contains it with a confidence of 95 %."""

    mean: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Interval:
        """Return the interval of a value without noise, such as a number of bytes."""
        return cls(value, value, value)

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Return the mean of the values with its interval; the interval of a single value is unbounded."""
        mean = fmean(values)
        if len(values) < 2:
            return cls(mean, -math.inf, math.inf)
        half = student(len(values) - 1) * stdev(values) / math.sqrt(len(values))
        return cls(mean, mean - half, mean + half)

    @classmethod
    def ratio(cls, here: Sequence[float], there: Sequence[float]) -> Interval:
        """Return the geometric mean, with its interval, of the ratios of the same repetitions."""
        logs = cls.of([math.log(a / b) for a, b in zip(here, there, strict=True)])
        if math.isinf(logs.low):
            return cls(math.exp(logs.mean), logs.low, logs.high)
        return cls(*(math.exp(of) for of in (logs.mean, logs.low, logs.high)))

    def written(self, form: str) -> str:
        """Return the interval as text: 1.12x (1.02x to 1.23x)."""
        mean = form.format(self.mean)
        if self.low == self.high:
            return mean
        low, high = ("any" if math.isinf(end) else form.format(end) for end in (self.low, self.high))
        return f"{mean} (no interval)" if low == high == "any" else f"{mean} ({low} to {high})"


def student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t; from 10 degrees of freedom by the expansion of Cornish and Fisher."""
    if freedom <= len(STUDENT):
        return STUDENT[freedom - 1]
    z = NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


@dataclass(frozen=True)
class Comparison:
    """One statement of the paper, compared with a measured interval.

    It holds if the interval lies entirely on the paper's side of ``refuted`` and, if the paper has a number, reaches it
    and is no wider than the distance between both. It fails if the interval does not reach the number, or lies on the
    other side of ``refuted``. A result that is better than the paper's holds.
    """

    what: str
    paper: str
    here: Interval
    refuted: float | None = None
    """The value at which the statement is false, such as a factor of 1; None: only the paper's exact number is true."""
    number: float | None = None
    """The paper's number, which the measured value must reach or surpass; None: it has none."""
    lower: bool = False
    """Whether lower values are better."""
    form: str = "{:.2f}"
    values: str = ""
    """The measured values from which the interval was computed, as text."""
    wide: str = ""
    """Why the interval is wide, if the cause is not noise between repetitions."""
    blind: str = ""
    """Why the comparison is undecided for any interval; empty: the interval decides."""

    @property
    def outcome(self) -> str:
        """One of OUTCOMES: whether the statement holds, fails or is undecided."""
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
        """Why the statement is undecided; empty if it is decided."""
        one = self.here.low == -math.inf and self.here.high == math.inf
        noise = "one repetition: no interval" if one else "the noise is larger than the effect"
        return self.blind or self.wide or noise

    @property
    def said(self) -> str:
        """Return the measured value, with the values of the repetitions, as text."""
        return ": ".join(filter(None, (self.values, self.here.written(self.form), self.blind)))


def _rounded(value: float) -> float:
    """Return a value rounded, so that rounding errors of means and logarithms do not make equal numbers unequal."""
    return float(f"{value:.12g}")


class Game(IntEnum):
    """Kinds of games, from the simplest."""

    CATCH = 1
    MINATAR = 2
    ATARI = 3

    @classmethod
    def of(cls, env: str) -> Game:
        """Return the kind of an environment."""
        return cls.ATARI if env.startswith("ALE/") else cls.MINATAR if env.startswith("MinAtar/") else cls.CATCH


GAMES = {Game.CATCH: "Catch", Game.MINATAR: "MinAtar", Game.ATARI: "Atari"}
"""Kind of games -> its name on pages."""


@dataclass(frozen=True)
class SuiteResult:
    """The report of a suite, read from its JSON."""

    report: Mapping[str, Any]

    def has(self, *cases: str, of: str = "bars") -> bool:
        """Whether the report has values of all these cases."""
        return all(case in self.report[of] for case in cases)

    def values(self, case: str, of: str = "bars") -> Sequence[float]:
        """Return the values of a case in each repetition, in order; for a column of the table, the number in it."""
        if of not in self.report:
            return (float(self.row(case)[of].split()[0].replace(",", "")),)
        group = self.report[of]
        return [float(value) for value in group[case]["values"]]

    def median(self, case: str, of: str = "bars") -> float:
        """Return the median of a case's values, in the bars or another group."""
        return median(self.values(case, of))

    def ratio(self, here: str, there: str, of: str = "bars") -> Interval:
        """Return the values of one case divided by those of another, as an interval."""
        return Interval.ratio(self.values(here, of), self.values(there, of))

    def row(self, first: str) -> Mapping[str, str]:
        """Return the row of the table that begins with this cell."""
        rows: Sequence[Mapping[str, str]] = self.report["rows"]
        return next(row for row in rows if next(iter(row.values())) == first)


@dataclass(frozen=True)
class Extent:
    """How thoroughly a claim is measured: repetitions, seconds and keys."""

    repetitions: int
    seconds: float
    """Seconds as the suite takes them: of each measurement, or the most of each run."""
    keys: tuple[str, ...] = ()
    """Overrides of the suite's topology, added after the suite's own."""


@dataclass(frozen=True)
class Size:
    """A size of the setting, such as the number of learners, on which a claim depends."""

    key: str
    """Name of the size in a report."""
    what: str
    smallest: float
    """Smallest size at which the claim can be tested at all."""
    paper: float
    """Smallest size at which numbers can be compared with the paper's; below it, only orders and directions can."""
    before: float
    """The size in reports without this name: those of older commits, and of suites in which the size is fixed."""

    def here(self, found: SuiteResult) -> float:
        """Return the size of the setting in a report."""
        size = found.report.get(self.key, self.before)
        return float(Game.of(size) if isinstance(size, str) else size)

    def written(self, size: float) -> str:
        """Return a size as text."""
        return GAMES[Game(int(size))] if self.key == "env" else f"{size:,.0f}"


def game(smallest: Game, before: Game) -> Size:
    """Return the kind of game as a size; the papers' is Atari."""
    return Size("env", "games", smallest, Game.ATARI, before)


def gpus(smallest: int, paper: int) -> Size:
    """Return the number of GPUs on which the measured processes compute as a size; reports without it used none."""
    return Size("gpus", "GPUs", smallest, paper, 0)


@dataclass(frozen=True)
class Claim:
    """A figure or table of a paper."""

    name: str
    paper: str
    """The paper's system, its authors and its year."""
    part: str
    """Figure, table or section."""
    says: str
    """The claim, in a sentence of our own."""
    refutation: str
    """What would refute it, in a sentence."""
    numbers: Numbers
    """The paper's numbers, as the suite would report them. Where the paper has only words, numbers stand for them: 1
    for a base, and scores of Breakout by a human tester and by random play (`small_games.LEARNED`, `NOTHING`).
    """
    negation: Numbers
    """Numbers that would refute the claim; those that are missing here are as in the paper."""
    sizes: tuple[Size, ...]
    suite: str
    """Name of the suite that measures the claim."""
    whole: Extent
    quick: Extent
    """The reduced form, which takes minutes."""
    differs: str
    """How game, sizes, hyperparameters and machine of the full form differ from the paper's."""
    compare: Callable[[SuiteResult], Sequence[Comparison]]
    also: str = ""
    """Other measurements of the claim, which are not entries of the ledger, as Markdown."""
    topology: str | None = None
    """Shipped topology that replaces the suite's default; None: the default."""
    score: Mapping[str, float] | None = None
    """Environment -> the score to reach, for suites that measure the time to it."""
    envs: Collection[str] | None = None
    """Environments whose scores the claim can judge; None: it judges no scores, or those of all."""
    computing: Collection[str] = ("trainer", "inference")
    """Sections of the topology on whose devices the claim is measured, for the number of GPUs."""

    def knows(self, found: SuiteResult) -> bool:
        """Whether the claim can judge the scores of a report's environment; reports of older commits do not name it."""
        return self.envs is None or found.report.get("env") in (None, *self.envs)

    def comparisons(self, found: SuiteResult) -> Sequence[Comparison]:
        """Return the comparisons of a report with the paper; none if it cannot judge the scores."""
        return self.compare(found) if self.knows(found) else ()

    def too_small(self, found: SuiteResult) -> Sequence[Size]:
        """Return the sizes of a report that are too small to test the claim."""
        return [size for size in self.sizes if size.here(found) < size.smallest]

    def verdict(self, found: SuiteResult) -> str:
        """Return the verdict on a report."""
        if self.too_small(found):
            return UNDECIDED
        said = verdict(self.comparisons(found))
        return IN_SHAPE if said == REPRODUCED and self.reduced(found) else said

    def reduced(self, found: SuiteResult) -> Sequence[Size]:
        """Return the sizes of a report that are smaller than the paper's."""
        return [size for size in self.sizes if size.here(found) < size.paper]

    def reason(self, found: SuiteResult) -> str:
        """Return in a few words why the verdict is not *reproduced*; "" if it is."""
        if small := self.too_small(found):
            return f"too small: {_listed(small, found, 'at least', [size.smallest for size in small])}"
        if not self.knows(found):
            return f"the scores of {found.report['env']} cannot be judged"
        comparisons = self.comparisons(found)
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
    """Return the verdict that follows from these comparisons, for a measurement in the paper's own setting.

    Orders and directions decide first. If all of them hold, the claim is *reproduced* if all numbers hold too, and
    otherwise *in shape*. If one of them fails, the claim is *not reproduced*. If one is undecided or there are none, a
    number that fails decides.
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
    """Compare the speed of the first case, divided by that of the second, with 1 and with the paper's factor."""
    return Comparison(
        f"times as fast: {here}, over {there}",
        paper,
        found.ratio(here, there, of),
        refuted=1.0,
        number=number,
        form="{:.2f}x",
    )
