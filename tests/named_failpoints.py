"""The failpoints that a source names."""

from __future__ import annotations

import ast


def calls(tree: ast.AST) -> list[tuple[str | None, int]]:
    """Names and lines of all failpoints in a file; None for one that is no literal."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("hit", "through"):
            name = node.args[0]
            found.append((str(name.value) if isinstance(name, ast.Constant) else None, node.lineno))
    return found
