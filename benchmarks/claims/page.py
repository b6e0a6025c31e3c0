"""Pages of the ledger, made from its entries: ``python -m benchmarks pages``.

Writes a page for each entry, and the tables between marks in the READMEs of the project and of benchmarks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.claims import CLAIMS
from benchmarks.claims.claim import FAILS, OPEN, REPRODUCED, VERDICTS, Claim
from benchmarks.claims.ledger import LEDGER, LedgerEntry, read
from launch.bench.report import described

ROOT = LEDGER.parents[2]
BEGIN, END = "<!-- the ledger: made by `make pages` -->", "<!-- the ledger's end -->"


def page(claim: Claim, entry: LedgerEntry) -> str:
    """Return the page of an entry as Markdown."""
    report = entry.report
    differs = f"{claim.differs[0].upper()}{claim.differs[1:]}."
    where = described(report, f"{report['machine']['cores']} cores")
    parts = [
        f"# {claim.name}: {entry.verdict}",
        f"In place of the paper's: {differs}",
        f"{claim.paper}, {claim.part}. {claim.says}",
        f"Refuted if {claim.refutation}.",
        f"Not *{REPRODUCED}*: {entry.reason}." if entry.reason else "",
        _table(
            ("", "in the paper", "here", "holds"),
            [
                (one.what, one.paper, one.said, one.outcome + (" (a number)" if one.number is not None else ""))
                for one in entry.comparisons
            ],
        ),
        _table(
            ("size", "in the paper", "at least", "here"),
            [
                (size.what, *(size.written(of) for of in (size.paper, size.smallest, size.here(entry.found))))
                for size in claim.sizes
            ],
        )
        if claim.sizes
        else "",
        f"Also measured: {claim.also}." if claim.also else "",
        f"`{entry.command}`, {_repetitions(entry)}, {entry.seconds:g} s at most of each case or run, {entry.date}, "
        f"{where}:",
        _table(tuple(report["rows"][0]), [tuple(row.values()) for row in report["rows"]]),
        "\n".join(f"* {note}" for note in report["notes"]),
    ]
    if (LEDGER / f"{claim.name}.png").is_file():
        parts.append(f"![{claim.says}]({claim.name}.png)")
    if (LEDGER / f"{claim.name}.csv").is_file():
        parts.append(f"Points of the curves: [{claim.name}.csv]({claim.name}.csv).")
    return "\n\n".join(part for part in parts if part) + "\n"


def table(entries: Mapping[str, LedgerEntry]) -> str:
    """Return the table of all entries, for benchmarks/README.md."""
    return _table(
        ("paper", "figure or table", "claim", "verdict", "why", "the paper's", "ours", "seeds", "steps", "hours"),
        [_row(CLAIMS[name], entry) for name, entry in entries.items()],
    )


def _row(claim: Claim, entry: LedgerEntry) -> tuple[str, ...]:
    comparisons = entry.comparisons
    deciding = [*(one for said in (FAILS, OPEN) for one in comparisons if one.outcome == said), *comparisons][:1]
    steps = entry.report.get("steps")
    return (
        claim.paper.partition(",")[0],
        claim.part,
        f"[{claim.name}](results/ledger/{claim.name}.md)",
        entry.verdict,
        entry.reason,
        "".join(f"{one.what}: {one.paper}" for one in deciding),
        "".join(one.said for one in deciding),
        str(entry.repetitions),
        f"{steps:,.0f}" if steps else "",
        f"{entry.hours:.2g}" if entry.hours else "",
    )


def _repetitions(entry: LedgerEntry) -> str:
    return f"{entry.repetitions} repetition{'s' * (entry.repetitions > 1)}"


def summary(entries: Mapping[str, LedgerEntry]) -> str:
    """Return a table with a row for each paper, which counts its claims by verdict, for the project's README."""
    rows = []
    for paper in dict.fromkeys(CLAIMS[name].paper for name in entries):
        verdicts = [entry.verdict for name, entry in entries.items() if CLAIMS[name].paper == paper]
        rows.append((paper, *(str(verdicts.count(word)) for word in VERDICTS)))
    return _table(("paper", *VERDICTS), rows)


TABLES: Mapping[str, Callable[[Mapping[str, LedgerEntry]], str]] = {"README.md": summary, "benchmarks/README.md": table}
"""Page with a table of the ledger between marks -> function that makes the table."""


def with_table(text: str, made: str) -> str:
    """Return a page with a new text between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{after}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)])


def main() -> None:
    """Write all pages and tables."""
    entries = read()
    for name, entry in entries.items():
        (LEDGER / f"{name}.md").write_text(page(CLAIMS[name], entry), encoding="utf-8")
    for name, make in TABLES.items():
        path = ROOT / name
        path.write_text(with_table(path.read_text(encoding="utf-8"), make(entries)), encoding="utf-8")
