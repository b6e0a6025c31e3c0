"""The command line: its commands, with their arguments, options and help texts.

The work of a command is done in ``launch/commands``. Each function imports its module when it is called, so that
``actorlearn --help`` does not wait for slow imports.
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
from launch.machine.signals import end_in_order

Topology = Annotated[str, typer.Argument(metavar="TOPOLOGY", help="The YAML file that describes the run.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...",
        help="Changes to keys, e.g. simulators.count=4. @FILE reads them from a file, one per line.",
    ),
]
RunWord = Annotated[
    str, typer.Argument(metavar="RUN", help="Folder or name of a run, the beginning of its name, or the word newest.")
]
AnyRun = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]",
        help="Folder or name of a run, or the beginning of its name. "
        "Default: the newest living run, or else the newest run.",
    ),
]
Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...", help="Folders or names of runs, beginnings of names (all runs that begin so), or newest."
    ),
]
Column = Annotated[str, typer.Option("--y", help="Column of metrics.jsonl. Default: the score.")]
Engine = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Engine that starts the nodes on several machines; `actorlearn doctor` lists the engines. "
        "Default: none; you start each node with `actorlearn node`.",
    ),
]
Keys = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder of keys made by `actorlearn keys new`, for nodes that you start on other machines. "
        "With --engine it is not needed.",
    ),
]
Plain = Annotated[
    bool, typer.Option("--plain", help="Print a line for each report and event instead of a screen that changes.")
]
At = Annotated[
    str,
    typer.Option(
        "--at", metavar="CHECKPOINT", help="Checkpoint: newest, best, or the environment steps of a kept checkpoint."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]

_TRAIN, _CARE, _RESULTS, _MACHINE = "Train", "Look after runs", "Results", "This machine"


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


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
    """Train deep-RL agents with separate processes for simulators, inference servers and trainers."""


@app.command(rich_help_panel=_TRAIN)
def run(
    topology: Topology,
    overrides: Overrides = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="Folder for all files of the run. Default: runs/NAME-YYYYmmdd-HHMMSS.")
    ] = None,
    engine: Engine = None,
    keys: Keys = None,
    plain: Plain = False,
) -> int:
    """Start a run and show its progress until total_steps. Ctrl-C saves and stops; a second Ctrl-C stops at once."""
    from launch.spawning.prepared import prepared

    with prepared():
        from launch.commands.run import start

        return start(topology, overrides or [], run_dir, engine, keys, plain)


@app.command(rich_help_panel=_TRAIN)
def check(
    topology: Topology,
    overrides: Overrides = None,
    everything: Annotated[
        bool,
        typer.Option("--all", "-a", help="Also print every key with its value, the processes, and the shared memory."),
    ] = False,
    json: Json = False,
) -> int:
    """Validate a topology, and print the plan of the run and warnings. Starts no run.

    Also prints the keys that you set, and the values that actorlearn chose for other keys, with the reasons.
    """
    from launch.spawning.prepared import prepared

    with prepared():
        from launch.commands.check import check

        return check(topology, overrides or [], json, everything)


@app.command(rich_help_panel=_TRAIN)
def resume(
    run: RunWord,
    overrides: Overrides = None,
    at: At = "newest",
    engine: Engine = None,
    keys: Keys = None,
    plain: Plain = False,
) -> int:
    """Continue an ended run from its newest valid checkpoint, for example with a larger total_steps.

    With --at, newer checkpoints are moved to the folder checkpoints/aside.
    """
    from launch.spawning.prepared import prepared

    with prepared():
        from actorlearn.parameters.chosen_checkpoints import read_at
        from launch.commands.run import resume

        return resume(run, overrides or [], engine, keys, plain, read_at(at))


@app.command(hidden=True)
def supervise(
    folder: Annotated[Path, typer.Argument(help="Folder of the run, made by the program.")],
    topology: Topology,
    errors: Annotated[int, typer.Option(help="Descriptor of a pipe that receives an error.")],
    overrides: Overrides = None,
    resume_at: Annotated[str | None, typer.Option(help="Continue the run in the folder from this checkpoint.")] = None,
) -> int:
    """Run a topology for a Python program, which calls this command by itself."""
    from launch.spawning.prepared import prepared

    with prepared():
        from actorlearn.parameters.chosen_checkpoints import read_at
        from launch.python.child import supervise

        return supervise(folder, topology, overrides or [], errors, None if resume_at is None else read_at(resume_at))


@app.command(rich_help_panel=_TRAIN)
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The YAML file that describes the sweep.")],
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for the state and the runs. Default: runs/NAME, with the name of the file."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check the sweep and print the runs without starting them.")
    ] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Start failed runs again.")] = False,
    engine: Engine = None,
    keys: Keys = None,
    json: Json = False,
) -> int:
    """Run a topology with many values of keys and many seeds. The same command continues an interrupted sweep."""
    from launch.commands.sweep import sweep

    return sweep(file, folder, check, retry, json, engine, keys)


@app.command(rich_help_panel=_TRAIN)
def node(
    join: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of the run's head.")],
    key: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Key file of this node, made on the head's machine by `actorlearn keys new`."
        ),
    ],
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for logs, checkpoints and films. Default: a temporary folder, which is removed at the end.",
        ),
    ] = None,
    patience_s: Annotated[
        float, typer.Option(min=1.0, help="Seconds without contact to the head after which the node gives up.")
    ] = 300.0,
) -> int:
    """Join a run as a node: start and watch processes on this machine until the run ends."""
    from launch.spawning.prepared import prepared

    with prepared():
        from launch.commands.node import serve

        return serve(join, key, folder, patience_s)


@app.command(rich_help_panel=_TRAIN)
def manifest(
    topology: Topology,
    image: Annotated[str, typer.Option(metavar="IMAGE", help="Container image with actorlearn installed.")],
    overrides: Overrides = None,
    secret: Annotated[
        str, typer.Option(metavar="NAME", help="Kubernetes secret with the files of `actorlearn keys new`.")
    ] = "actorlearn-keys",
    claim: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="PersistentVolumeClaim for the run's folder, so that a restarted head resumes the run. "
            "Default: the folder is lost with the pod.",
        ),
    ] = None,
) -> int:
    """Print a Kubernetes manifest: a JobSet with a head and nodes.count nodes. Starts nothing."""
    from launch.commands.manifest import show

    return show(topology, overrides or [], image, secret, claim)


@app.command(rich_help_panel=_CARE)
def ps(
    json: Json = False,
    ended: Annotated[bool, typer.Option("--all", "-a", help="Also list the ended runs in the folder runs/.")] = False,
) -> int:
    """List your living runs on this machine."""
    from launch.commands.manage import ps

    return ps(ended, json)


@app.command(rich_help_panel=_CARE)
def top(
    run: AnyRun = None,
    json: Json = False,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Print the screen once and exit. This is the default if the output is not a terminal."
        ),
    ] = False,
    plain: Plain = False,
) -> int:
    """Watch a run: rate, score, time per stage, processes and events."""
    from launch.commands.watch import top

    return top(run, once, json, plain)


@app.command(rich_help_panel=_CARE)
def health(run: AnyRun = None, json: Json = False) -> int:
    """Report when learning went wrong and what to try, by the rules of docs/health.md."""
    from launch.commands.health import health

    return health(run, json)


@app.command(rich_help_panel=_CARE)
def desk(
    runs: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of runs. Default: runs/. Living runs are shown wherever they are."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port, reachable from this machine only. 0 takes a free port.")
    ] = 8300,
    changes: Annotated[
        bool, typer.Option("--allow-changes", help="Show buttons that attach, detach, save and stop.")
    ] = False,
) -> int:
    """Serve living and ended runs to a browser until Ctrl-C. Prints the address to open."""
    from launch.commands.desk import desk
    from launch.runs.find import RUNS

    return desk(runs or RUNS, port, changes)


@app.command(rich_help_panel=_CARE)
def logs(
    run: RunWord,
    process: Annotated[
        str | None, typer.Argument(help="One process, e.g. trainer or simulator-0. Default: all processes.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the output until the run ends.")] = False,
    lines: Annotated[
        int,
        typer.Option("--lines", "-n", min=0, max=10**9, help="Number of last lines of each process to print first."),
    ] = 50,
) -> int:
    """Print the standard output and standard error of a run's processes."""
    from launch.commands.watch import logs

    return logs(run, process, follow, lines)


