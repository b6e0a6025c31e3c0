"""The command line: its commands, their arguments and options; each command's work is done in the module it imports.

Imports nothing heavy before it is known which command is wanted, so that ``actorlearn --help`` is quick.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from actorlearn import __version__
from launch.command_group import Commands
from launch.errors import RunError

Topology = Annotated[
    str, typer.Argument(metavar="TOPOLOGY", help="The YAML file that says which processes run, with which numbers.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Keys to set otherwise, e.g. simulators.count=4; @FILE: one a line."),
]
RunWord = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, a run's name, or the beginning of one.")]
AnyRun = Annotated[
    str | None,
    typer.Argument(metavar="[RUN]", help="A run folder, a run's name, or the beginning of one; else the newest."),
]
Engine = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Starts the nodes: an engine that `actorlearn doctor` lists; else you do."),
]
Keys = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Keys of the head, made by `actorlearn keys new`; for nodes on other machines."),
]
Plain = Annotated[bool, typer.Option("--plain", help="Lines for a log, one a report, in place of a live picture.")]
Json = Annotated[bool, typer.Option("--json", help="Say it as one JSON object.")]

_TRAIN, _CARE, _RESULTS, _MACHINE = "Train", "Look after runs", "Results", "This machine"


app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"actorlearn {__version__}")
        raise typer.Exit


@app.callback()
def actorlearn(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train deep-RL agents with simulators, inference servers and trainers as independent processes."""


@app.command(rich_help_panel=_TRAIN)
def run(
    topology: Topology,
    overrides: Overrides = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="Folder for everything the run leaves; else runs/NAME-YYYYmmdd-HHMMSS.")
    ] = None,
    engine: Engine = None,
    keys: Keys = None,
    plain: Plain = False,
) -> int:
    """Start a run, show it live, and end when total_steps is reached. Ctrl-C: save and stop; twice: stop now."""
    from launch.commands.run import start

    return start(topology, overrides or [], run_dir, engine, keys, plain)


@app.command(rich_help_panel=_TRAIN)
def check(topology: Topology, overrides: Overrides = None, json: Json = False) -> int:
    """Validate a topology and print the plan: processes, sockets, segments, bytes, cores. Starts nothing."""
    from launch.commands.check import check

    return check(topology, overrides or [], json)


@app.command(rich_help_panel=_TRAIN)
def resume(
    run: RunWord, overrides: Overrides = None, engine: Engine = None, keys: Keys = None, plain: Plain = False
) -> int:
    """Go on with a run that has ended, from its newest valid checkpoint, e.g. with a larger total_steps."""
    from launch.commands.run import resume

    return resume(run, overrides or [], engine, keys, plain)


@app.command(rich_help_panel=_TRAIN)
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The YAML file that says which keys and seeds vary.")],
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of its state and its runs; else runs/NAME of the file.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Say what would be run, and start nothing.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try runs again that have failed.")] = False,
    engine: Engine = None,
    keys: Keys = None,
    json: Json = False,
) -> int:
    """Run a topology with varying keys and seeds, many at once; a table at the end. Killed or stopped, it goes on."""
    from launch.commands.sweep import sweep

    return sweep(file, folder, check, retry, json, engine, keys)


@app.command(rich_help_panel=_TRAIN)
def node(
    join: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the head of the run listens.")],
    key: Annotated[Path, typer.Option(metavar="FILE", help="This node's key, made by `actorlearn keys new`.")],
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for logs and checkpoints; else a temporary one.")
    ] = None,
    patience_s: Annotated[float, typer.Option(min=1.0, help="Longest time without a head, in seconds.")] = 300.0,
) -> int:
    """Be a node of a run on several machines: start and watch its processes here, until the run is over."""
    from launch.commands.node import serve

    return serve(join, key, folder, patience_s)


@app.command(rich_help_panel=_TRAIN)
def manifest(
    topology: Topology,
    image: Annotated[str, typer.Option(metavar="IMAGE", help="Container image that has actorlearn.")],
    overrides: Overrides = None,
    secret: Annotated[
        str, typer.Option(metavar="NAME", help="Secret with the files of `actorlearn keys new`.")
    ] = "actorlearn-keys",
    claim: Annotated[
        str | None, typer.Option(metavar="NAME", help="Volume claim for the run's folder; else its pod keeps it.")
    ] = None,
) -> int:
    """Print a run as a manifest for Kubernetes: a JobSet of a head and nodes.count nodes. Starts nothing."""
    from launch.commands.manifest import show

    return show(topology, overrides or [], image, secret, claim)


