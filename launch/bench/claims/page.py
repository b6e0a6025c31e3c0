"""Pages of the ledger, made from its entries: ``python -m launch.bench.claims.page``.

Writes a page for each entry, and the tables of docs/results.md and of the README between their marks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launch.bench.claims import CLAIMS
from launch.bench.claims.claim import IN_SHAPE, NOT_REPRODUCED, REPRODUCED, Claim
from launch.bench.claims.ledger import LEDGER, Entry, read

ROOT = LEDGER.parents[2]
BEGIN, END = "<!-- the ledger: made by `make pages` -->", "<!-- the ledger's end -->"
TABLES = {"README.md": "docs/results/ledger", "docs/results.md": "results/ledger"}
"""Pages with a table of the ledger -> the ledger's folder, as the page links to it."""


def page(claim: Claim, entry: Entry) -> str:
    """Return an entry as a page of Markdown."""
    report = entry.report
    reduced = f"{claim.differs[0].upper()}{claim.differs[1:]}."
    seeds = f"{entry.repetitions} repetition{'s' * (entry.repetitions > 1)}"
    parts = [
        f"# {claim.name}: {entry.verdict}",
        f"{claim.paper}, {claim.part}. {claim.says}",
        _table(
            ("", "in the paper", "here", "holds"),
            [
                (one.what, one.paper, one.here, ("yes" if one.holds else "no") + (", a number" if one.number else ""))
                for one in entry.comparisons
            ],
        ),
        f"In place of the paper's: {reduced}",
        f"`{entry.command}`, {seeds}, {entry.seconds:g} s at most of each case or run, {entry.date}, {_where(report)}:",
        _table(tuple(report["rows"][0]), [tuple(row.values()) for row in report["rows"]]),
        "\n".join(f"* {note}" for note in report["notes"]),
    ]
    if (LEDGER / f"{claim.name}.png").is_file():
        parts.append(f"![{claim.says}]({claim.name}.png)")
    if (LEDGER / f"{claim.name}.csv").is_file():
        parts.append(f"Points of the curves: [{claim.name}.csv]({claim.name}.csv).")
    return "\n\n".join(part for part in parts if part) + "\n"


def table(entries: Mapping[str, Entry], folder: str) -> str:
    """Return the table of all entries; ``folder``: the ledger's, as its page links to it."""
    counts = {
        word: sum(entry.verdict == word for entry in entries.values())
        for word in (REPRODUCED, IN_SHAPE, NOT_REPRODUCED)
    }
    said = ", ".join(f"{count} {word}" for word, count in counts.items())
    rows = [
        (CLAIMS[name].paper.partition(",")[0], CLAIMS[name].part, f"[{name}]({folder}/{name}.md)", entry.verdict)
        for name, entry in entries.items()
    ]
    return f"{len(entries)} claims of five papers: {said}.\n\n" + _table(
        ("paper", "figure or table", "claim", "verdict"), rows
    )


def with_table(text: str, entries: Mapping[str, Entry], folder: str) -> str:
    """Return a page with its table made anew, between the marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(entries, folder)}\n\n{END}{after}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)])


def _where(report: Mapping[str, Any]) -> str:
    """Return machine, torch and commit of a report."""
    about = report["machine"]
    commit = f", commit {report['commit'][:7]}{' and changes' if report['dirty'] else ''}" if report["commit"] else ""
    return f"{about['cores']} cores of {about['cpu']}, torch {report['packages'].get('torch', '?')}{commit}"


def main(root: Path = ROOT) -> None:
    """Write all pages and tables."""
    entries = read()
    for name, entry in entries.items():
        (LEDGER / f"{name}.md").write_text(page(CLAIMS[name], entry), encoding="utf-8")
    for name, folder in TABLES.items():
        path = root / name
        path.write_text(with_table(path.read_text(encoding="utf-8"), entries, folder), encoding="utf-8")


if __name__ == "__main__":
    main()
