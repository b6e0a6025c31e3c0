"""Describes exceptions of users' code in one line that is safe to print.

The text of such an exception may be very long, may contain control characters for a terminal, and its ``__str__`` may
itself raise an exception.
"""

from __future__ import annotations

import os
import re
import traceback
from pathlib import Path

MOST_CHARACTERS = 1_000
"""Longest text of an exception. The middle of a longer text is left out, because its end often names the place in the
code."""
_END = 200
"""Number of characters that are kept at the end of a longer text."""
_FOLDERS = tuple(f"{Path(file).parent}{os.sep}" for file in (__file__, os.__file__))
"""Folders of actorlearn and of Python's own modules."""
_INSTALLED = re.compile(r".*/(?:site|dist)-packages/([^/]+)/")
_LIBRARIES = frozenset({"actorlearn", "gymnasium", "numpy", "torch"})
"""Installed packages whose code is not the user's; any other installed package may be a plug-in of the user."""
_CALL = re.compile(r'  File "(.*)", line (\d+) in ')
"""A line of a stack that ``faulthandler`` prints."""


def words_of(error: BaseException) -> str:
    """Return the text of an exception in one line; empty if it has none."""
    try:
        text = str(error)
    except Exception as own:
        text = f"its text cannot be read, because its __str__ raises {type(own).__name__}"
    text = " ".join(text.split())
    if len(text) > MOST_CHARACTERS:
        text = f"{text[: MOST_CHARACTERS - _END]}…{text[-_END:]}"
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def in_one_line(error: BaseException) -> str:
    """Return "Type: text" of an exception; only the type if it has no text."""
    return f"{type(error).__name__}: {words_of(error)}".removesuffix(": ")


def place_of(error: BaseException) -> str:
    """Return " (FILE, line N)" of the innermost call in the user's code; empty if no call is in the user's code."""
    calls = [(call.filename, call.lineno) for call in traceback.extract_tb(error.__traceback__)]
    own = [call for call in calls if is_own(call[0])]
    return f" ({Path(own[-1][0]).name}, line {own[-1][1]})" if own else ""


def place_in_stack(text: str) -> str:
    """Return " (FILE, line N)" as `place_of` does, for the current thread in a text printed by ``faulthandler``."""
    stack = f"\n{text}".partition("\nCurrent thread ")[2]
    own = [call for call in _CALL.findall(stack) if is_own(call[0])]
    return f" ({Path(own[0][0]).name}, line {own[0][1]})" if own else ""


def is_own(file: str) -> bool:
    """Whether a file belongs to the user or a plug-in: not to actorlearn, Python or one of ``_LIBRARIES``."""
    if package := _INSTALLED.match(file):
        return package[1] not in _LIBRARIES
    return not file.startswith((*_FOLDERS, "<"))
