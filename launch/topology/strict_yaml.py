"""Strict YAML: the subset of YAML in which topologies are written.

Reads text and returns plain values (dict, list, str, int, float, bool, None) with the line of each. Refuses aliases,
anchors, tags, merge keys, directives, several documents, duplicate keys, and documents that are too large or too deep.
Scalars follow the core schema of YAML 1.2 (yes, no, on and off are words; 1:30 is a word) with two differences: groups
of three digits may be separated by underscores (250_000), and a leading zero is an error, because 0777 is octal in YAML
1.1 and decimal in YAML 1.2.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

MAX_BYTES = 256 * 1024
MAX_DEPTH = 20
MAX_VALUES = 2_000
"""Most keys and values in a document. A topology has fewer than 200 keys; the limit bounds the time to read a file."""
MAX_SHOWN = 60
"""Most characters of a value that an error message repeats."""
MAX_FAULTS = 10
"""Most faults of a topology that one error reports."""
COMMAND_LINE, ARGUMENT = "command line", "argument"
"""How errors name the source of a value that is in no file: a command line, or an argument of a Python function."""

Path = tuple[str | int, ...]

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_GROUPED = re.compile(r"[-+]?[1-9][0-9]{0,2}(?:_[0-9]{3})+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's parser, which is 14 times as fast as PyYAML's own; the latter if PyYAML was built without libyaml."""


class TopologyError(ValueError):
    """A topology, an override or a sweep cannot be used. The text is one line: place, value, rule, remedy.

    If there are several faults, the lines of the others are the notes of the exception.
    """


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document and the lines of its values."""

    value: Any
    lines: dict[Path, int]
    """Line (from 1) of each key or list item, by its path."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The file and line, or the override, that gives a value, so that error messages can name it."""

    source: str
    """Name of a file, COMMAND_LINE or ARGUMENT."""
    line: int = 0
    override: bool = False
    """Whether an override gives the value."""
    over: bool = False
    """Whether the override replaces a value of the file. Without it the file's value applies, not the default."""

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line and self.source != ARGUMENT else self.source


def show(value: object) -> str:
    """Return any value as one line of bounded length, with control characters escaped."""
    return short(repr(value) if isinstance(value, str) else _plain(value))


def short(text: str) -> str:
    """Return a text, cut to the length that an error message may repeat."""
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def typed(value: object) -> str:
    """Return a value in the form in which users write it in a topology."""
    return number(value) if isinstance(value, int | float) else show(value)


def number(value: float) -> str:
    """Return a number in the form used in topologies, such as 250_000 or 1.0e-05 (YAML 1.1 reads 1e-05 as text)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}"
    text = json.dumps(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text and isinstance(value, float) else text


def fault(where: str, value: str, rule: str, way_out: str) -> TopologyError:
    """Return an error of one line: place, value, rule and remedy."""
    line = f"{where}: {value}: {rule}; {way_out}"
    return TopologyError("".join(c if c.isprintable() else repr(c)[1:-1] for c in line))


def together(faults: Sequence[TopologyError], others: str) -> TopologyError:
    """Return the first fault with its text extended by the number of ``others``; the other faults are its notes."""
    if len(faults) == 1:
        return faults[0]
    first = TopologyError(f"{faults[0]} (and {others} more)")
    for other in faults[1:]:
        first.add_note(str(other))
    return first


def read(text: str | bytes, source: str, what: str = "a topology") -> Document:
    """Parse one document; ``source`` is its name in errors, ``what`` its kind. Raises only TopologyError."""
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        way_out = "write shorter values, or check the name of the file"
        raise fault(str(Origin(source, 1)), f"{size} bytes", f"{what} has at most {MAX_BYTES} bytes", way_out)
    decoded = _decode(text, source, what) if isinstance(text, bytes) else text
    return _Reader(decoded, source, what).document()


def read_mapping(
    text: str | bytes, source: str, what: str = "a topology", start: str = "env: {id: ALE/Pong-v5}"
) -> tuple[dict[str, Any], dict[Path, Origin]]:
    """Parse one mapping; return it and the origin of each value. ``start``: an example for the error message."""
    document = read(text, source, what)
    value = {} if document.value is None else document.value
    if not isinstance(value, dict):
        raise fault(str(Origin(source, 1)), show(value), f"{what} is a mapping of keys", f"start with '{start}'")
    return value, {(): Origin(source, 1)} | {path: Origin(source, line) for path, line in document.lines.items()}


def _plain(value: object) -> str:
    """Return a value as YAML has it: true, null, 250000; containers as their repr."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)


