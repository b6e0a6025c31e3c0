"""``actorlearn bench``: lists the suites, or runs one and shows what it measured."""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launch.bench import SUITES, Suite, SuiteRequest, report
from launch.errors import FailedError, RunError
from launch.topology.load import load
from launch.topology.overrides import expand

OPTIONS = {
    "--seeds": ("seeds_wanted",),
    "--score or --whole": ("score", "whole"),
    "--at-once": ("at_once",),
    "--part or --device": ("parts", "device"),
}
"""Options that only some suites take -> their fields in a SuiteRequest."""
_CHECKOUT = "to compare with papers and other programs, run python -m benchmarks in a checkout"


def bench(name: str | None, words: Sequence[str], wanted: Mapping[str, Any], json: bool) -> int:
    """Run the suite ``name``, or list all suites if it is None; return the exit status.

    ``words``: topology and overrides, or names of runs or tasks; ``wanted``: the other fields of a SuiteRequest.
    """
    if name is None:
        show_list(SUITES)
        return 0
    if name not in SUITES:
        raise RunError(f"there is no suite {name!r}; choose one of {', '.join(SUITES)}; {_CHECKOUT}")
    suite = SUITES[name]
    for options, fields in OPTIONS.items():
        if any(wanted.get(field) != getattr(SuiteRequest, field) for field in fields) and fields[0] not in suite.takes:
            takers = ", ".join(known for known, one in SUITES.items() if fields[0] in one.takes)
            raise RunError(f"suite {name} does not take {options}; these suites do: {takers}")
    measure(name, suite, SuiteRequest(**what_to_measure(name, suite, words), **wanted), json)
    return 0


def show_list(suites: Mapping[str, Suite]) -> None:
    """Print a line for each suite: its name and what it measures."""
    width = max(map(len, suites))
    for name, suite in suites.items():
        print(f"{name:<{width}}  {(suite.load().__doc__ or '').strip().partition(chr(10))[0]}")


def what_to_measure(name: str, suite: Suite, words: Sequence[str]) -> dict[str, Any]:
    """Return the fields topology, overrides and names of a SuiteRequest; ``words``: arguments of the command line.

    Raises RunError for a topology that the suite does not take, and TopologyError for an invalid one.
    """
    if suite.takes_names:
        return {"topology": "", "overrides": (), "names": tuple(words)}
    topology, overrides = None, words
    if words and ("=" not in words[0] or Path(words[0]).exists()):
        topology, overrides = words[0], words[1:]
    if suite.topology is None and topology is not None:
        raise RunError(f"suite {name} has its own topologies; omit {topology!r}")
    if overrides and not suite.takes_keys:
        raise RunError(f"suite {name} has its own keys, with which all its cases are measured; omit {overrides[0]!r}")
    overrides = tuple(override.text for override in expand(overrides))
    if topology is None:
        topology, overrides = suite.path(), (*suite.keys, *overrides)
    if not suite.sets_modes:
        load(topology, overrides)
    return {"topology": topology, "overrides": overrides}


def measure(name: str, suite: Suite, request: SuiteRequest, json: bool) -> None:
    """Run a suite and print its report; if the request names a folder, write the report there too.

    Raises FailedError if the measurement fails, and RunError if the request is wrong.
    """
    if request.output is not None:
        make_folder(request.output)
    try:
        found = suite.load()(request)
    except FailedError as error:
        raise FailedError(f"{name}: {error}") from None
    if json:
        print(json_format.dumps(found.as_json()))
    else:
        report.show(found)
    if request.output is not None:
        try:
            report.write(found, request.output)
        except OSError as error:
            raise FailedError(
                f"-o {request.output}: cannot be written: {error}; the results are printed above"
            ) from None


def make_folder(folder: Path) -> None:
    """Make the folder that option -o names, if it does not exist; raises RunError if it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"-o {folder}: {error.strerror}; name a folder that exists or can be made") from None