@app.command(rich_help_panel=_CARE)
def ps(
    json: Json = False,
    ended: Annotated[bool, typer.Option("--all", "-a", help="Also list runs under runs/ that have ended.")] = False,
) -> int:
    """List the runs of this user that are alive on this machine."""
    from launch.commands.manage import ps

    return ps(ended, json)


@app.command(rich_help_panel=_CARE)
def top(
    run: AnyRun = None,
    json: Json = False,
    once: Annotated[bool, typer.Option("--once", help="Show it once and exit, as without a terminal.")] = False,
    plain: Plain = False,
) -> int:
    """Watch a run: speed, score, where the time goes, processes, events."""
    from launch.commands.watch import top

    return top(run, once, json, plain)


@app.command(rich_help_panel=_CARE)
def health(run: AnyRun = None, json: Json = False) -> int:
    """Say when a run's learning was ill and what to try, by the rules in docs/health.md over its metrics.jsonl."""
    from launch.commands.health import health

    return health(run, json)


@app.command(rich_help_panel=_CARE)
def desk(
    runs: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of runs, else runs/; living runs are shown wherever.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port on this machine alone; 0: any free one.")] = 8300,
    changes: Annotated[
        bool, typer.Option("--allow-changes", help="Have buttons that attach, detach, save and stop.")
    ] = False,
) -> int:
    """Show runs in a browser, living and ended, until Ctrl-C: prints an address that opens it."""
    from launch.commands.desk import desk
    from launch.runs.find import RUNS

    return desk(runs or RUNS, port, changes)


@app.command(rich_help_panel=_CARE)
def logs(
    run: RunWord,
    process: Annotated[str | None, typer.Argument(help="One process, e.g. trainer or simulator-0; else all.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Last lines of each process to begin with.")] = 50,
) -> int:
    """Print what processes wrote to stdout and stderr."""
    from launch.commands.watch import logs

    return logs(run, process, follow, lines)


@app.command(rich_help_panel=_CARE)
def stop(
    run: RunWord,
    now: Annotated[bool, typer.Option("--now", help="Do not save first; kill it if it does not answer.")] = False,
    timeout_s: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for its end.")] = 120.0,
    json: Json = False,
) -> int:
    """Have a run finish its update, save a checkpoint and end; returns when it has ended."""
    from launch.commands.manage import stop

    return stop(run, now, timeout_s, json)


@app.command(rich_help_panel=_CARE)
def save(run: RunWord, json: Json = False) -> int:
    """Have a living run save a checkpoint now; returns when it is on disk."""
    from launch.commands.manage import save

    return save(run, json)


@app.command(rich_help_panel=_CARE)
def attach(
    run: RunWord,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="env.* keys of the new simulators.")
    ] = None,
    simulators: Annotated[
        int | None, typer.Option("--simulators", "-n", min=1, help="How many to add; else 1.")
    ] = None,
    learners: Annotated[int | None, typer.Option(min=1, help="Learners to add instead, in mode gossip.")] = None,
    json: Json = False,
) -> int:
    """Add simulators to a living run, or whole learners to one in mode gossip."""
    from launch.commands.manage import attach

    return attach(run, simulators or (0 if learners else 1), learners or 0, overrides or [], json)


@app.command(rich_help_panel=_CARE)
def detach(
    run: RunWord,
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Simulators, e.g. simulator-3; in mode gossip trainers.")
    ],
    json: Json = False,
) -> int:
    """Drain simulators of a living run at the next boundary of a rollout, or whole learners after their batch."""
    from launch.commands.manage import detach

    return detach(run, names, json)


@app.command(rich_help_panel=_CARE)
def clean(json: Json = False) -> int:
    """Remove shared memory and sockets that dead runs of this user left. Run folders are never touched."""
    from launch.commands.manage import clean

    return clean(json)


