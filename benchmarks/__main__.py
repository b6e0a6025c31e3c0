"""``python -m benchmarks``: the commands of this package."""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.registry import PEERS, SUITES, VISIT, Benchmark
from benchmarks.request import BenchmarkRequest
from launch.cli import Engine, Json, Keys, Overrides
from launch.command_group import Commands
from launch.errors import FailedError, RunError
from launch.machine.signals import end_in_order

Topology = Annotated[str | None, typer.Argument(help="The topology to measure; without it the suite's own.")]
Repetitions = Annotated[
    int, typer.Option(min=1, max=1000, help="Number of measurements of each case, interleaved with the other cases.")
]
Seconds = Annotated[float, typer.Option(min=1.0, max=86_400.0, help="Seconds of one measurement.")]
Quick = Annotated[bool, typer.Option("--quick", help="Measure fewer cases, once, for 5 seconds: a rough answer.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for SUITE.json, .md, .png.")]

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Measure papers and other programs again. benchmarks/README.md says how.",
)


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="CLAIM", help="A claim of a paper; without it the claims are listed.")
    ] = None,
    overrides: Overrides = None,
    quick: Annotated[bool, typer.Option("--quick", help="Measure the claim's reduced form: minutes.")] = False,
    repetitions: Annotated[
        int | None,
        typer.Option(
            min=1, help="Times to measure each case, with another seed each time. Default: the claim's number."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for CLAIM.json, .csv, .png; single runs are kept.")
    ] = None,
    json: Json = False,
) -> int:
    """Measure a figure or table of a paper again, with seeds drawn from the clock, and compare it with the paper."""
    from benchmarks.claims import CLAIMS, ledger
    from launch.bench import report

    if name is None:
        known = ledger.read()
        for claim in CLAIMS.values():
            verdict = known[claim.name].verdict if claim.name in known else "not measured"
            print(f"{claim.name:<28} {verdict:<20} {claim.paper.partition(',')[0]}, {claim.part}")
        return 0
    claim = ledger.claim_of(name)
    try:
        entry, measured = ledger.reproduce(claim, quick, output, overrides or (), repetitions)
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


@app.command()
def suite(  # noqa: PLR0913 - one parameter for each word of the command
    name: Annotated[str | None, typer.Argument(metavar="SUITE", help="Without it the suites are listed.")] = None,
    topology: Topology = None,
    overrides: Overrides = None,
    repetitions: Repetitions = 5,
    seconds: Seconds = 15.0,
    quick: Quick = False,
    score: Annotated[float | None, typer.Option(help="dba3c-nodes: the mean score to reach.")] = None,
    engine: Engine = None,
    keys: Keys = None,
    output: Output = None,
    json: Json = False,
) -> int:
    """Run a suite that measures what a paper measures, or this program alone: nodes, predictions, the desk."""
    from launch.commands.run import find_engine

    if engine is not None and name is not None and name in SUITES and not SUITES[name].takes_engine:
        takers = ", ".join(known for known, one in SUITES.items() if one.takes_engine)
        raise RunError(f"{name} takes no --engine: leave {engine!r} out; these do: {takers}")
    find_engine(engine)
    wanted = {"score": score, "engine": engine, "keys": keys, "output": output}
    return _measure(SUITES, name, _words(topology, overrides), json, **wanted, **_amount(repetitions, seconds, quick))


@app.command()
def peers(
    name: Annotated[str | None, typer.Argument(metavar="WORK", help="Without it the comparisons are listed.")] = None,
    topology: Topology = None,
    overrides: Overrides = None,
    repetitions: Repetitions = 5,
    seconds: Seconds = 15.0,
    quick: Quick = False,
    output: Output = None,
    json: Json = False,
) -> int:
    """Compare rates with other programs on the same work. benchmarks/peers/install.sh installs them."""
    wanted = {"output": output, **_amount(repetitions, seconds, quick)}
    return _measure(PEERS, name, _words(topology, overrides), json, **wanted)


@app.command()
def gpu(  # noqa: PLR0913 - one parameter for each word of the command
    overrides: Overrides = None,
    every_part: Annotated[bool, typer.Option("--all", help="Do all parts.")] = False,
    parts: Annotated[list[str] | None, typer.Option("--part", metavar="NAME", help="Do this part; repeatable.")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.1, max=1_440.0, help="Begin no part that would not be over in this time.")
    ] = None,
    device: Annotated[str, typer.Option(help="cuda, or cpu to try the parts without a GPU.")] = "cuda",
    repetitions: Repetitions = 5,
    seconds: Seconds = 5.0,
    quick: Quick = False,
    score: Annotated[float | None, typer.Option(help="The mean score of Pong to reach; else 18.")] = None,
    output: Output = None,
    json: Json = False,
) -> int:
    """Measure on a machine with a GPU, in parts: run the named parts; without a name, list them."""
    from benchmarks.gpu.visit import ALL

    named = (ALL,) if every_part else tuple(parts or ())
    wanted = {"parts": named, "minutes": minutes, "device": device, "score": score, "output": output}
    words, amount = _words(None, overrides), _amount(repetitions, seconds, quick)
    return _measure({"gpu": VISIT}, "gpu", words, json, **wanted, **amount)


@app.command("gpu-kit")
def gpu_kit(
    there: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Leave out a package that the machine has; repeatable.")
    ] = None,
) -> int:
    """Make .gpu-kit: wheels that install this checkout without a network on a machine with torch."""
    from benchmarks.gpu import kit

    return kit.main(there or ())


@app.command()
def pages() -> int:
    """Write the pages of the ledger again, and the tables in both READMEs that are made from it."""
    from benchmarks.claims import page

    page.main()
    return 0


def _words(topology: str | None, overrides: list[str] | None) -> list[str]:
    return [*([topology] if topology is not None else []), *(overrides or [])]


def _amount(repetitions: int, seconds: float, quick: bool) -> dict[str, Any]:
    return {"repetitions": 1 if quick else repetitions, "seconds": 5.0 if quick else seconds}


def _measure(known: Mapping[str, Benchmark], name: str | None, words: list[str], json: bool, **wanted: Any) -> int:
    """Run a benchmark, or list all; return the exit status."""
    from launch.commands.bench import measure, show_list, what_to_measure

    if name is None:
        show_list(known)
        return 0
    if name not in known:
        raise RunError(f"{name!r} is none of these: {', '.join(known)}")
    request = BenchmarkRequest(**what_to_measure(name, known[name], words), **wanted)
    measure(name, known[name], request, json)
    return 0


def main() -> None:
    """Run the command line, and end the process with its exit status."""
    end_in_order()
    app(prog_name="python -m benchmarks")


if __name__ == "__main__":
    main()
