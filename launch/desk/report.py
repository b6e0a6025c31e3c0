"""Makes a report: one HTML file with the desk's page and the data of some runs, which opens without a network.

The file contains the scripts and styles of the page. Its content security policy allows only these, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from actorlearn.files import open_regular
from actorlearn.nearest import did_you_mean
from launch.desk.stream import InFull, Overview
from launch.desk.watched import WatchedRuns
from launch.errors import RunError
from launch.plan.roles import FILMS
from launch.reports.format import as_bytes
from launch.runs.find import RUNS, RunFolder

PAGE = Path(__file__).parent / "page"
"""Folder with the HTML, styles and scripts of the page."""
MOST_FILM_BYTES = 8_000_000
"""Most bytes of all films in a report together; the report names the films that it leaves out."""
_STYLE = re.compile(r'<link rel="stylesheet" href="page/([\w.]+)">')
_SCRIPT = re.compile(r'<script (type="module" )?src="page/([\w.]+)"(?: defer)?></script>')
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_ELSEWHERE = re.compile(r'<link rel="(?:icon|modulepreload)"[^>]*>\n')


def page(runs: Sequence[RunFolder], metric: str) -> str:
    """Return the HTML of a report with the curves of ``metric``; raises RunError if no run has this metric."""
    found = _collect(runs, metric)
    text, hashes = _inlined((PAGE / "index.html").read_text())
    policy = (
        f"default-src 'none'; img-src data:; media-src data:; style-src {' '.join(hashes['style'])}; "
        f"script-src {' '.join(hashes['script'])}; base-uri 'none'; form-action 'none'"
    )
    # In a script element only "<" could end the element early.
    data = msgspec.json.encode(found).decode().replace("<", "\\u003c")
    text = text.replace("<head>", f'<head>\n<meta http-equiv="Content-Security-Policy" content="{policy}">', 1)
    return text.replace("</head>", f'<script id="parts" type="application/json">{data}</script>\n</head>', 1)


def _collect(runs: Sequence[RunFolder], metric: str) -> dict[str, Any]:
    watched = WatchedRuns(RUNS, runs)
    for one in watched.look():
        one.read_best()
    found = Overview(watched, (metric,), columns=None, in_full=None, changes=False, live=False).changed()
    known = [one["name"] for one in found["desk"]["metrics"]]
    if metric not in known and not any(len(one.curve(metric, whole=True).points.numbers) for one in watched.look()):
        hint = did_you_mean(metric, known, "docs/metrics.md lists the names")
        raise RunError(f"--y {metric}: no run has this metric; {hint}")
    left = MOST_FILM_BYTES
    for one in watched.look():
        full = InFull(one.run).changed()
        for film in full["films"]:
            path = one.run.path / FILMS / film.pop("file")
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                data = file.read() if size <= left else b""
            if size <= left:
                left -= size
                film["data"] = f"data:video/mp4;base64,{base64.b64encode(data).decode()}"
            else:
                film["said"] += f"; {as_bytes(size)}, too large for this report: {path}"
        found |= {f"run/{one.id}/{name}": value for name, value in full.items()}
    return found


def _inlined(text: str) -> tuple[str, dict[str, list[str]]]:
    """Return the page with its styles and scripts inside, and "style" or "script" -> hashes of their texts."""
    hashes: dict[str, list[str]] = {"style": [], "script": []}

    def put(kind: str, attributes: str, content: str) -> str:
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        hashes[kind].append(f"'sha256-{digest}'")
        return f"<{kind}{attributes}>{content}</{kind}>"

    def script(found: re.Match[str]) -> str:
        module, name = found.groups()
        return put("script", ' type="module"' if module else "", _joined(name, []))

    text = _ELSEWHERE.sub("", text)
    text = _STYLE.sub(lambda found: put("style", "", (PAGE / found[1]).read_text()), text)
    return _SCRIPT.sub(script, text), hashes


def _joined(name: str, before: list[str]) -> str:
    """Join a script and the modules that it imports into one script: a page opened from a file can load no modules.

    No two modules may define the same name. ``before``: modules that are in the page already; the new ones are added.
    """
    before.append(name)
    text = (PAGE / name).read_text()
    needed = [own for own in _IMPORT.findall(text) if own not in before]
    return "".join(_joined(own, before) for own in needed if own not in before) + _EXPORT.sub("", _IMPORT.sub("", text))
