"""``actorlearn bench``: lists the suites, or runs one and shows what it found."""

from __future__ import annotations

import json as json_format
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launch.bench import SUITES, Suite
from launch.bench.measure import report
from launch.bench.measure.request import Request, shipped
from launch.commands.run import find_engine
from launch.errors import FailedError, RunError
from launch.topology.load import load
from launch.topology.overrides import expand

REPRODUCE = "reproduce"
"""The word in a suite's place behind which stands a claim of a paper."""


def bench(name: str | None, wanted: Mapping[str, Any], output: Path | None, json: bool) -> int:
    """Run a suite, or list them; returns the exit status. ``wanted`` are the fields of a Request."""
    if name is None:
        for known, suite in SUITES.items():
            print(f"{known:<14} {(suite.load().__doc__ or '').strip().partition(chr(10))[0]}")
        return 0
    if name not in SUITES:
        raise RunError(f"{name!r} is no suite: choose one of {', '.join(SUITES)}")
    try:
        request = _request(name, SUITES[name], {**wanted, "output": output})
        if output is not None:
            _make(output)
        end_in_order()
        found = SUITES[name].load()(request)
    except FailedError as error:
        raise FailedError(f"{name}: {error}") from None
    if json:
        print(json_format.dumps(found.as_json()))
    else:
        report.show(found)
    if output is not None:
        try:
            report.write(found, output)
        except OSError as error:
            raise FailedError(f"-o {output}: not written: {error}; what was found stands above") from None
    return 0


def reproduce(name: str | None, unread: Sequence[str], quick: bool, output: Path | None, json: bool) -> int:
    """Measure a claim of a paper and judge it, or list them with what the ledger says; returns the exit status.

    How thoroughly a claim is measured it says itself: whole, or ``quick``. ``unread``: further words, which it refuses.
    """
    from launch.bench.claims import CLAIMS, ledger

    if name is None:
        known = ledger.read()
        for claim in CLAIMS.values():
            found = known[claim.name].verdict if claim.name in known else "not measured"
            print(f"{claim.name:<24} {found:<20} {claim.paper.partition(',')[0]}, {claim.part}")
        return 0
    claim = ledger.claim_of(name)
    if unread:
        raise RunError(
            f"{REPRODUCE} {name}: leave {' '.join(unread)} out, as the claim says how it is measured; its suite by "
            "itself is "
            f"`bench {claim.suite}`"
        )
    end_in_order()
    try:
        entry, measured = ledger.reproduce(claim, quick, output)
    except FailedError as error:
        raise FailedError(f"{name}: {error}") from None
    if json:
        print(json_format.dumps(ledger.as_json(entry)))
    else:
        report.show(measured)
        report.show(ledger.judged(claim, entry))
    if output is not None:
        ledger.write(entry, measured, output)
    return 0


def _request(name: str, suite: Suite, wanted: Mapping[str, Any]) -> Request:
    """The request of a suite; what is wrong with its topology is said before anything is measured."""
    topology, overrides = wanted["topology"], wanted["overrides"]
    wanted = {**wanted, "seconds": wanted["seconds"] or suite.seconds}
    wanted |= _in_parts(name, suite, wanted)
    if suite.reads_runs:
        words = tuple(word for word in (topology, *overrides) if word is not None)
        return Request(**{**wanted, "topology": "", "overrides": (), "runs": words})
    if (wanted.get("seeds_wanted") or wanted.get("whole")) and not suite.draws_seeds:
        takers = ", ".join(known for known, one in SUITES.items() if one.draws_seeds)
        raise RunError(f"{name} takes no --seeds and no --whole: leave them out; these do: {takers}")
    if wanted.get("engine") is not None and not suite.takes_engine:
        takers = ", ".join(known for known, one in SUITES.items() if one.takes_engine)
        raise RunError(f"{name} takes no --engine: leave {wanted['engine']!r} out; these do: {takers}")
    find_engine(wanted.get("engine"))
    topology, overrides = _to_measure(name, suite, topology, overrides)
    return Request(**{**wanted, "topology": topology, "overrides": overrides})


def _in_parts(name: str, suite: Suite, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts, minutes and device that are asked for; raises RunError where the suite has no parts."""
    options = {"parts": "--all or --part", "minutes": "--minutes", "device": "--device"}
    asked = {word: wanted[word] for word in options if wanted.get(word)}
    if asked and not suite.in_parts:
        takers = ", ".join(known for known, one in SUITES.items() if one.in_parts)
        raise RunError(f"{name} takes no {options[next(iter(asked))]}: leave it out; these do: {takers}")
    if asked.get("device", "cpu") not in ("cpu", "cuda"):
        raise RunError(f"--device {asked['device']}: cpu or cuda")
    return {"parts": (), "minutes": None, "device": "cuda", **asked}


def _to_measure(name: str, suite: Suite, topology: str | None, overrides: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Topology and overrides of a suite; one that brings its own gets overrides alone."""
    if topology is not None and "=" in topology and not Path(topology).exists():
        overrides, topology = (topology, *overrides), None
    if suite.topology is None and topology is not None:
        raise RunError(f"{name} has topologies of its own: leave {topology!r} out")
    overrides = tuple(expand(overrides))
    if topology is None:
        topology, overrides = shipped(suite.topology or "pong.yaml"), (*suite.keys, *overrides)
    if not suite.sets_modes:
        load(topology, overrides)
    return topology, overrides


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"-o {folder}: {error.strerror}; name a folder that is there or can be made") from None


def end_in_order() -> None:
    """Let SIGTERM and SIGHUP end this process as Ctrl-C does, so that what it has started is ended too."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