@app.command(rich_help_panel=_CARE)
def stop(
    run: RunWord,
    now: Annotated[bool, typer.Option("--now", help="Stop without saving. Kills a run that does not answer.")] = False,
    timeout_s: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for the end of the run.")] = 120.0,
    json: Json = False,
) -> int:
    """Finish the current update, save a checkpoint and end the run. Returns when it has ended."""
    from launch.commands.manage import stop

    return stop(run, now, timeout_s, json)


@app.command(rich_help_panel=_CARE)
def save(run: RunWord, json: Json = False) -> int:
    """Save a checkpoint of each learner of a living run now. Returns when they are on disk."""
    from launch.commands.manage import change

    return change(run, "save", json)


@app.command(rich_help_panel=_CARE)
def attach(
    run: RunWord,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Changes to env.* keys for the new simulators.")
    ] = None,
    simulators: Annotated[
        int | None,
        typer.Option(
            "--simulators",
            "-n",
            min=1,
            max=10_000,
            help="Number of simulators to add. Default: 1, unless --learners is given.",
        ),
    ] = None,
    learners: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Number of learners to add instead; only in mode gossip.")
    ] = None,
    json: Json = False,
) -> int:
    """Add simulators to a living run, or learners in mode gossip."""
    from launch.commands.manage import change

    count = simulators or (0 if learners else 1)
    return change(run, "attach", json, simulators=count, learners=learners or 0, overrides=overrides or [])