@app.command(rich_help_panel=_RESULTS)
def eval(
    run: RunWord,
    episodes: Annotated[int | None, typer.Option(min=1, help="Whole games to play; else evaluator.episodes.")] = None,
    greedy: Annotated[
        bool | None,
        typer.Option("--greedy/--sample", help="Best action, or a draw from the policy; else evaluator.greedy."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of games and actions; else the topology's.")] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Write the best, the median and the worst game as MP4 to RUN/films.")
    ] = False,
    json: Json = False,
) -> int:
    """Play whole games with the newest valid checkpoint and print the raw scores."""
    from launch.commands.evaluate import evaluate

    return evaluate(run, episodes, greedy, seed, record, json)


@contextmanager
def _drawing(output: Path | None) -> Iterator[None]:
    """Say in one line what cannot be read, drawn or written."""
    try:
        yield
    except RunError:
        raise
    except OSError as error:
        file, reason = error.filename or output, error.strerror or error
        raise typer.BadParameter(f"{file}: cannot be read or written: {reason}; name another file") from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@app.command(rich_help_panel=_RESULTS)
def plot(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders, names, or beginnings of names.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The picture to write: .png, .svg or .pdf.")],
    columns: Annotated[
        list[str] | None, typer.Option("--y", help="A column of metrics.jsonl, may be given again; else the score.")
    ] = None,
    apart: Annotated[
        bool, typer.Option("--apart", help="A line for each run, also for seeds of one topology.")
    ] = False,
) -> int:
    """Draw learning curves against steps and against time; seeds of one topology as a band around their middle."""
    from launch.display.plot import plot
    from launch.runs.curves import SCORE
    from launch.runs.find import find

    with _drawing(output):
        plot([find(run) for run in runs], output, columns or [SCORE], apart)
    typer.echo(f"wrote {output}")
    return 0


@app.command(rich_help_panel=_RESULTS)
def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders, names, or beginnings of names.")],
    column: Annotated[str, typer.Option("--y", help="A column of metrics.jsonl; else the score.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A picture to write: .png, .svg or .pdf.")
    ] = None,
    json: Json = False,
) -> int:
    """Set runs of several seeds side by side: those that differ in the seed alone are one group."""
    from launch.commands.compare import compare
    from launch.runs.curves import SCORE

    with _drawing(output):
        return compare(runs, column or SCORE, output, json)


