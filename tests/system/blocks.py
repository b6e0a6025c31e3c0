"""Find the command blocks of a page, and run them in order, as a reader would who pastes them.

A block ```sh is run by bash, up to the first command that fails. A block whose first line is a comment with a file's
name becomes that file. An HTML comment on the line before a block says what else a reader does:

* ``by hand: why``: it is not run here;
* ``exit 2``: its last command must end with this status;
* ``in a terminal of its own``: it runs on beside the blocks that follow.

A block without a language below a block ```sh shows what the commands print, shortened. Each of its lines must be a
line of the output, in any order. Any number matches any other, the number of blanks does not matter, and ``…`` matches
anything.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]+) -->\n)?```(?P<kind>[\w{}]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
PRINTED = ""
"""The kind of a block that shows what the one before it printed."""
NUMBER = re.compile(r"-?(?:\d[\d,.:]*)?\d")
FILE = re.compile(r"# ([\w-]+\.(?:py|yaml))\b")
BESIDE = "in a terminal of its own"
BY_HAND = "by hand: "
EXIT = "exit "
READY_S = 300.0
"""Seconds that a run in a terminal of its own may take before its first report."""


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    kind: str
    text: str
    mark: str = ""
    printed: str = ""
    """What it prints, shortened; empty if the page does not show this."""

    @property
    def file(self) -> str:
        """Name of the file that it is; empty where it is none."""
        found = FILE.match(self.text)
        return found[1] if found else ""


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page that names its language, commands with what they print."""
    found = [Block(each["kind"], each["text"], each["mark"] or "") for each in BLOCK.finditer(page.read_text())]
    for place, (block, below) in enumerate(pairwise(found)):
        if (block.kind, below.kind) == ("sh", PRINTED):
            found[place] = replace(block, printed=below.text)
    return [block for block in found if block.kind != PRINTED]


def unprinted(shown: str, output: str) -> list[str]:
    """Return the lines that a page shows and that match no line of the output."""
    printed = [*map(_words, output.splitlines())]
    return [line for line in shown.splitlines() if line.strip() and not any(map(_like(line).fullmatch, printed))]


def _words(line: str) -> str:
    """A line without the blanks that align it, also those after a bracket: ``(100.0%)`` and ``( 18.1%)``."""
    return " ".join(line.split()).replace("( ", "(")


def _like(line: str) -> re.Pattern[str]:
    """A pattern of the lines that differ from this one in numbers alone, or where it has ``…``."""
    words = _words(line)
    parts = (NUMBER.pattern.join(map(re.escape, NUMBER.split(part))) for part in words.split("…"))
    return re.compile(".*".join(parts))


def is_known(mark: str) -> bool:
    """Whether a mark is one of those above."""
    return mark in ("", BESIDE) or mark.startswith(BY_HAND) or bool(re.fullmatch(rf"{EXIT}\d", mark))


def runs_something(page: Path) -> bool:
    """Whether a page has commands that are run here."""
    return any(block.kind == "sh" and not block.mark.startswith(BY_HAND) for block in blocks(page))


def follow(page: Path, folder: Path, environment: dict[str, str]) -> None:
    """Do all that a page says, in a folder."""
    beside: list[subprocess.Popen[bytes]] = []
    try:
        for number, block in enumerate(blocks(page)):
            if block.file:
                (folder / block.file).write_text(block.text)
            elif block.kind == "sh" and block.mark == BESIDE:
                beside.append(_started(block, folder, environment, folder / f"terminal-{number}.txt"))
            elif block.kind == "sh" and not block.mark.startswith(BY_HAND):
                _run(block, folder, environment)
    finally:
        for process in beside:
            process.send_signal(signal.SIGINT)
            process.wait()


def _bash(block: Block) -> list[str]:
    return ["bash", "-euo", "pipefail", "-c", block.text]


def _run(block: Block, folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        _bash(block), cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    wanted = int(block.mark.removeprefix(EXIT)) if block.mark.startswith(EXIT) else 0
    assert done.returncode == wanted, f"{block.text}ended with {done.returncode}:\n{done.stdout[-3000:]}"
    missing = unprinted(block.printed, done.stdout)
    assert not missing, f"{block.text}is shown to print {missing}, and printed:\n{done.stdout[-3000:]}"


def _started(block: Block, folder: Path, environment: dict[str, str], output: Path) -> subprocess.Popen[bytes]:
    with output.open("wb") as file:
        text = Block(block.kind, f"exec {block.text}")
        process = subprocess.Popen(_bash(text), cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT)
    deadline_s = time.monotonic() + READY_S
    while " steps/s" not in output.read_text():
        assert process.poll() is None and time.monotonic() < deadline_s, output.read_text()
        time.sleep(0.2)
    return process


def environment(commands: Path, sockets: Path, home: Path) -> dict[str, str]:
    """The environment of a reader's terminal, with our commands first on its path."""
    bare = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    own = {"PATH": f"{commands}:{bare['PATH']}", "XDG_RUNTIME_DIR": str(sockets), "HOME": str(home), "TERM": "dumb"}
    return bare | own


def pages(*folders: Path) -> Iterator[Path]:
    """Every page of some folders."""
    for folder in folders:
        yield from sorted(folder.glob("*.md"))