@app.command(rich_help_panel=_CARE)
def detach(
    run: RunWord,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...", help="Simulators, e.g. simulator-3; in mode gossip also trainers, e.g. trainer-1."
        ),
    ],
    json: Json = False,
) -> int:
    """Remove simulators from a living run at the next rollout, or learners after their update."""
    from launch.commands.manage import change

    return change(run, "detach", json, names=names)


@app.command(rich_help_panel=_CARE)
def clean(json: Json = False) -> int:
    """Remove shared memory and sockets of your dead runs. Run folders are not touched."""
    from launch.commands.manage import clean

    return clean(json)


@app.command(rich_help_panel=_RESULTS)
def eval(
    run: RunWord,
    at: At = "newest",
    save: Annotated[
        bool, typer.Option("--save", help="If the run is alive, save a checkpoint first, and play with it.")
    ] = False,
    episodes: Annotated[
        int | None, typer.Option(min=1, max=10**6, help="Number of games to play. Default: evaluator.episodes.")
    ] = None,
    greedy: Annotated[
        bool | None,
        typer.Option(
            "--greedy/--sample", help="Take the best action or sample from the policy. Default: evaluator.greedy."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**63 - 1, help="Seed of games and actions. Default: the topology's seed.")
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Record the best, the median and the worst game as MP4 in RUN/films.")
    ] = False,
    json: Json = False,
) -> int:
    """Play games with a checkpoint, by default the newest valid one, and print the raw scores.

    If the run is alive, it also prints how many steps the run has learned since this checkpoint.
    """
    from actorlearn.parameters.chosen_checkpoints import read_at
    from launch.commands.evaluate import evaluate

    return evaluate(run, episodes, greedy, seed, record, json, read_at(at), save)


@contextmanager
def _drawing(output: Path | None) -> Iterator[None]:
    """Convert errors of reading, drawing and writing to messages of one line."""
    try:
        yield
    except (RunError, BrokenPipeError):  # a reader of standard output may end at any time
        raise
    except OSError as error:
        file, reason = error.filename or output, error.strerror or error
        raise RunError(f"{file}: cannot be read or written: {reason}; name another file") from None
    except ValueError as error:
        raise RunError(str(error)) from None