def _decode(data: bytes, source: str, what: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise fault(
            str(Origin(source, line)),
            f"byte 0x{data[error.start]:02x}",
            f"{what} is UTF-8 text",
            "save the file as UTF-8",
        ) from None


class _Reader:
    """Builds one value from PyYAML's event stream, which creates no objects and follows no references."""

    def __init__(self, text: str, source: str, what: str) -> None:
        self.text = text
        self.source = source
        self.what = what
        self.lines: dict[Path, int] = {}
        self.count = 0
        self.stream = self._events()

    def document(self) -> Document:
        value = None
        seen = False
        for event in self.stream:
            if isinstance(event, yaml.DocumentStartEvent):
                if event.version is not None or event.tags:
                    self._fail(event, "%", "directives are not allowed", "remove the lines that start with %")
                if seen:
                    self._fail(event, "---", f"{self.what} is one document", "keep one and remove the '---' before it")
                seen = True
                value = self._value(next(self.stream), (), 1)
        return Document(value, self.lines)

    def _events(self) -> Iterator[Any]:
        """Yield PyYAML's events; raises TopologyError for PyYAML's exceptions."""
        try:
            yield from yaml.parse(self.text, Loader=LOADER)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line, mark.column) if mark else (0, 0)
            rows = self.text.splitlines() or [""]
            if line >= len(rows):  # the mark is after the last line
                line, column = len(rows) - 1, len(rows[-1])
            if rows[line][column : column + 1] == "\t":
                self._stop(line, show(rows[line].strip()), "a tab; indent with spaces", column)
            self._stop(line, show(rows[line].strip()), str(error.problem), column)
        except yaml.reader.ReaderError as error:
            self._stop(self.text.count("\n", 0, error.position), f"character {error.character!r}", error.reason, 0)
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            self._stop(0, show(self.text[:MAX_SHOWN]), str(error).split("\n", 1)[0], 0)

    def _stop(self, line: int, value: str, problem: str, column: int) -> NoReturn:
        raise fault(
            str(Origin(self.source, line + 1)),
            value,
            f"not valid YAML ({short(problem)})",
            f"check indentation, quotes and brackets at column {column + 1} and before",
        ) from None

    def _value(self, event: Any, path: Path, depth: int) -> Any:
        self._check(event, depth)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, depth)
        return self._mapping(path, depth)

    def _check(self, event: Any, depth: int) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._fail(event, f"*{event.anchor}", "aliases are not allowed", "write the value itself")
        if event.anchor is not None:
            self._fail(event, f"&{event.anchor}", "anchors are not allowed", "remove it and write the value itself")
        if event.tag is not None:
            self._fail(event, f"tag {event.tag}", "tags are not allowed", "remove the tag; types follow from the key")
        if depth > MAX_DEPTH:
            self._fail(event, f"level {depth}", f"values nest at most {MAX_DEPTH} deep", "use fewer levels")
        self.count += 1
        if self.count > MAX_VALUES:
            rule = f"{self.what} has at most {MAX_VALUES} keys and values"
            self._fail(event, f"value {self.count}", rule, "use fewer, or check the name of the file")

    def _sequence(self, path: Path, depth: int) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self.stream), yaml.SequenceEndEvent):
            here = (*path, len(items))
            self.lines[here] = event.start_mark.line + 1
            items.append(self._value(event, here, depth + 1))
        return items

    def _mapping(self, path: Path, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self.stream), yaml.MappingEndEvent):
            key = self._key(event, depth)
            here = (*path, key)
            if key in values:
                first = self.lines[here]
                rule = f"a key may be in a section only once, and this key is also on line {first}"
                self._fail(event, show(key), rule, "keep one of the two")
            self.lines[here] = event.start_mark.line + 1
            values[key] = self._value(next(self.stream), here, depth + 1)
        return values

    def _key(self, event: Any, depth: int) -> str:
        self._check(event, depth)
        if not isinstance(event, yaml.ScalarEvent):
            self._fail(event, "a list or mapping as key", "a key must be a word", "write 'key: value'")
        key = self._scalar(event)
        if key == "<<":
            self._fail(event, "<<", "merge keys are not allowed", "write the merged keys themselves")
        if not isinstance(key, str):
            self._fail(event, show(key), "a key must be a word", "write a key from the list in topology.schema.json")
        return key

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if not event.implicit[0]:  # quoted or block: always a string
            return text
        if text in _NULL:
            return None
        if text in _BOOL:
            return _BOOL[text]
        if _LEADING_ZERO.fullmatch(text):
            rule = "a number must not start with a zero (YAML 1.1 reads it as octal, 1.2 as decimal)"
            self._fail(event, show(text), rule, "remove the zero, write 0o for octal, or quote it")
        if _NOT_FINITE.fullmatch(text):
            self._fail(event, text, "a number must be finite", "write a finite number, or leave the key out")
        return self._number(event, text)

    def _number(self, event: Any, text: str) -> Any:
        if _DECIMAL.fullmatch(text) or _GROUPED.fullmatch(text) or _OCTAL.fullmatch(text) or _HEX.fullmatch(text):
            if len(text.replace("_", "")) > 24:
                self._fail(event, show(text), "an integer has at most 24 digits", "write a smaller number")
            base = 8 if text.startswith("0o") else 16 if text.startswith("0x") else 10
            return int(text, base)
        if _FLOAT.fullmatch(text):
            number = float(text)
            if not math.isfinite(number):
                self._fail(event, show(text), "a number must be finite", "write a smaller number")
            return number
        return text

    def _fail(self, event: Any, value: str, rule: str, way_out: str) -> NoReturn:
        raise fault(str(Origin(self.source, event.start_mark.line + 1)), short(value), rule, way_out)
