"""Lines per file and the longest functions: ``python -m tests.sizes``. Size is watched, not golfed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("actorlearn", "launch")
LONGEST_FUNCTIONS = 15


@dataclass(frozen=True, slots=True)
class Function:
    """A function and how many lines it takes, docstring included, decorators not."""

    file: Path
    name: str
    lines: int


def source_files(*folders: str) -> list[Path]:
    """The Python files of the project's folders, by name."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def line_count(file: Path) -> int:
    """Lines of a file, empty ones included."""
    return len(file.read_text(encoding="utf-8").splitlines())


@cache
def parsed(file: Path) -> ast.Module:
    """The tree of a file, for all who look at it."""
    return ast.parse(file.read_text(encoding="utf-8"))


def functions(file: Path) -> Iterator[Function]:
    """Every function and method of a file, nested ones included."""
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(file, node.name, (node.end_lineno or node.lineno) - node.lineno + 1)


def main() -> None:
    """Print the report."""
    for folders in (PACKAGES, ("tests",)):
        files = [file for file in source_files(*folders) if line_count(file)]
        counts = [line_count(file) for file in files]
        print(f"{' and '.join(folders)}: {len(files)} files, {sum(counts)} lines, median {median(counts):g}")
        for count, file in sorted(zip(counts, files, strict=True), reverse=True):
            print(f"  {count:5d}  {file.relative_to(ROOT)}")
    found = sorted((f for file in source_files(*PACKAGES) for f in functions(file)), key=lambda f: -f.lines)
    print(f"functions of {' and '.join(PACKAGES)}: {len(found)}, median {median(f.lines for f in found):g} lines")
    for function in found[:LONGEST_FUNCTIONS]:
        print(f"  {function.lines:5d}  {function.file.relative_to(ROOT)}: {function.name}")


if __name__ == "__main__":
    main()
