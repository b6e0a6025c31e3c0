"""Writes all generated pages and schemas."""

from __future__ import annotations

from pathlib import Path

from docs.pages.generated import GENERATED

if __name__ == "__main__":
    for file, text in GENERATED.items():
        (Path(__file__).parents[2] / file).write_text(text(), encoding="utf-8")