@app.command(rich_help_panel=_RESULTS)
def plot(
    runs: Runs,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File for the picture: .png, .svg or .pdf. Default: curves.png in the folder of the run; for several "
            "runs, in the current folder.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--y", help="Column of metrics.jsonl to draw; repeatable. Default: the score.")
    ] = None,
    apart: Annotated[
        bool, typer.Option("--apart", help="Draw one line per run, also for seeds of one topology.")
    ] = False,
) -> int:
    """Draw learning curves over steps and over time, with one band for all seeds of a topology."""
    from launch.display.plot import plot
    from launch.runs.curves import SCORE
    from launch.runs.find import describe_found, find_all, output_of

    found, left_out = find_all(runs)
    for line in filter(None, [describe_found(runs, found), left_out]):
        typer.echo(line)
    output = output or output_of(found, "curves.png")
    with _drawing(output):
        plot(found, output, columns or [SCORE], apart)
    typer.echo(f"wrote {output}")
    return 0


@app.command(rich_help_panel=_RESULTS)
def compare(
    runs: Runs,
    column: Column = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for a picture: .png, .svg or .pdf.")
    ] = None,
    json: Json = False,
) -> int:
    """Compare groups of runs; runs that differ only in name and seed form one group."""
    from launch.commands.compare import compare
    from launch.runs.curves import SCORE

    with _drawing(output):
        return compare(runs, column or SCORE, output, json)