@app.command("import", rich_help_panel=_RESULTS)
def import_curves(
    sources: Annotated[
        list[Path], typer.Argument(metavar="LOG...", help="Event files, monitor.csv, progress.csv, CSV; or folders.")
    ],
    into: Annotated[Path, typer.Option("--into", help="Folder for the run folders.")] = Path("runs"),
    env: Annotated[str | None, typer.Option("--env", help="The environment; else what the log says.")] = None,
    algorithm: Annotated[str | None, typer.Option("--algorithm", help="Who learned; else what the log says.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="The seed, of one run; else what the log says.")] = None,
    score: Annotated[str | None, typer.Option("--score", help="Tag or column of the score; else one known.")] = None,
    frames_per_step: Annotated[
        int | None, typer.Option("--frames-per-step", min=1, help="Frames of the game in a step, for Atari 4.")
    ] = None,
    json: Json = False,
) -> int:
    """Make run folders of learning curves of CleanRL, Stable-Baselines3 and others, to plot and compare beside ours."""
    from launch.commands.import_curves import Said, import_curves

    with _drawing(into):
        return import_curves(sources, into, Said(env, algorithm, seed, score, frames_per_step), json)


@app.command(rich_help_panel=_RESULTS)
def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders, names, or beginnings of names.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write: one page of HTML.")],
    column: Annotated[str, typer.Option("--y", help="A column of metrics.jsonl; else the score.")] = "",
) -> int:
    """Write runs as one static page: curves, topology, machine, commit, commands. It opens without a network."""
    from launch.commands.desk import report
    from launch.runs.curves import SCORE

    with _drawing(output):
        return report(runs, column or SCORE, output)


@app.command(rich_help_panel=_RESULTS)
def export(
    run: RunWord,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder to make.")],
    episodes: Annotated[
        int | None,
        typer.Option(min=0, help="Whole games to score it by first; else evaluator.episodes; 0: none."),
    ] = None,
    learner: Annotated[int, typer.Option(min=0, help="Whose weights, where learners have their own.")] = 0,
    weights: Annotated[
        bool, typer.Option("--weights", help="Write weights, card and topology alone; this needs no extra onnx.")
    ] = False,
    json: Json = False,
) -> int:
    """Write the policy to a folder that needs no actorlearn: ONNX with a player, safetensors, a card."""
    from launch.commands.export import export

    return export(run, output, episodes, learner, weights, json)


@app.command(rich_help_panel=_MACHINE)
def bench(  # noqa: PLR0913 - one parameter for each word of the command
    suite: Annotated[str | None, typer.Argument(help="What to measure; without it the suites are listed.")] = None,
    topology: Annotated[
        str | None,
        typer.Argument(help="The topology to measure; without it configs/pong.yaml, or the suite's own."),
    ] = None,
    overrides: Overrides = None,
    repetitions: Annotated[
        int, typer.Option(min=1, max=1000, help="How often each case is measured, in turn with the others.")
    ] = 5,
    seconds: Annotated[
        float, typer.Option(min=1.0, max=86_400.0, help="The length of one measurement, in seconds.")
    ] = 15.0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure fewer cases, once, for 5 seconds: a rough answer.")
    ] = False,
    score: Annotated[float | None, typer.Option(help="time-to-score: the mean score to reach.")] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="time-to-score: how many seeds to draw from the clock, else 5; or the seeds, with commas between."
        ),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="time-to-score: let each run go on to its own end after the score.")
    ] = False,
    parts: Annotated[
        list[str] | None, typer.Option("--part", metavar="NAME", help="gpu: a part to measure; repeatable; else all.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="gpu: cuda, the default, or cpu.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for SUITE.json, .md, .png.")] = None,
    json: Json = False,
) -> int:
    """Measure this machine: sampling, training, replay, memory, the time to a score, a GPU."""
    from launch.commands.bench import bench

    words = [*([topology] if topology is not None else []), *(overrides or [])]
    wanted: dict[str, object] = {
        "repetitions": 1 if quick else repetitions,
        "seconds": 5.0 if quick else seconds,
        "score": score,
        "seeds_wanted": seeds,
        "whole": whole,
        "parts": tuple(parts or ()),
        "device": device,
        "output": output,
    }
    return bench(suite, words, wanted, json)


@app.command(rich_help_panel=_MACHINE)
def tune(
    topology: Topology,
    overrides: Overrides = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the fastest keys go.")] = Path("tuned.keys"),
) -> int:
    """Try ways to spread a topology over this machine, some minutes, and write the fastest as a file of overrides."""
    from launch.commands.tune import tune

    return tune(topology, overrides or [], output)


@app.command(rich_help_panel=_MACHINE)
def simulate(
    topology: Topology,
    overrides: Overrides = None,
    run: Annotated[
        str | None,
        typer.Option("--from", metavar="RUN", help="A run whose reports give the costs; else they are measured."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1.0, max=86_400.0, help="How long costs are measured.")] = 10.0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file to write: .csv, or a picture: .png, .svg, .pdf.")
    ] = None,
    json: Json = False,
) -> int:
    """Predict rate, staleness and bottleneck on nodes.count machines by a model; simulate.KEY=VALUE for its numbers."""
    from launch.commands.simulate import simulate

    return simulate(topology, overrides or [], run, seconds, output, json)


@app.command(rich_help_panel=_MACHINE)
def doctor(json: Json = False) -> int:
    """Say what will bite: /dev/shm, limits, cores, GPU, libraries. Exit status 1 if something would stop a run."""
    from launch.commands.doctor import doctor

    return doctor(json)


keys = typer.Typer(no_args_is_help=True, help="Keys with which other machines connect to a head.")
app.add_typer(keys, name="keys", rich_help_panel=_MACHINE)
KeysFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the keys, on the head's machine.")]


@keys.command("new")
def new_keys(
    folder: KeysFolder,
    node: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Node to make a key for; may be given again.")
    ] = None,
) -> int:
    """Make the head's key, if there is none, and one file for each node, to be moved there. Overwrites nothing."""
    from launch.commands.keys import new

    return new(folder, node or [])


@keys.command("list")
def list_keys(folder: KeysFolder, json: Json = False) -> int:
    """List the nodes whose keys may connect."""
    from launch.commands.keys import show

    return show(folder, json)


@keys.command("revoke")
def revoke_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The node that may no longer connect.")],
    folder: KeysFolder,
) -> int:
    """Take a node's key off the list; a head that is running heeds it within a second."""
    from launch.commands.keys import take_back

    return take_back(folder, name)


def main() -> None:
    """Entry point of ``actorlearn``."""
    app(prog_name="actorlearn")