@app.command("import", rich_help_panel=_RESULTS)
def import_curves(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="LOG...", help="Event files, monitor.csv, progress.csv, other CSV files, or folders."),
    ],
    into: Annotated[Path, typer.Option("--into", help="Folder in which the run folders are made.")] = Path("runs"),
    env: Annotated[str | None, typer.Option("--env", help="Environment. Default: as in the log.")] = None,
    algorithm: Annotated[str | None, typer.Option("--algorithm", help="Algorithm. Default: as in the log.")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of the run, if only one is imported. Default: as in the log.")
    ] = None,
    score: Annotated[
        str | None, typer.Option("--score", help="Tag or column of the score. Default: the first known one.")
    ] = None,
    frames_per_step: Annotated[
        int | None,
        typer.Option(
            "--frames-per-step", min=1, help="Frames of the game per step: 4 for Atari. Default: frames are not shown."
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Make run folders from logs of CleanRL, Stable-Baselines3 and others, to plot and compare them with yours."""
    from launch.commands.import_curves import Said, import_curves

    with _drawing(into):
        return import_curves(sources, into, Said(env, algorithm, seed, score, frames_per_step), json)


@app.command(rich_help_panel=_RESULTS)
def report(
    runs: Runs,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="HTML file to write. Default: report.html in the folder of the run; for several runs, in the current "
            "folder.",
        ),
    ] = None,
    column: Column = "",
) -> int:
    """Write one HTML file about runs: curves, topology, machine, commit and commands. It needs no network."""
    from launch.commands.desk import report
    from launch.runs.curves import SCORE

    with _drawing(output):
        return report(runs, column or SCORE, output)


@app.command(rich_help_panel=_RESULTS)
def export(
    run: RunWord,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to make.")],
    at: At = "newest",
    episodes: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=10**6,
            help="Number of games by which the score on the card is measured. 0: it is not measured. "
            "Default: evaluator.episodes.",
        ),
    ] = None,
    learner: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Number of the learner to export, if learners have different weights. Default: the first that has the "
            "checkpoint and has not left the run.",
        ),
    ] = None,
    weights: Annotated[
        bool, typer.Option("--weights", help="Write only weights, card and topology. Does not need the extra onnx.")
    ] = False,
    json: Json = False,
) -> int:
    """Export the policy to a folder that does not need actorlearn: ONNX with a player, safetensors and a card."""
    from actorlearn.parameters.chosen_checkpoints import read_at
    from launch.commands.export import export

    return export(run, output, episodes, learner, weights, json, read_at(at))


@app.command(rich_help_panel=_MACHINE)
def bench(  # noqa: PLR0913 - one parameter for each word of the command
    suite: Annotated[str | None, typer.Argument(help="Suite to run. Default: list the suites.")] = None,
    topology: Annotated[
        str | None,
        typer.Argument(
            help="Topology to measure. Default: configs/pong.yaml, or that of the suite. For the suite "
            "games: runs; for zoo: rows."
        ),
    ] = None,
    overrides: Overrides = None,
    repetitions: Annotated[
        int,
        typer.Option(min=1, max=1000, help="Number of measurements of each case. The cases are measured in turn."),
    ] = 5,
    seconds: Annotated[float, typer.Option(min=1.0, max=86_400.0, help="Seconds of one measurement.")] = 15.0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure fewer cases, each once and for 5 seconds. The numbers are rough.")
    ] = False,
    score: Annotated[float | None, typer.Option(help="time-to-score: mean score to reach.")] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="time-to-score, zoo: number of seeds to draw from the clock, or seeds separated by commas. Default: 5."
        ),
    ] = None,
    whole: Annotated[
        bool,
        typer.Option("--whole", help="time-to-score: continue each run to its end after it has reached the score."),
    ] = False,
    parts: Annotated[
        list[str] | None, typer.Option("--part", metavar="NAME", help="gpu: part to measure; repeatable. Default: all.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="gpu: device to measure, cuda or cpu. Default: cuda.")] = None,
    at_once: Annotated[
        int | None, typer.Option(min=1, max=1000, help="zoo: number of runs at once. Default: the number of cores.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for SUITE.json, .md, .png.")] = None,
    json: Json = False,
) -> int:
    """Measure this machine: sampling, training, replay, memory, the time to a score, a GPU; and tables of scores."""
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
        "at_once": at_once,
        "output": output,
    }
    return bench(suite, words, wanted, json)


@app.command(rich_help_panel=_MACHINE)
def tune(
    topology: Topology,
    overrides: Overrides = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the fastest keys.")] = Path("tuned.keys"),
) -> int:
    """Find the fastest process counts for a topology on this machine, in some minutes, and write them to a file."""
    from launch.commands.tune import tune

    return tune(topology, overrides or [], output)


@app.command(rich_help_panel=_MACHINE)
def simulate(
    topology: Topology,
    overrides: Overrides = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="RUN", help="Run whose reports give the times of the stages. Default: they are measured."
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1.0, max=86_400.0, help="Seconds of the measurement.")] = 10.0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File for the points (.csv) or for a picture (.png, .svg or .pdf)."),
    ] = None,
    json: Json = False,
) -> int:
    """Predict the rate, staleness and bottleneck on nodes.count machines. simulate.KEY=VALUE changes the model."""
    from launch.commands.simulate import simulate

    return simulate(topology, overrides or [], run, seconds, output, json)


@app.command(rich_help_panel=_MACHINE)
def doctor(json: Json = False) -> int:
    """Diagnose this machine: /dev/shm, limits, cores, GPU, libraries. Exit status 1 if a run could not start."""
    from launch.commands.doctor import doctor

    return doctor(json)


keys = typer.Typer(no_args_is_help=True, help="Keys with which other machines connect to a head.")
app.add_typer(keys, name="keys", rich_help_panel=_MACHINE)
KeysFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the keys on the head's machine.")]


@keys.command("new")
def new_keys(
    folder: KeysFolder,
    node: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Name of a node for which a key is made; repeatable.")
    ] = None,
) -> int:
    """Make a key file for each node, and the head's key if there is none. Existing files are not overwritten."""
    from launch.commands.keys import new

    return new(folder, node or [])


@keys.command("list")
def list_keys(folder: KeysFolder, json: Json = False) -> int:
    """List the nodes that may connect."""
    from launch.commands.keys import show

    return show(folder, json)


@keys.command("revoke")
def revoke_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Node that may no longer connect.")],
    folder: KeysFolder,
) -> int:
    """Revoke a node's key. A running head applies this within a second."""
    from launch.commands.keys import take_back

    return take_back(folder, name)


def main() -> None:
    """Entry point of ``actorlearn``."""
    end_in_order()
    app(prog_name="actorlearn")
